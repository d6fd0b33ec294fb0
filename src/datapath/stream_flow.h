// SPDX-License-Identifier: Apache-2.0
//
// StreamFlow: one connection of a byte stream, without the wire. It frames requests, coalesces and
// sends replies, holds back while the peer does not read, and lets go of itself without losing a
// wakeup (flow_gate.h). TCP and the loopback datapath give it a wire.
//
// FlowHost: what a queue gives its flows. Everything in it may be used from any thread, because the
// worker that finishes a request may be a thief.
//
// The flow is its request: at most one is in flight. Only the flow's owner (see FlowGate) calls
// what is not marked otherwise. A flow may be moved from queue to queue; flow_route.h says how, and
// which queue frees it in the end.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "datapath/datapath.h"
#include "datapath/flow_gate.h"
#include "datapath/flow_route.h"
#include "datapath/input_buffer.h"

namespace rubato {

class FlowRegistry;
class StreamFlow;

// A list of flows that any thread pushes to and one thread takes whole. Lock-free: push releases,
// take_all acquires, and as nothing is popped singly there is no ABA.
class FlowList {
 public:
  void push(StreamFlow& flow);
  StreamFlow* take_all() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    return head_.exchange(nullptr, std::memory_order_acquire);
  }
  bool empty() const { return head_.load(std::memory_order_relaxed) == nullptr; }

 private:
  std::atomic<StreamFlow*> head_{nullptr};
};

struct FlowLimits {
  size_t input_bytes = size_t{1} << 30;   // of one request that is not complete yet
  size_t output_bytes = size_t{1} << 28;  // of replies that the peer has not taken
};

struct FlowHost {
  DatapathQueue* queue = nullptr;
  FlowRegistry* registry = nullptr;  // of the flows whose home this is
  FlowLimits limits;
  const std::atomic<bool>* draining = nullptr;
  BufferPool pool;
  FlowList closed;   // for the queue to free or to pass on
  FlowList yielded;  // owned by the list; for the queue's next poll to advance
  std::atomic<uint64_t> overflowed{0};
  std::atomic<uint64_t> input_limit{0};
  std::atomic<uint64_t> steered{0};    // flows that came here from elsewhere,
  std::atomic<uint64_t> unsteered{0};  // and those that came back
};

// What one receive or send did.
struct Transfer {
  enum class State : uint8_t {
    kMoved,   // `bytes` were moved, there may be more
    kWait,    // nothing moved now; an event will come
    kEnd,     // receive: the peer will send no more
    kBroken,  // the connection is gone
  };
  State state = State::kWait;
  size_t bytes = 0;
};

class StreamFlow : public Request {
 public:
  // Replies of a pipeline are sent at the latest when this much has gathered.
  static constexpr size_t kCoalesceBytes = 64 * 1024;
  // A flow lets others in after this much input, be it one huge request or a pipeline without end.
  static constexpr size_t kTurnBytes = 512 * 1024;
  // An idle flow keeps a reply buffer of at most this size.
  static constexpr size_t kReplyKeptBytes = 16 * 1024;

  StreamFlow(FlowHost& host, uint64_t id, std::string peer, Instant opened);
  virtual ~StreamFlow() = default;
  StreamFlow(const StreamFlow&) = delete;
  StreamFlow& operator=(const StreamFlow&) = delete;

  static StreamFlow& of(Request& request) { return static_cast<StreamFlow&>(request); }

  // Requires a null session so far. Called once, before the flow is shown to a poller.
  void attach(std::unique_ptr<Session> session);

  // Called by the poller of `queue`, at `now`, when the wire had an event there. Returns a request
  // if one is complete. `late`: the queue was not polled for long, ask the kernel when bytes came.
  Request* on_event(FlowHost& queue, Instant now, bool late, bool writable_only);
  // The same for a flow from FlowHost::yielded.
  Request* resume(Instant now, bool late) {
    turn_bytes_ = 0;
    return advance({now, late || std::exchange(waited_, false)});
  }
  // DatapathQueue::finish and flush.
  Request* finished();
  void flush();
  bool flush_some(size_t size_bytes);

