// SPDX-License-Identifier: Apache-2.0
//
// StreamFlow: one connection of a byte stream, without the wire. It frames requests, coalesces and
// sends replies, holds back while the peer does not read, and is released without losing a wakeup
// (flow_ownership.h). TCP, UDP and the loopback datapath give it a wire.
//
// FlowHost: the part of a queue that its flows use. Any thread may use everything in it, because
// the worker that finishes a request may be a thief.
//
// Only the flow's owner (see FlowOwnership) calls the methods that are not marked otherwise. A flow
// may be moved from queue to queue; flow_route.h says how, and which queue frees it in the end.
//
// A flow whose session keeps the order (Session::concurrency 1) is its own request: at most one is
// in flight, and the worker that has the request owns the flow.
//
// Any other flow hands out separate requests (FlowRequest) and is released while they are in
// service. The worker that finishes a request pushes it to `completed_` and then calls
// FlowOwnership::event(). So a completion is an event like any other and is not lost: either that
// event() takes the idle flow, and the finishing worker goes on as its owner, or the owner's
// release() fails and the owner looks again. The push releases and take_all acquires, so the owner
// that completes the request sees the worker's writes to it. Between its push and the end of its
// event() a finisher still uses the flow; `left_` counts the finishers that are through, with
// release, and the flow is not freed before the finishers of all handed-out requests are through
// (may_be_freed, acquire). While a request is in service the flow is neither moved nor closed.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "datapath/datapath.h"
#include "datapath/drain_flag.h"
#include "datapath/flow_ownership.h"
#include "datapath/flow_route.h"
#include "datapath/input_buffer.h"
#include "datapath/push_list.h"
#include "datapath/sent_pages.h"
#include "metrics/counter.h"

namespace rubato {

class FlowIndex;
class FlowRegistry;
class StreamFlow;

using FlowList = PushList<StreamFlow>;

struct FlowLimits {
  size_t input_bytes = size_t{1} << 30;   // of one request that is not complete yet
  size_t output_bytes = size_t{1} << 28;  // of replies that the peer has not taken
  MemoryAccount* memory = nullptr;        // of all connections together; null = no bound
};

struct FlowHost {
  DatapathQueue* queue = nullptr;
  FlowRegistry* registry = nullptr;  // of the flows that this queue owns
  FlowIndex* index = nullptr;        // of the flows of all queues
  FlowLimits limits;
  const DrainFlag<>* draining = nullptr;
  BufferPool pool;
  FlowList closed;   // for the queue to free or to pass on
  FlowList yielded;  // the list owns these flows; the queue's next poll advances them
  std::atomic<uint64_t> overflowed{0};
  std::atomic<uint64_t> input_limit{0};  // also for want of memory
  std::atomic<uint64_t> steered{0};    // flows that came here from elsewhere
  std::atomic<uint64_t> unsteered{0};  // flows that came back
  SentPages::Host sent_pages;
};

// The result of one receive or send.
struct Transfer {
  enum class State : uint8_t {
    kMoved,   // `bytes` were moved, there may be more
    kWait,    // no byte moved; an event will come
    kEnd,     // receive: the peer will send no more
    kBroken,  // the connection is gone
  };
  State state = State::kWait;
  size_t bytes = 0;
};

// A request of a flow that has several. Its owner is the worker that runs it, and the flow's owner
// otherwise.
struct FlowRequest : Request {
  // Buffers up to this size are kept for the next request.
  static constexpr size_t kKeptBytes = 4096;

  explicit FlowRequest(const FlowLimits& limits)
      : share(limits.memory), replies(limits.output_bytes, limits.memory) {
    reply = &replies;
  }

