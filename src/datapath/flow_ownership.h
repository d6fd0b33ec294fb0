// SPDX-License-Identifier: Apache-2.0
//
// FlowOwnership: which thread owns a flow. One atomic state, changed by the threads that bring
// events (the poller of the flow's queue, the poller of a queue that the flow has left, a thread
// that steers the flow: see flow_route.h), by sweeps, and by the flow's owner (the worker that runs
// its request, perhaps a thief).
//
//            event()                    event()
//   kIdle ------------> kScheduled ----------------> kScheduledReadable
//     ^   (caller owns)  |  |   ^                        |     |
//     |     release()    |  |   |   release() == false   |     |
//     +------------------+  |   +------------------------+     |
//                           |  close()              close()    |
//                           +----------> kClosing <------------+
//
// No wakeup is lost. Let E be an event: its bytes are in the socket before event() is called. All
// sides change the state only by read-modify-writes with acq_rel order (event() rewrites even
// kScheduledReadable), so each event() stands either before or after each release() in the one
// modification order of the state:
//   - event() after release() moved to kIdle: event() reads kIdle, or the value that another
//     event() or claim() has written since; the first of these callers became the owner and
//     receives, the others come before its release();
//   - event() before release(): event() left kScheduledReadable, so release() returns false; the
//     owner's exchange reads that value or a later one, so E happens before the owner's next
//     receive, which sees the bytes.
// There is no third case, so an owner never leaves a flow idle with an unseen event.
// The release half of every change publishes the plain fields of the flow to the next owner.
//
// Every change, and state(), is even seq_cst, which costs no more: so a thread that drains the
// datapath sees who owns a flow, or the owner sees that no request is to be taken (drain_flag.h).
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "mechanism/queue/sync.h"

namespace rubato {

enum class FlowState : uint8_t {
  kIdle,               // no owner; an event or a sweep may take it
  kScheduled,          // has an owner
  kScheduledReadable,  // has an owner, which must look at the socket again before it lets go
  kClosing,            // given up for good; a queue will free the flow
};

// The only transitions of the state.
constexpr bool flow_may_move(FlowState from, FlowState to) {
  switch (from) {
    case FlowState::kIdle: return to == FlowState::kScheduled;
    case FlowState::kScheduled:
      return to == FlowState::kIdle || to == FlowState::kScheduledReadable ||
             to == FlowState::kClosing;
    case FlowState::kScheduledReadable:
      return to == FlowState::kScheduledReadable || to == FlowState::kScheduled ||
             to == FlowState::kClosing;
    case FlowState::kClosing: return false;
  }
  return false;
}

template <class Sync = StdSync>
class FlowOwnership {
 public:
  // The socket had an event, or the flow is to move. True: the flow was idle and the caller now
  // owns it. Called by any thread that keeps the flow from being freed.
  bool event() {
    FlowState seen = state_.load(std::memory_order_relaxed);
    for (;;) {
      if (seen == FlowState::kClosing) return false;
      const FlowState to =
          seen == FlowState::kIdle ? FlowState::kScheduled : FlowState::kScheduledReadable;
      if (move(seen, to)) return to == FlowState::kScheduled;
    }
  }

  // Takes an idle flow; false if it has an owner or is closing. Called like event().
  bool claim() {
    FlowState seen = FlowState::kIdle;
    return move(seen, FlowState::kScheduled);
  }

  // The owner lets go. False: an event came meanwhile, the caller still owns the flow and must look
  // at the socket again.
  bool release() {
    FlowState seen = FlowState::kScheduled;
    if (move(seen, FlowState::kIdle)) return true;
    settle(FlowState::kScheduled);
    return false;
  }

  // The owner gives the flow up; events are ignored from now on.
  void close() { settle(FlowState::kClosing); }

  FlowState state() const { return state_.load(std::memory_order_seq_cst); }

 private:
  bool move(FlowState& seen, FlowState to) {
    RUBATO_DCHECK(flow_may_move(seen, to));
    return state_.compare_exchange_strong(seen, to, std::memory_order_seq_cst,
                                          std::memory_order_acquire);
  }
  void settle(FlowState to) {
    const FlowState from = state_.exchange(to, std::memory_order_seq_cst);
    RUBATO_CHECK(flow_may_move(from, to));
  }

  typename Sync::template Atomic<FlowState> state_{FlowState::kIdle};
};

}  // namespace rubato
