// SPDX-License-Identifier: Apache-2.0
#include "datapath/stream_flow.h"

#include <utility>

#include "datapath/time_source.h"

namespace rubato {
namespace {

// Bytes that waited for longer than this behind a running request are dated by the kernel.
constexpr Nanos kLate = Nanos::micros(50);

void add(std::atomic<uint64_t>& counter, uint64_t n) {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace

void FlowList::push(StreamFlow& flow) {
  StreamFlow* head = head_.load(std::memory_order_relaxed);
  do {
    flow.next_in_list = head;
  } while (!head_.compare_exchange_weak(head, &flow, std::memory_order_release,
                                        std::memory_order_relaxed));
}

StreamFlow::StreamFlow(FlowHost& host, uint64_t id, std::string peer, Instant opened)
    : idle_since(opened),
      route_(host),
      input_(host.pool),
      reply_buffer_(host.limits.output_bytes),
      id_(id),
      peer_(std::move(peer)),
      opened_(opened) {
  reply = &reply_buffer_;
  datapath = host.queue;
}

void StreamFlow::attach(std::unique_ptr<Session> session_to_own) {
  session_ = std::move(session_to_own);
  session = session_.get();
}

bool StreamFlow::busy() const {
  const FlowState state = gate_.state();
  return state == FlowState::kScheduled || state == FlowState::kScheduledReadable ||
         (state == FlowState::kIdle && unsent_bytes() > 0);
}

Request* StreamFlow::on_event(FlowHost& queue, Instant now, bool late, bool writable_only) {
  if (!gate_.event()) return nullptr;
  if (&queue != &present()) {
    hand_on();
    return nullptr;
  }
  // The kernel reports every new connection writable; with nothing to send that means nothing.
  if (writable_only && reply_buffer_.empty() && drained_) {
    if (let_go()) return nullptr;
  } else if (!writable_only) {
    drained_ = false;
  }
  turn_bytes_ = 0;
  return advance({now, late});
}

Request* StreamFlow::finished() {
  add(requests_, 1);
  input_.consume(frame_length_);
  frame_length_ = 0;
  if (reply_buffer_.overflowed()) {
    present().overflowed.fetch_add(1, std::memory_order_relaxed);
    broken_ = true;
  }
  close_when_sent_ |= close_after;
  if (reply_buffer_.size() < kCoalesceBytes && may_frame() && route_.settled()) {
    if (Request* next = frame_next()) return next;
  }
  return advance({Instant::never()});
}

bool StreamFlow::may_frame() const {
  return !broken_ && !close_when_sent_ && !doomed_.load(std::memory_order_relaxed) &&
         !present().draining->load(std::memory_order_relaxed);
}

// Owner's loop: send, frame, receive, until there is a request, or nothing to do before the next
// event. Replies come first: while some are unsent no request is taken, which is the back-pressure.
// Between two requests the flow goes where it is wanted.
Request* StreamFlow::advance(Turn turn) {
  for (;;) {
    if (!broken_ && reply_buffer_.empty()) session->unasked(reply_buffer_);
    if (broken_ || !push_out()) return close();
    if (!route_.settled()) {
      hand_on();
      return nullptr;
    }
    if (!reply_buffer_.empty()) {
      if (let_go()) return nullptr;
      continue;
    }
    if (!may_frame()) return close();
    if (Request* next = frame_next()) return next;
    if (ended_) return close();
    if (drained_) {
      if (let_go()) return nullptr;
      continue;
    }
    const Pull pull = pull_in(turn);
    if (pull == Pull::kClose) return close();
    if (pull == Pull::kYield) {
      FlowHost& here = present();
      here.yielded.push(*this);
      here.queue->wake();
      return nullptr;
    }
  }
}

Request* StreamFlow::frame_next() {
  const std::string_view unread = input_.unread();
  if (unread.size() <= frame_tried_ || unread.size() < frame_wanted_) return nullptr;
  static_cast<RequestState&>(*this) = RequestState{};
  arrived = received_at_;
  Job::flow = id_;
  const Frame frame = session->frame(unread, *this);
  if (frame.state == FrameState::kIncomplete) {
    // A hint that is not ahead of what is here says nothing.
    frame_wanted_ = frame.length_bytes > unread.size() ? frame.length_bytes : 0;
    frame_tried_ = unread.size();
    return nullptr;
  }
  RUBATO_DCHECK(frame.length_bytes > 0 && frame.length_bytes <= unread.size());
  frame_wanted_ = frame_tried_ = 0;
  frame_length_ = frame.length_bytes;
  payload = unread.substr(0, frame.length_bytes);
  return this;
}

StreamFlow::Pull StreamFlow::pull_in(Turn& turn) {
  if (input_.unread().size() >= present().limits.input_bytes) {
    present().input_limit.fetch_add(1, std::memory_order_relaxed);
    return Pull::kClose;
  }
  if (turn_bytes_ >= kTurnBytes) return Pull::kYield;
  if (turn.now == Instant::never()) {
    turn.now = datapath_now();
    turn.late = turn.now - received_at_ > kLate;
  }
  input_.make_room(frame_wanted_);
  const size_t room = input_.room_size();
  Instant when = turn.now;
  const Transfer got = receive(input_.room(), room, turn.late, when);
  switch (got.state) {
    case Transfer::State::kMoved:
      input_.received(got.bytes);
      add(input_bytes_, got.bytes);
      turn_bytes_ += got.bytes;
      received_at_ = when;
      // A short read has emptied the socket, and what comes later is a new event. Only an end of
      // stream that was announced together with these bytes is still to be received.
      drained_ = got.bytes < room && !peer_closed_.load(std::memory_order_relaxed);
      return Pull::kGoOn;
    case Transfer::State::kWait: drained_ = true; return Pull::kGoOn;
    case Transfer::State::kEnd: ended_ = true; return Pull::kGoOn;
    case Transfer::State::kBroken: break;
  }
  return Pull::kClose;
}

// False: the connection is gone. Else what is left in the buffer waits for the peer to read; the
// last attempt has then been refused by the wire, which promises an event.
bool StreamFlow::push_out() {
  while (!reply_buffer_.empty()) {
    const Transfer sent = transmit(reply_buffer_.unsent());
    if (sent.state == Transfer::State::kWait) break;
    if (sent.state != Transfer::State::kMoved) return false;
    reply_buffer_.consume(sent.bytes);
    add(output_bytes_, sent.bytes);
  }
  return true;
}

void StreamFlow::flush() {
  if (!broken_ && !reply_buffer_.overflowed() && !push_out()) broken_ = true;
}

// A piece that the wire takes only in part is tried again by finish, so that the attempt which the
// wire refuses, and promises an event for, is always made.
bool StreamFlow::flush_some(size_t size_bytes) {
  if (broken_ || reply_buffer_.overflowed() || reply_buffer_.empty()) return false;
  const Transfer sent = transmit(reply_buffer_.unsent().substr(0, size_bytes));
  if (sent.state == Transfer::State::kWait) return false;
  if (sent.state != Transfer::State::kMoved) {
    broken_ = true;
    return false;
  }
  reply_buffer_.consume(sent.bytes);
  add(output_bytes_, sent.bytes);
  return !reply_buffer_.empty();
}

bool StreamFlow::let_go() {
  input_.rest();
  if (reply_buffer_.capacity() > kReplyKeptBytes) reply_buffer_.shrink(kReplyKeptBytes);
  if (unsent_.load(std::memory_order_relaxed) != reply_buffer_.size()) {
    unsent_.store(reply_buffer_.size(), std::memory_order_relaxed);
  }
  if (gate_.release()) return true;
  drained_ = false;
  return false;
}

Request* StreamFlow::close() {
  hang_up();
  gate_.close();
  // From the push on, the flow may be freed by its queue.
  present().closed.push(*this);
  return nullptr;
}

bool StreamFlow::close_idle(bool after_replies) {
  if (!gate_.claim()) return false;
  if (after_replies && !reply_buffer_.empty()) {
    put_back();
    return false;
  }
  close();
  return true;
}

void StreamFlow::shrink_idle() {
  if (!gate_.claim()) return;
  reply_buffer_.shrink(0);
  put_back();
}

// A sweep is done with the flow. What came meanwhile is for the present queue to look at.
void StreamFlow::put_back() {
  if (!gate_.release()) hand_on();
}

StreamFlow::Redirect StreamFlow::redirect(FlowHost& to) {
  if (!route_.want(to)) return Redirect::kNone;
  return gate_.event() ? Redirect::kOwned : Redirect::kNoted;
}

void StreamFlow::hand_on() {
  FlowHost& to = route_.wanted();
  if (&to == &present()) {
    // A wish that was taken back, or an event that is stale.
  } else if (rewire(present(), to)) {
    route_.arrive(to);
    datapath = to.queue;
    (away() ? to.steered : to.unsteered).fetch_add(1, std::memory_order_relaxed);
  } else {
    route_.give_up(to);
  }
  drained_ = false;
  waited_ = true;
  // From the push on, the flow may be anybody's.
  FlowHost& next = present();
  next.yielded.push(*this);
  next.queue->wake();
}

FlowHost* StreamFlow::next_stop(FlowHost& queue) {
  if (&queue == &present() && route_.has_left()) unwire(queue);
  return route_.next_stop();
}

}  // namespace rubato