  std::string bytes;  // the payload
  MemoryShare share;  // of its capacity
  ReplyBuffer replies;
  std::unique_ptr<RequestData> own_data;
  FlowRequest* next_in_list = nullptr;
};

class StreamFlow : public Request {
 public:
  // Replies of a pipeline are sent at the latest when this much has gathered.
  static constexpr size_t kCoalesceBytes = 64 * 1024;
  // But under a hard limit of at most kGatheredBytes the replies to so many bytes of requests count
  // together, before any of them leaves, as in Redis.
  static constexpr size_t kGatheredBytes = 1024 * 1024;
  static constexpr size_t kBatchBytes = 16 * 1024;
  // So many bytes of requests are received while replies to earlier ones are unsent; none if memory
  // is short. Who sends more waits until its replies are read, and is closed if it reads none for
  // SweepRule::kHeldBackLimit.
  static constexpr size_t kReadAheadBytes = 16 * 1024 * 1024;
  // A flow lets others in after this much input, be it one huge request or a pipeline without end.
  static constexpr size_t kTurnBytes = 512 * 1024;
  // So many requests that need not be run are answered before other flows get a turn.
  static constexpr uint32_t kAnsweredRun = 64;
  // An idle flow keeps a reply buffer of at most this size; none if memory is short.
  static constexpr size_t kReplyKeptBytes = 16 * 1024;

  StreamFlow(FlowHost& host, uint64_t id, std::string peer, Instant opened);
  virtual ~StreamFlow() = default;
  StreamFlow(const StreamFlow&) = delete;
  StreamFlow& operator=(const StreamFlow&) = delete;

  // The flow of a request. Any thread that has the request.
  static StreamFlow& of(Request& request) { return *request.stream; }

  // Gives the flow its session; the flow has none so far. Called once, before a poller sees the
  // flow.
  void attach(std::unique_ptr<Session> session);

  // Called by the poller of `queue`, at `now`, when the wire had an event there. Returns how many
  // complete requests it has put into `out`; requests that do not fit are left to the next poll.
  // `late`: the queue was not polled for long, so the kernel is asked when the bytes came.
  // `writable_only`: the event is that there is room for replies, and no other.
  uint32_t on_event(FlowHost& queue, std::span<Request*> out, Instant now, bool late,
                    bool writable_only);
  // The same for a flow from FlowHost::yielded.
  uint32_t resume(std::span<Request*> out, Instant now, bool late) {
    turn_bytes_ = 0;
    return advance({now, late || std::exchange(waited_, false)}, out);
  }
  // DatapathQueue::finish, flush and flush_some, called by the worker that has the request. The
  // latter two do nothing for one of several requests: its reply does not belong to the flow before
  // the request is finished, and those of others do not wait for it.
  Request* finished(Request& request);
  void flush();
  bool flush_some(size_t size_bytes);

  // Called by the home's poller to close the idle flow (idle too long, draining). Unsent replies
  // keep it open when `after_replies`. False: the flow stays open, or has an owner.
  bool close_idle(bool after_replies);
  // The same whose unsent replies are over the soft limit; counted.
  void close_idle_over_limit() {
    if (close_idle(false)) present().overflowed.fetch_add(1, std::memory_order_relaxed);
  }
  // The same that is held back; counted.
  void close_idle_held_back() {
    if (close_idle(false)) present().input_limit.fetch_add(1, std::memory_order_relaxed);
  }
  // The peer sends on, and what it sends waits in the wire until it has read its replies. Any
  // thread.
  bool held_back() const { return held_back_.load(std::memory_order_relaxed); }
  // Called by the home's poller: gives back memory that an idle flow need not hold.
  void shrink_idle();
  // No request of the flow is framed any more. Any thread that keeps the flow from being freed.
  void doom() { note_client(ClientState::kGone); }
  bool doomed() const {
    return client_state_.load(std::memory_order_relaxed) == ClientState::kGone;
  }
  // Ends the connection under the flow's owner, which then finds it gone. Threads as above.
  virtual void abort() = 0;
  // Datapath::request_push. Any thread that keeps the flow from being freed.
  void request_push() {
    if (ownership_.event()) migrate();
  }
  // The peer has sent its last byte, or a reset. Threads as above; a poller calls it before
  // on_event.
  void note_client(ClientState state);

