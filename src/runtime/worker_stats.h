// SPDX-License-Identifier: Apache-2.0
//
// WorkerStats: the counters of one worker. Written by that worker only, read by any thread: every
// field is a relaxed counter or a shared histogram, so a snapshot may be torn between fields but
// never within one.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/limits.h"
#include "base/time.h"
#include "datapath/request.h"
#include "metrics/counter.h"
#include "metrics/histogram.h"
#include "policy/job.h"
#include "runtime/blocked_pairs.h"
#include "runtime/queue_delay.h"

namespace rubato {

inline constexpr uint32_t kRequestTypes = 256;
// Where the statistics of a type are: types above share the last place.
constexpr uint32_t type_slot(uint32_t type) { return std::min(type, kRequestTypes - 1); }

// The counts that policies see, of the group whose requests went through their queues.
struct ServedStats {
  Counter served;      // finished, and of those in all:
  Counter service_ns;  //   time on workers
  Counter waited_ns;   //   time from arrival to the first slice

  void add(Nanos waited, Nanos service) {
    ++served;
    service_ns += static_cast<uint64_t>(service.count());
    waited_ns += static_cast<uint64_t>(waited.count());
  }
  void add(const ServedStats& other) {
    served += other.served.value();
    service_ns += other.service_ns.value();
    waited_ns += other.waited_ns.value();
  }
};

// Of a group of requests (sched/group_shares.h).
struct GroupStats : ServedStats {
  Counter arrived;  // refused or not
  Counter refused;

  using ServedStats::add;
  void add(const GroupStats& other) {
    ServedStats::add(other);
    arrived += other.arrived.value();
    refused += other.refused.value();
  }
};

struct TypeStats : ServedStats {
  SharedHistogram latency;  // arrival to reply, as the client feels it
  SharedHistogram service;  // time on workers

  using ServedStats::add;
  void add(const TypeStats& other) {
    ServedStats::add(other);
    latency.add(other.latency);
    service.add(other.service);
  }
};

class alignas(limits::kCacheLineBytes) WorkerStats {
 public:
  ~WorkerStats();

  Counter taken_in;             // polled, from the worker's own queue or another's
  Counter given_back;           // ends of what was polled, with all that followed in its flow
  Counter requests;             // finished
  Counter refused;              // answered with an explicit refusal, queues full or draining
  Counter cancelled;            // started, and told to end: the reply was not wanted any more
  Counter preemptions;
  Counter preemptions_avoided;  // slice over, but no request would have gained
  Counter preemptions_denied;   // no fiber left to switch to
  Counter preemptions_deferred; // put off: the request could not be left where it was
  Counter lock_yields;          // gave the worker away because a lock was taken
  Counter stuck_left;           // of these: it was found to be stuck, and left where it was
  Counter waits;                // gave the worker away to wait for something
  Counter came_back;            // requests whose wait was over, taken in here
  Counter resumed;
  Counter long_by_feedback;
  Counter long_by_age;
  Counter long_learned;
  Counter helped;               // requests polled for a worker that was stuck
  Counter parked;               // times it went to sleep
  Counter woken;                // times its sleep ended for work another thread had queued
  Counter busy_ns;              // time spent on requests, polling excluded
  Counter asleep_ns;            // time slept, up to the last time it woke
  SharedHistogram overrun;      // from the end of a slice to the checkpoint that noticed it
  // When the request that the worker runs started or went on; 0 = it runs none. Released, so that
  // who sees one also sees what the worker made before it ran any.
  std::atomic<int64_t> busy_since_ns{0};
  std::atomic<uint32_t> busy_type{0};  // of that request, relaxed
  // When the worker last polled its own arrivals, or woke, relaxed; kAsleep = it sleeps, and wakes
  // for arrivals.
  static constexpr int64_t kAsleep = INT64_MAX;
  std::atomic<int64_t> polled_ns{kAsleep};
  // When the worker went to sleep, relaxed; 0 = it is awake.
  std::atomic<int64_t> asleep_since_ns{0};
  std::atomic<int64_t> quantum_ns{0};  // of the last slice started, relaxed; 0 = none yet
  std::array<GroupStats, limits::kGroups> groups;
  // Requests of the policy's group that came, refused or not. As for policies, types above share
  // the last entry.
  std::array<Counter, limits::kTypes> arrived;
  BlockedPairs blocked;
  QueueDelay delay;
  std::atomic<bool> overloaded{false};  // the worker refuses late requests, relaxed

  // Called by the worker itself; allocates on the first request of a type.
  TypeStats& of_type(uint32_t type) {
    const uint32_t slot = type_slot(type);
    TypeStats* stats = types_[slot].load(std::memory_order_relaxed);
    return stats != nullptr ? *stats : make(slot);
  }

  ServedStats& of_class(JobClass job_class) { return classes_[static_cast<size_t>(job_class)]; }
  const ServedStats& of_class(JobClass job_class) const {
    return classes_[static_cast<size_t>(job_class)];
  }

  // Requests that were switched away from on this worker and could go on, less those resumed on it;
  // the sum over all workers is the number of suspended requests that want a worker. Any thread.
  int64_t suspended() const {
    return static_cast<int64_t>(preemptions.value() + lock_yields.value() + came_back.value() -
                                resumed.value());
  }

  Counter& refused_for(Refusal why, JobClass job_class) {
    return refusals_[static_cast<size_t>(why)][static_cast<size_t>(job_class)];
  }
  const Counter& refused_for(Refusal why, JobClass job_class) const {
    return refusals_[static_cast<size_t>(why)][static_cast<size_t>(job_class)];
  }

  // Adds the counts of a worker that has ended; what it did last is no count. The thread that
  // writes these.
  void add(const WorkerStats& other);

  // Any thread; null = this worker has seen none. The release is in make().
  const TypeStats* find_type(uint32_t type) const {
    return types_[type_slot(type)].load(std::memory_order_acquire);
  }
  // One beyond the last type that this worker has seen. Any thread; relaxed.
  uint32_t types_end() const { return types_end_.load(std::memory_order_relaxed); }

 private:
  TypeStats& make(uint32_t slot);

  std::array<std::atomic<TypeStats*>, kRequestTypes> types_{};
  std::atomic<uint32_t> types_end_{0};
  std::array<ServedStats, 2> classes_;
  std::array<std::array<Counter, 2>, kRefusals> refusals_;
};

// The last long slices that one worker ran, to tell a delayed request what held it up. Plain memory
// of one worker.
class RecentSlices {
 public:
  static constexpr Nanos kWorthNoting = Nanos::micros(100);

  struct Blocker {
    uint32_t type = 0;
    Nanos held;  // 0 = none
  };

  void note(Instant start, Instant end, uint32_t type) {
    if (end - start < kWorthNoting) return;
    slices_[next_++ % slices_.size()] = {start, end, type};
    last_end_ = end;
  }

  // Whether one of them ended after `from`. For hot paths.
  bool any_after(Instant from) const { return last_end_ > from; }

  // The slice that ran longest between `from` and `to`.
  Blocker worst_between(Instant from, Instant to) const;

 private:
  struct Slice {
    Instant start;
    Instant end;
    uint32_t type = 0;
  };
  std::array<Slice, 16> slices_{};
  size_t next_ = 0;
  Instant last_end_;
};

}  // namespace rubato
