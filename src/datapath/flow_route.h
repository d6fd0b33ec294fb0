// SPDX-License-Identifier: Apache-2.0
//
// FlowRoute: the queue by which a flow comes in, and how it changes while the flow lives. SBB
// redirects a flow of an overloaded worker through the NIC's table (SBB 4.5.1); here the connection
// is moved instead.
//
// A flow has a home, the queue that it was first put to: the home keeps the flow in its list,
// sweeps it and lends it buffers for life. The flow also has a present queue, whose poller takes
// its events. Only the present queue changes.
//
// To ask for a move, any thread calls want(), then FlowOwnership::event(). To move, the owner of
// the flow makes these steps:
//   1. the wire joins the events of the new queue, then leaves those of the old one;
//   2. arrive();
//   3. the flow, still owned, goes to the new queue's list `yielded`, and that queue is woken.
//
// The wish is not lost. want() is followed by an event() of the same thread, so the wish is an
// event like any other (flow_ownership.h): either that event() takes an idle flow, and the asking
// thread moves it; or the owner's release() fails, and its acquire makes the wish visible before
// the owner looks again. An owner may see the wish sooner and act on it; the event() that follows
// then finds nothing to do. If there are several wishes, the last in the modification order of
// wanted_ holds: a thread that sees its event() sees this wish or a later one. wanted_ and at_ need
// no order of their own; FlowOwnership and the lists publish the data of a move.
//
// No byte is lost. Step 1 leaves no gap, and the poll after step 3 receives until the wire has no
// more.
//
// Events that a queue took before the wire left it are stale. FlowOwnership makes them harmless:
// their poller finds the flow owned (and marks it), closing, or idle. If the flow was idle, the
// poller owns it now, sees that its queue is not the present one, and hands the flow on as in
// step 3.
//
// A flow is freed once, and after its last stale event. A queue reaps only while it remembers no
// event, under its poll lock. A closed flow is pushed to the present queue, which takes the wire
// out of its events and pushes the flow to a queue that it left, and so on (next_stop); the queue
// that finds none left frees the flow. Each push releases and each FlowList::take_all acquires, so
// that every use of the flow by a queue happens before the end.
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include <algorithm>
#include <vector>

#include "mechanism/queue/sync.h"

namespace rubato {

struct FlowHost;

template <class Sync = StdSync>
class FlowRoute {
 public:
  explicit FlowRoute(FlowHost& owner_queue)
      : owner_queue_(owner_queue), at_(&owner_queue), wanted_(&owner_queue) {}

  // Any thread.
  FlowHost& owner_queue() const { return owner_queue_; }
  bool migrated() const { return at_.load(std::memory_order_relaxed) != &owner_queue_; }
  // False: the flow is there, or on its way. True: the caller must call FlowOwnership::event() now.
  bool want(FlowHost& to) { return wanted_.exchange(&to, std::memory_order_relaxed) != &to; }

  // For the flow's owner, and for the thread that takes the flow from a list of closed ones.
  FlowHost& at() const { return *at_.load(std::memory_order_relaxed); }
  FlowHost& wanted() const { return *wanted_.load(std::memory_order_relaxed); }
  bool settled() const { return &wanted() == &at(); }

  // The owner has moved the wire.
  void arrive(FlowHost& to) {
    std::erase(left_, &to);
    left_.push_back(&at());
    at_.store(&to, std::memory_order_relaxed);
  }
  // The owner could not move the wire. A wish that was made meanwhile stands.
  void abort(FlowHost& to) {
    FlowHost* expected = &to;
    wanted_.compare_exchange_strong(expected, &at(), std::memory_order_relaxed,
                                    std::memory_order_relaxed);
  }

  // For a closed flow: the queue to pass the flow to; null = free the flow.
  bool has_left() const { return !left_.empty(); }
  FlowHost* next_stop() {
    if (left_.empty()) return nullptr;
    FlowHost* next = left_.back();
    left_.pop_back();
    return next;
  }

 private:
  FlowHost& owner_queue_;
  typename Sync::template Atomic<FlowHost*> at_;
  typename Sync::template Atomic<FlowHost*> wanted_;
  std::vector<FlowHost*> left_;  // may remember events of the flow; each once, never at_
};

}  // namespace rubato
