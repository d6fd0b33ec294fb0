// SPDX-License-Identifier: Apache-2.0
//
// ServiceMeter: the CPU time that one worker gives to requests. A slice and a service time are CPU
// time: time in which the worker's thread had no CPU counts as lost, not as service
// (mechanism/clock/cpu_loss.h). The meter also remembers the long slices, to name the request that
// held up another, and keeps the worker's busy time in its counters. One per worker, its thread
// only.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "mechanism/clock/cpu_loss.h"
#include "runtime/worker_stats.h"

namespace rubato {

class ServiceMeter {
 public:
  // A slice that ended this late, or a request that ran this long, may have lost its CPU.
  static constexpr Nanos kSuspicious = Nanos::micros(100);

  explicit ServiceMeter(WorkerStats& stats) : stats_(stats) {}

  // The worker thread's own loss of CPU: counted from the start, and over sleeps.
  CpuLoss& loss() { return loss_; }

  // A request starts, or goes on after a preemption.
  void start(Instant now, const Request& request) {
    start_ = now;
    lost_ = Nanos();
    stats_.busy_type.store(request.type, std::memory_order_relaxed);
    stats_.busy_since_ns.store(now.ns(), std::memory_order_release);
  }

  // As WorkerStats::busy_since_ns.
  int64_t busy_since() const { return start_.ns(); }

  // The service that the running request has had by now.
  Nanos attained(const Request& request, Instant now) const {
    return request.attained + (now - start_) - lost_;
  }

  // Charges the part of the last `most` that went by without a CPU, if `most` is long enough to be
  // suspicious.
  Nanos charge_loss(Nanos most, Instant now) {
    const Nanos lost = loss_within(std::min(most, now - start_ - lost_), now);
    lost_ += lost;
    RUBATO_DCHECK(lost_ >= Nanos());
    return lost;
  }
  Nanos lost() const { return lost_; }  // of the time since start()

  // The running request has run until `at`. Returns for how long, without the service it had
  // before.
  Nanos stop(const Request& request, Instant at) {
    stats_.busy_ns += static_cast<uint64_t>((at - start_).count());
    slices_.note(start_, at, request.type);
    return at - start_;
  }

  // The worker runs no request now: the last one is suspended, or its reply has left, which took
  // `cost`. Returns the part of that without a CPU.
  void leave() { stats_.busy_since_ns.store(0, std::memory_order_relaxed); }
  Nanos replied(Nanos cost, Instant now) {
    const Nanos lost = loss_within(cost, now);
    stats_.busy_ns += static_cast<uint64_t>(cost.count());
    leave();
    return lost;
  }

  // Whether a long slice ended after `from`, so that blocker() may name one.
  bool blocked_after(Instant from) const { return slices_.any_after(from); }

  // The request that ran longest between `from` and `to`.
  RecentSlices::Blocker blocker(Instant from, Instant to) const {
    return slices_.worst_between(from, to);
  }

 private:
  Nanos loss_within(Nanos time, Instant now) {
    return time > kSuspicious ? std::min(loss_.take(now), time) : Nanos();
  }

  WorkerStats& stats_;
  Instant start_;
  Nanos lost_;
  CpuLoss loss_;
  RecentSlices slices_;
};

}  // namespace rubato