  // Home's poller: the idle flow is to close (idle too long, draining). Unsent replies keep it open
  // when `after_replies`. False: it stays, or has an owner.
  bool close_idle(bool after_replies);
  // Home's poller: gives back memory that an idle flow need not hold.
  void shrink_idle();
  // Any thread that keeps the flow from being freed: no request of it is framed any more.
  void doom() { doomed_.store(true, std::memory_order_relaxed); }
  // Any thread that keeps the flow from being freed: Datapath::nudge.
  void nudge() {
    if (gate_.event()) hand_on();
  }
  // A poller, before on_event: the peer has sent its last byte (or a reset).
  void note_peer_closed() { peer_closed_.store(true, std::memory_order_relaxed); }

  // What became of a wish to move the flow.
  enum class Redirect : uint8_t {
    kNone,   // it is there, or on its way
    kNoted,  // its owner will move it
    kOwned,  // it was idle: the caller owns it now and calls hand_on()
  };
  // Any thread that keeps the flow from being freed.
  Redirect redirect(FlowHost& to);
  // The owner leaves it to the queue by which the flow is to come in to go on, having moved the
  // wire there if need be.
  void hand_on();
  // Who took the flow from the closed ones of `queue`: pass it on there; null = free it.
  FlowHost* next_stop(FlowHost& queue);

  // Any thread that keeps the flow from being freed.
  FlowHost& home() const { return route_.home(); }
  bool away() const { return route_.away(); }
  uint64_t id() const { return id_; }
  const std::string& peer() const { return peer_; }
  Instant opened() const { return opened_; }
  FlowState state() const { return gate_.state(); }
  Session* session_ptr() const { return session_.get(); }
  uint64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  uint64_t input_bytes() const { return input_bytes_.load(std::memory_order_relaxed); }
  uint64_t output_bytes() const { return output_bytes_.load(std::memory_order_relaxed); }
  size_t unsent_bytes() const { return unsent_.load(std::memory_order_relaxed); }
  bool busy() const;

  // Guarded by the registry of its home.
  size_t registry_index = 0;
  uint64_t seen_activity = 0;
  Instant idle_since;
  bool shrunk = false;

  StreamFlow* next_in_list = nullptr;  // guarded by the list that holds the flow

 protected:
  // Moves bytes without blocking. `when` holds the time of the call; if `exact`, set it to when the
  // last byte came, where that is known.
  virtual Transfer receive(char* to, size_t room, bool exact, Instant& when) = 0;
  virtual Transfer transmit(std::string_view bytes) = 0;
  // Ends the connection in both directions, so that the wire wakes the present queue.
  virtual void hang_up() = 0;
  // Has the wire tell `to` of its events, and `from` no more. False: it cannot, all is as it was.
  virtual bool rewire(FlowHost& from, FlowHost& to) = 0;
  // The wire of a closed flow tells nobody any more. It has told `queue` so far.
  virtual void unwire(FlowHost& queue) = 0;

 private:
  // When and how the flow came to be advanced.
  struct Turn {
    Instant now;  // never() = look at the clock if it is needed
    bool late = false;
  };
  // What came of pulling bytes in.
  enum class Pull : uint8_t { kGoOn, kYield, kClose };

  Request* advance(Turn turn);
  Request* frame_next();
  Pull pull_in(Turn& turn);
  bool push_out();
  bool let_go();
  void put_back();
  Request* close();
  bool may_frame() const;
  FlowHost& present() const { return route_.at(); }

  FlowRoute route_;
  FlowGate gate_;
  std::atomic<bool> doomed_{false};
  std::atomic<bool> peer_closed_{false};
  bool drained_ = true;           // the wire has nothing more until its next event
  bool ended_ = false;            // received the peer's end of stream
  bool broken_ = false;           // sending failed
  bool waited_ = false;           // was handed on: bytes may have come long ago
  bool close_when_sent_ = false;  // close_after of a finished request
  size_t turn_bytes_ = 0;         // received since a poll last gave the flow its turn
  size_t frame_length_ = 0;       // of the request in flight
  size_t frame_wanted_ = 0;       // of the incomplete one, 0 = unknown
  size_t frame_tried_ = 0;        // unread bytes when it was last seen to be incomplete
  InputBuffer input_;
  ReplyBuffer reply_buffer_;
  std::unique_ptr<Session> session_;
  Instant received_at_;
  // Written by the owner, read by anyone: plain store of own value plus one.
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> input_bytes_{0};
  std::atomic<uint64_t> output_bytes_{0};
  std::atomic<size_t> unsent_{0};
  const uint64_t id_;
  const std::string peer_;
  const Instant opened_;
};

}  // namespace rubato
