// SPDX-License-Identifier: Apache-2.0
//
// OwnerQueue: the part of a stream queue that does not depend on the wire: the poll lock, the flows
// whose home this queue is, the flows present here that yielded or closed, and the slow sweep. It
// owns the flows of its home, whichever queue they come in by now (flow_route.h). All methods but
// those marked "any thread" are for the holder of the poll lock.
#pragma once

#include <span>

#include "base/limits.h"
#include "datapath/flow_index.h"
#include "datapath/flow_registry.h"
#include "datapath/poll_lock.h"

namespace rubato {

class OwnerQueue {
 public:
  static constexpr size_t kSweepInPoll = 64;    // flows looked at by a poll, at most
  static constexpr size_t kSweepInWait = 4096;  // by a wait, when the worker is idle
  // Every flow is looked at about once in this time, so no wait should be longer.
  static constexpr Nanos kSweepRound = Nanos::seconds(1);

  OwnerQueue(DatapathQueue& queue, FlowIndex& index, const FlowLimits& limits,
           const DrainFlag<>& draining);
  ~OwnerQueue();
  OwnerQueue(const OwnerQueue&) = delete;
  OwnerQueue& operator=(const OwnerQueue&) = delete;

  FlowHost& host() { return host_; }
  const FlowRegistry& registry() const { return registry_; }

  // Takes ownership of a flow made with host(). From then on it may be steered.
  void add(std::unique_ptr<StreamFlow> flow);

  // Advances flows that yielded their turn; returns how many requests it has put into `out`.
  uint32_t take_yielded(std::span<Request*> out, Instant now, bool late);
  bool has_yielded() const { return yielded_ != nullptr || !host_.yielded.empty(); }
  // Any thread; may lag.
  bool may_have_yielded() const {
    return left_over_.load(std::memory_order_relaxed) || !host_.yielded.empty();
  }

  // Frees closed flows, or passes them to the next queue that they left (flow_route.h); returns how
  // many it freed. Requires that the caller holds no event of these flows.
  uint32_t reap();

  // Closes the flows that idle for longer than `timeout` (zero = never), or all idle flows when
  // draining, and shrinks others. Looks at no more than `most` flows, and at no more than are due.
  void sweep(Instant now, size_t most, Nanos timeout);
  bool draining() const { return host_.draining->is_set(); }

  // Any thread.
  void add_to(DatapathStats& stats) const;

  struct PollLock : rubato::PollLock {
    explicit PollLock(OwnerQueue& owner_queue) : rubato::PollLock(owner_queue.polling_) {}
  };

 private:
  FlowHost host_;
  FlowIndex& index_;
  FlowRegistry registry_;
  StreamFlow* yielded_ = nullptr;  // taken from the host's list, not yet advanced
  Instant last_sweep_;
  Instant last_trim_;
  alignas(limits::kCacheLineBytes) std::atomic<bool> polling_{false};
  std::atomic<bool> left_over_{false};  // mirrors yielded_ for other threads
  std::atomic<uint64_t> timed_out_{0};
};

}  // namespace rubato