  // The result of a wish to move the flow.
  enum class Redirect : uint8_t {
    kNone,   // the flow is there, or on its way
    kNoted,  // the flow's owner will move it
    kOwned,  // the flow was idle: the caller owns it now and calls migrate()
  };
  // Any thread that keeps the flow from being freed.
  Redirect redirect(FlowHost& to);
  // The owner hands the flow to the queue by which it is to come in, and moves the wire there first
  // if necessary.
  void migrate();
  // Called by the thread that took the flow from the closed ones of `queue`: the queue to pass the
  // flow to; null = free it.
  FlowHost* next_stop(FlowHost& queue);

  // Any thread that keeps the flow from being freed.
  FlowHost& owner_queue() const { return route_.owner_queue(); }
  bool migrated() const { return route_.migrated(); }
  uint64_t id() const { return id_; }
  const std::string& peer() const { return peer_; }
  Instant opened() const { return opened_; }
  FlowState state() const { return ownership_.state(); }
  Session* session_ptr() const { return session_.get(); }
  uint64_t requests() const { return requests_.value(); }
  uint64_t input_bytes() const { return input_bytes_.value(); }
  uint64_t output_bytes() const { return output_bytes_.value(); }
  size_t unsent_bytes() const { return unsent_.load(std::memory_order_relaxed); }
  // The memory of a request of which a part has come, beyond a block of the pool. Acquire pairs
  // with the release of an owner that has given it back.
  size_t half_sent_bytes() const { return half_sent_.load(std::memory_order_acquire); }
  // Requests that were polled and not finished; or 1 if the flow has an owner or unsent replies.
  uint64_t in_flight() const;
  // Called by the thread that took the flow from the closed ones. True: every worker that finished
  // a request of the flow is through with it.
  bool may_be_freed() const { return in_service() == 0; }

  // The wire is not ready for requests yet. Any thread.
  bool opening() const { return opening_.load(std::memory_order_relaxed); }

  // The fields up to `shrunk` are guarded by the registry of the flow's home.
  size_t registry_index = 0;
  uint64_t seen_activity = 0;
  Instant idle_since;
  Instant over_since = Instant::never();  // unsent replies are over the soft limit
  bool shrunk = false;

  StreamFlow* next_in_list = nullptr;  // guarded by the list that holds the flow

 protected:
  // Moves bytes without blocking. `when` holds the time of the call; if `exact`, the call sets it
  // to the time when the last byte came, where that is known.
  virtual Transfer receive(char* to, size_t room, bool exact, Instant& when) = 0;
  virtual Transfer transmit(std::string_view bytes) = 0;
  // Ends the connection in both directions, so that the wire wakes the present queue.
  virtual void hang_up() = 0;
  // Moves the wire's events from `from` to `to`. False: the wire cannot, and nothing has changed.
  virtual bool rewire(FlowHost& from, FlowHost& to) = 0;
  // Ends the events of a closed flow's wire, which went to `queue` so far.
  virtual void unwire(FlowHost& queue) = 0;

  // Large replies are to be in these pages, which the wire sends from.
  void use(std::unique_ptr<SentPages> pages) { reply_buffer_.use(std::move(pages)); }

  // A wire with a handshake, such as TLS: it is to come, and is done. Such a wire may wait for room
  // although there is no reply.
  void note_opening() {
    sends_unasked_ = true;
    opening_.store(true, std::memory_order_relaxed);
  }
  void note_opened() { opening_.store(false, std::memory_order_relaxed); }

 private:
  // The time and the circumstances of one call of advance().
  struct Turn {
    Instant now;  // never() = read the clock if the time is needed
    bool late = false;
  };
  // The result of pull_in().
  enum class Pull : uint8_t { kGoOn, kYield, kClose };
  // The result of make_room(). kSoon: another flow is about to give some back.
  enum class Room : uint8_t { kMade, kSoon, kNone };

