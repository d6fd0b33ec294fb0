// SPDX-License-Identifier: Apache-2.0
#include "datapath/stream_flow.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "datapath/flow_index.h"
#include "datapath/time_source.h"

namespace rubato {
namespace {

bool is_short(const FlowLimits& limits) {
  return limits.memory != nullptr && !limits.memory->has_plenty();
}

}  // namespace

StreamFlow::StreamFlow(FlowHost& host, uint64_t id, std::string peer, Instant opened)
    : idle_since(opened),
      route_(host),
      input_(host.pool, host.limits.memory),
      reply_buffer_(host.limits.output_bytes, host.limits.memory),
      id_(id),
      peer_(std::move(peer)),
      opened_(opened) {
  reply = &reply_buffer_;
  datapath = host.queue;
  stream = this;
  client = &client_state_;
}

void StreamFlow::note_client(ClientState state) {
  ClientState seen = client_state_.load(std::memory_order_relaxed);
  while (seen < state && !client_state_.compare_exchange_weak(
                             seen, state, std::memory_order_relaxed, std::memory_order_relaxed)) {
  }
}

void StreamFlow::attach(std::unique_ptr<Session> session_to_own) {
  RUBATO_DCHECK(session_ == nullptr && session_to_own != nullptr);
  session_ = std::move(session_to_own);
  session = session_.get();
  concurrency_ = session_->concurrency();
  RUBATO_DCHECK(concurrency_ >= 1);
  if (!keeps_order()) return;
  own_data_ = session_->make_request_data();
  data = own_data_.get();
}

uint64_t StreamFlow::in_flight() const {
  const FlowState state = ownership_.state();
  const bool busy = state == FlowState::kScheduled || state == FlowState::kScheduledReadable ||
                    (state == FlowState::kIdle && unsent_bytes() > 0);
  return std::max<uint64_t>(in_service(), busy ? 1 : 0);
}

uint32_t StreamFlow::on_event(FlowHost& queue, std::span<Request*> out, Instant now, bool late,
                              bool writable_only) {
  if (!ownership_.event()) return 0;
  if (&queue != &present()) {
    migrate();
    return 0;
  }
  // The kernel reports every new connection as writable; without unsent replies there is nothing
  // to do.
  writable_only = writable_only && !sends_unasked_;
  if (writable_only && reply_buffer_.empty() && drained_) {
    if (let_go()) return 0;
  } else if (!writable_only) {
    drained_ = false;
  }
  turn_bytes_ = 0;
  return advance({now, late}, out);
}

Request* StreamFlow::finished(Request& request) {
  RUBATO_DCHECK(request.stream == this);
  if (keeps_order()) return finished_in_order();
  completed_.push(static_cast<FlowRequest&>(request));
  Request* next = nullptr;
  if (ownership_.event()) advance({Instant::never()}, {&next, 1});
  left_.fetch_add(1, std::memory_order_release);
  return next;
}

Request* StreamFlow::finished_in_order() {
  RUBATO_DCHECK(frame_length_ > 0);  // a request is finished once
  ++requests_;
  input_.consume(frame_length_);
  batch_bytes_ += frame_length_;
  frame_length_ = 0;
  note_overflow();
  close_when_sent_ |= close_after;
  Request* next = nullptr;
  if (gathers() && may_frame() && route_.settled() &&
      frame_next(next) == Framed::kRequest) {
    return next;
  }
  advance({Instant::never()}, {&next, 1});
  return next;
}

bool StreamFlow::counts_together() const {
  const MemoryAccount* const memory = present().limits.memory;
  const uint64_t hard_bytes = memory != nullptr ? memory->output_limit().hard_bytes : 0;
  return hard_bytes != 0 && hard_bytes <= kGatheredBytes;
}

// More replies may gather before they are sent. That of a long request does not wait for others.
bool StreamFlow::gathers() const {
  if (job_class == JobClass::kShort && reply_buffer_.size() < kCoalesceBytes) return true;
  return batch_bytes_ < kBatchBytes && counts_together();
}

void StreamFlow::note_overflow() {
  if (!reply_buffer_.overflowed() || broken_) return;
  present().overflowed.fetch_add(1, std::memory_order_relaxed);
  lose();
}

bool StreamFlow::may_frame() const {
  return !broken_ && !close_when_sent_ &&
         client_state_.load(std::memory_order_relaxed) != ClientState::kGone &&
         !present().draining->is_set();
}

// The owner's loop: complete, send, frame, receive, until `out` is full, or there is nothing to do
// before the next event. Replies come first: while some are unsent no request is taken, which is
// the back-pressure; bytes are still received, up to kReadAheadBytes, as a peer may send a whole
// pipeline before it reads. A flow with no request in service moves to the queue that wants it.
uint32_t StreamFlow::advance(Turn turn, std::span<Request*> out) {
  uint32_t taken = 0;
  uint32_t answered = 0;
  batch_bytes_ = 0;
  for (;;) {
    take_completed();
    if (!broken_ && reply_buffer_.empty()) session->on_push(reply_buffer_);
    if (!broken_ && !push_out()) lose();
    const bool sent = !broken_ && reply_buffer_.empty();
    if (sent && unsent_bytes() > 0) {  // what is to be pushed has waited for this
      unsent_.store(0, std::memory_order_relaxed);
      continue;
    }
    if (broken_ || (sent && route_.settled() && !may_frame())) {
      if (end()) return taken;
      continue;
    }
    if (!route_.settled() && outstanding() == 0) {
      migrate();
      return taken;
    }
    const bool full = !keeps_order() && outstanding() >= concurrency_;
    const bool ahead = !sent && reads_ahead();
    if ((!sent && !ahead) || full || !route_.settled()) {
      if (let_go()) return taken;
      continue;
    }
    if (!ahead && taken == out.size() && (!drained_ || !input_.unread().empty())) {
      yield();
      return taken;
    }
    if (!ahead && taken < out.size()) {
      Request* next = nullptr;
      switch (frame_run(next, answered)) {
        case Framed::kRequest:
          out[taken++] = next;
          if (keeps_order()) return taken;
          continue;
        case Framed::kAnswered:
          if (answered < kAnsweredRun) continue;
          if (!push_out()) lose();
          yield();
          return taken;
        case Framed::kNothing:
          if (!reply_buffer_.empty()) continue;
      }
    }
    if (ended_) {
      if (end()) return taken;
      continue;
    }
    if (drained_) {
      if (let_go()) return taken;
      continue;
    }
    const Pull pull = pull_in(turn);
    if (pull == Pull::kClose) lose();
    if (pull == Pull::kYield) {
      yield();
      return taken;
    }
  }
}

bool StreamFlow::reads_ahead() const {
  return !is_short(present().limits) && !drained_ && !ended_ &&
         input_.unread().size() < kReadAheadBytes;
}

void StreamFlow::yield() {
  FlowHost& here = present();
  here.yielded.push(*this);
  here.queue->wake();
}

// The flow ends, once its requests in service are done. True: the caller no longer owns the flow.
bool StreamFlow::end() {
  if (outstanding() > 0) {
    rest_input(true);
    return let_go();
  }
  close();
  return true;
}

void StreamFlow::take_completed() {
  if (completed_.empty()) return;
  FlowRequest* done = completed_.take_all_in_order();
  while (done != nullptr) {
    FlowRequest& request = *std::exchange(done, done->next_in_list);
    ++completed_count_;
    RUBATO_DCHECK(outstanding() < concurrency_);
    ++requests_;
    close_when_sent_ |= request.close_after;
    session->complete(request, reply_buffer_);
    recycle(request);
  }
  note_overflow();
}

FlowRequest& StreamFlow::take_spare() {
  if (spare_.empty()) {
    auto made = std::make_unique<FlowRequest>(present().limits);
    made->own_data = session->make_request_data();
    made->data = made->own_data.get();
    made->session = session;
    made->stream = this;
    made->client = &client_state_;
    spare_.push_back(made.get());
    several_.push_back(std::move(made));
  }
  FlowRequest& request = *spare_.back();
  spare_.pop_back();
  return request;
}

void StreamFlow::recycle(FlowRequest& request) {
  RUBATO_DCHECK(spare_.size() < several_.size());
  if (request.bytes.capacity() > FlowRequest::kKeptBytes) {
    std::string().swap(request.bytes);
    static_cast<void>(request.share.resize(0));
  }
  if (request.replies.overflowed()) {
    request.replies = ReplyBuffer(present().limits.output_bytes, present().limits.memory);
  } else {
    request.replies.consume(request.replies.size());
    request.replies.shrink(FlowRequest::kKeptBytes);
  }
  spare_.push_back(&request);
}

// Frames requests, and answers those that need not be run, until a request is to be run or replies
// are to leave.
StreamFlow::Framed StreamFlow::frame_run(Request*& next, uint32_t& answered) {
  for (;;) {
    const Framed framed = frame_next(next);
    if (framed != Framed::kAnswered) return framed;
    const bool more = ++answered < kAnsweredRun && reply_buffer_.size() < kCoalesceBytes;
    if (!more || !may_frame()) return framed;
  }
}

// Without memory for the next request the connection ends, and is counted.
StreamFlow::Framed StreamFlow::frame_next(Request*& next) {
  try {
    return frame_first(next);
  } catch (const std::bad_alloc&) {
    present().input_limit.fetch_add(1, std::memory_order_relaxed);
    lose();
    return Framed::kAnswered;
  }
}

StreamFlow::Framed StreamFlow::frame_first(Request*& next) {
  const std::string_view unread = input_.unread();
  if (unread.size() <= frame_tried_ || unread.size() < frame_wanted_) return Framed::kNothing;
  FlowRequest* const one_of_several = keeps_order() ? nullptr : &take_spare();
  Request& request = keeps_order() ? static_cast<Request&>(*this) : *one_of_several;
  const RequestState fresh;  // not RequestState{}, which the compiler clears as a whole, slowly
  static_cast<RequestState&>(request) = fresh;
  request.arrived = received_at_;
  request.flow = id_;
  const Frame frame = session->frame(unread, request);
  if (frame.state == FrameState::kIncomplete) {
    if (one_of_several != nullptr) spare_.push_back(one_of_several);
    // A hint of no more bytes than are here is useless.
    frame_wanted_ = frame.length_bytes > unread.size() ? frame.length_bytes : 0;
    frame_tried_ = unread.size();
    return Framed::kNothing;
  }
  RUBATO_DCHECK(frame.length_bytes > 0 && frame.length_bytes <= unread.size());
  frame_wanted_ = frame_tried_ = 0;
  if (half_sent_bytes() > 0) half_sent_.store(0, std::memory_order_relaxed);
  next = &request;
  if (one_of_several != nullptr) return hand_out(*one_of_several, frame.length_bytes);
  frame_length_ = frame.length_bytes;
  reply_begins_ = reply_buffer_.mark();
  payload = unread.substr(0, frame.length_bytes);
  return Framed::kRequest;
}

StreamFlow::Framed StreamFlow::hand_out(FlowRequest& request, size_t length_bytes) {
  const std::string_view whole = input_.unread().substr(0, length_bytes);
  if (!request.at_once) {
    if (!request.share.resize(std::max(whole.size(), request.bytes.capacity()))) {
      throw std::bad_alloc();
    }
    request.bytes.assign(whole);
    request.payload = request.bytes;
    request.datapath = present().queue;
    handed_.store(handed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    RUBATO_DCHECK(outstanding() <= concurrency_);
    input_.consume(length_bytes);
    return Framed::kRequest;
  }
  request.payload = whole;
  request.reply = &reply_buffer_;
  session->answer(request);
  request.reply = &request.replies;
  ++requests_;
  close_when_sent_ |= request.close_after;
  input_.consume(length_bytes);
  recycle(request);
  note_overflow();
  return Framed::kAnswered;
}

// If memory is short, of the requests of which a part has come the largest gives way. It is larger
// than what is given here, and its owner frees it as soon as it sees the end of the connection.
StreamFlow::Room StreamFlow::make_room() {
  FlowIndex* const all = present().index;
  if (room_from_ != 0 && all->has_half_sent(room_from_)) return Room::kSoon;
  room_from_ = 0;
  if (!input_.make_room(frame_wanted_)) {
    if (all != nullptr) room_from_ = all->close_larger(*this);
    return room_from_ == 0 ? Room::kNone : Room::kSoon;
  }
  const size_t bytes = input_.capacity();
  if (bytes > BufferPool::kBlockBytes) half_sent_.store(bytes, std::memory_order_relaxed);
  return Room::kMade;
}

// No more of a flow that is doomed is framed.
void StreamFlow::rest_input(bool drop) {
  const bool may_be_noted = input_.capacity() > BufferPool::kBlockBytes;
  drop || (may_be_noted && doomed()) ? input_.drop() : input_.rest();
  if (may_be_noted && half_sent_bytes() > input_.capacity()) {
    half_sent_.store(0, std::memory_order_release);
  }
}

StreamFlow::Pull StreamFlow::pull_in(Turn& turn) {
  const auto too_much = [this] {
    present().input_limit.fetch_add(1, std::memory_order_relaxed);
    return Pull::kClose;
  };
  const FlowLimits& limits = present().limits;
  const uint64_t changed = limits.memory != nullptr ? limits.memory->input_limit() : 0;
  if (input_.unread().size() >= (changed != 0 ? changed : limits.input_bytes)) return too_much();
  if (turn_bytes_ >= kTurnBytes) return Pull::kYield;
  if (turn.now == Instant::never()) {
    turn.now = datapath_now();
    turn.late = turn.now - received_at_ > kLateLook;
  }
  const Room room_made = make_room();
  if (room_made == Room::kSoon) return Pull::kYield;
  if (room_made == Room::kNone) return too_much();
  // The kernel's buffer bounds a receive; TLS goes on as long as the peer sends.
  const size_t room = std::min(input_.room_size(), kTurnBytes);
  Instant when = turn.now;
  const Transfer got = receive(input_.room(), room, turn.late, when);
  switch (got.state) {
    case Transfer::State::kMoved:
      RUBATO_DCHECK(got.bytes > 0 && got.bytes <= room);
      input_.received(got.bytes);
      input_bytes_ += got.bytes;
      turn_bytes_ += got.bytes;
      received_at_ = when;
      // A short read has emptied the socket, and later bytes are a new event. Only an end of stream
      // that was announced together with these bytes is still to be received.
      drained_ = got.bytes < room &&
                 client_state_.load(std::memory_order_relaxed) == ClientState::kOpen;
      return Pull::kGoOn;
    case Transfer::State::kWait: drained_ = true; return Pull::kGoOn;
    case Transfer::State::kEnd: ended_ = true; return Pull::kGoOn;
    case Transfer::State::kBroken: break;
  }
  return Pull::kClose;
}

// False: the connection is gone. Else the bytes left in the buffer wait for the peer to read; the
// wire has then refused the last attempt, which promises an event.
bool StreamFlow::push_out(uint64_t until) {
  while (reply_buffer_.left() < until) {
    const std::string_view wanted =
        reply_buffer_.unsent().substr(0, static_cast<size_t>(until - reply_buffer_.left()));
    const Transfer sent = transmit(wanted);
    if (sent.state == Transfer::State::kWait) break;
    if (sent.state != Transfer::State::kMoved) return false;
    reply_buffer_.consume(sent.bytes);
    output_bytes_ += sent.bytes;
  }
  return true;
}

void StreamFlow::flush() {
  if (!keeps_order() || broken_ || counts_together()) return;
  if (!push_out(reply_begins_)) lose();
}

// If the wire takes only part of a piece, finish tries again, so that the attempt which the wire
// refuses, and promises an event for, is always made.
bool StreamFlow::flush_some(size_t size_bytes) {
  if (!keeps_order() || broken_ || reply_buffer_.overflowed() || reply_buffer_.empty() ||
      counts_together()) {
    return false;
  }
  const Transfer sent = transmit(reply_buffer_.unsent().substr(0, size_bytes));
  if (sent.state == Transfer::State::kWait) return false;
  if (sent.state != Transfer::State::kMoved) {
    lose();
    return false;
  }
  reply_buffer_.consume(sent.bytes);
  output_bytes_ += sent.bytes;
  return !reply_buffer_.empty();
}

// The connection broke: the replies of its requests in service are not wanted any more.
void StreamFlow::lose() {
  broken_ = true;
  note_client(ClientState::kGone);
}

bool StreamFlow::let_go() {
  rest_input(false);
  reply_buffer_.shrink(is_short(present().limits) ? 0 : kReplyKeptBytes);
  if (unsent_.load(std::memory_order_relaxed) != reply_buffer_.size()) {
    unsent_.store(reply_buffer_.size(), std::memory_order_relaxed);
  }
  const bool held_back = !reply_buffer_.empty() && !drained_ && !ended_;
  if (held_back != this->held_back()) held_back_.store(held_back, std::memory_order_relaxed);
  if (ownership_.release()) return true;
  drained_ = false;
  return false;
}

void StreamFlow::close() {
  RUBATO_DCHECK(outstanding() == 0);
  rest_input(true);
  hang_up();
  ownership_.close();
  // From the push on, the flow may be freed by its queue.
  present().closed.push(*this);
}

bool StreamFlow::close_idle(bool after_replies) {
  if (!ownership_.claim()) return false;
  if (outstanding() > 0 || (after_replies && !reply_buffer_.empty())) {
    put_back();
    return false;
  }
  close();
  return true;
}

void StreamFlow::shrink_idle() {
  if (!ownership_.claim()) return;
  reply_buffer_.shrink(0);
  if (outstanding() == 0) {
    spare_.clear();
    several_.clear();
  }
  put_back();
}

// A sweep is done with the flow. The present queue looks at the events that came meanwhile.
void StreamFlow::put_back() {
  if (!ownership_.release()) migrate();
}

StreamFlow::Redirect StreamFlow::redirect(FlowHost& to) {
  if (!route_.want(to)) return Redirect::kNone;
  return ownership_.event() ? Redirect::kOwned : Redirect::kNoted;
}

void StreamFlow::migrate() {
  FlowHost& to = route_.wanted();
  if (&to == &present()) {
    // A wish that was taken back, or an event that is stale.
  } else if (outstanding() > 0) {
    // The owner that completes the last of them moves the flow.
  } else if (rewire(present(), to)) {
    route_.arrive(to);
    datapath = to.queue;
    (migrated() ? to.steered : to.unsteered).fetch_add(1, std::memory_order_relaxed);
  } else {
    route_.abort(to);
  }
  drained_ = false;
  waited_ = true;
  // From the push on, another thread may own the flow.
  FlowHost& next = present();
  next.yielded.push(*this);
  next.queue->wake();
}

FlowHost* StreamFlow::next_stop(FlowHost& queue) {
  if (&queue == &present() && route_.has_left()) unwire(queue);
  return route_.next_stop();
}

}  // namespace rubato