  // The result of framing the first unread bytes.
  enum class Framed : uint8_t { kNothing, kAnswered, kRequest };

  uint32_t advance(Turn turn, std::span<Request*> out);
  Request* finished_in_order();
  Framed frame_next(Request*& next);
  Framed frame_first(Request*& next);
  Framed frame_run(Request*& next, uint32_t& answered);
  Framed hand_out(FlowRequest& request, size_t length_bytes);
  void take_completed();
  void note_overflow();
  Room make_room();
  void rest_input(bool drop);
  Pull pull_in(Turn& turn);
  bool push_out() { return push_out(reply_buffer_.mark()); }
  bool push_out(uint64_t until);
  void lose();
  bool let_go();
  void put_back();
  void yield();
  void close();
  bool end();
  bool may_frame() const;
  bool reads_ahead() const;
  bool gathers() const;
  bool counts_together() const;
  bool keeps_order() const { return concurrency_ == 1; }
  // Requests that were handed out and not completed by an owner. (A flow that keeps the order hands
  // out none: it has an owner while its request is in service.)
  uint32_t outstanding() const {
    return handed_.load(std::memory_order_relaxed) - completed_count_;
  }
  // Requests that were handed out and whose finisher is not through with the flow. Any thread.
  uint32_t in_service() const {
    const uint32_t left = left_.load(std::memory_order_acquire);  // first: no more than were handed
    return handed_.load(std::memory_order_relaxed) - left;
  }
  FlowRequest& take_spare();
  void recycle(FlowRequest& request);
  FlowHost& present() const { return route_.at(); }

  FlowRoute<> route_;
  FlowOwnership<> ownership_;
  // Relaxed: a hint to frame no more, and to the runtime that a reply is not wanted. The owner
  // learns the state of the connection itself when it receives or sends.
  std::atomic<ClientState> client_state_{ClientState::kOpen};
  std::atomic<bool> opening_{false};  // a hint for sweeps
  std::atomic<bool> held_back_{false};  // the same
  bool sends_unasked_ = false;    // set once, before a poller sees the flow
  bool drained_ = true;           // the wire has nothing more until its next event
  bool ended_ = false;            // received the peer's end of stream
  bool broken_ = false;           // sending failed
  bool waited_ = false;           // the flow was handed on: bytes may have come long ago
  bool close_when_sent_ = false;  // close_after of a finished request
  size_t batch_bytes_ = 0;        // of requests since replies last left
  size_t turn_bytes_ = 0;         // received since a poll last gave the flow its turn
  // Of the request in flight, in a flow that keeps the order: its bytes, and where the replies to
  // those before it end (ReplyBuffer::mark).
  size_t frame_length_ = 0;
  uint64_t reply_begins_ = 0;
  size_t frame_wanted_ = 0;       // of the incomplete one, 0 = unknown
  size_t frame_tried_ = 0;        // unread bytes when the request was last seen to be incomplete
  uint64_t room_from_ = 0;        // the flow that is closed to make room here, 0 = none
  InputBuffer input_;
  ReplyBuffer reply_buffer_;
  std::unique_ptr<Session> session_;
  Instant received_at_;
  uint32_t concurrency_ = 1;
  std::unique_ptr<RequestData> own_data_;              // of a flow that keeps the order
  std::vector<std::unique_ptr<FlowRequest>> several_;   // of a flow that does not: all requests,
  std::vector<FlowRequest*> spare_;                     // and those that are not in service
  uint32_t completed_count_ = 0;
  PushList<FlowRequest> completed_;
  std::atomic<uint32_t> handed_{0};  // written by the owner
  std::atomic<uint32_t> left_{0};    // finishers that will not touch the flow again
  Counter requests_;  // the owner's
  Counter input_bytes_;
  Counter output_bytes_;
  std::atomic<size_t> unsent_{0};
  std::atomic<size_t> half_sent_{0};
  const uint64_t id_;
  const std::string peer_;
  const Instant opened_;
};

}  // namespace rubato
