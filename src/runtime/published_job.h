// SPDX-License-Identifier: Apache-2.0
//
// PublishedJob: the running job of a worker as the timer core sees it, for hook `expired`: all
// fields as they were when the slice began, and how long the job has been served by now. Written by
// the worker only, read by any thread. Each word is either the old or the new one, so a reader may
// get fields of two jobs while the next one is written.
//
// Ordering: relaxed. After store(), the writer publishes by a release store of its own, which the
// reader has loaded with acquire.
#pragma once

#include <atomic>
#include <cstdint>

#include "policy/job.h"

namespace rubato {

class PublishedJob {
 public:
  // The job has been served for `attained` by now.
  void store(Instant now, const Job& job, Nanos attained) {
    put(arrived_, job.arrived.ns());
    put(started_, job.started.ns());
    put(attained_from_, (now - attained).ns());
    put(size_hint_, job.size_hint.count());
    put(deadline_, job.deadline.ns());
    put(policy_word_, job.policy_word);
    put(flow_, job.flow);
    put(counts_, Counts{job.preemptions, job.moves});
    put(kind_, Kind{job.type, job.job_class, job.priority, job.group});
  }

  // The job as of `now`, if it still runs.
  Job load(Instant now) const {
    Job job;
    job.arrived = Instant(get(arrived_));
    job.started = Instant(get(started_));
    job.attained = now - Instant(get(attained_from_));
    job.size_hint = Nanos(get(size_hint_));
    job.deadline = Instant(get(deadline_));
    job.policy_word = get(policy_word_);
    job.flow = get(flow_);
    const Counts counts = get(counts_);
    job.preemptions = counts.preemptions;
    job.moves = counts.moves;
    const Kind kind = get(kind_);
    job.type = kind.type;
    job.job_class = kind.job_class;
    job.priority = kind.priority;
    job.group = kind.group;
    return job;
  }

 private:
  struct Counts {
    uint32_t preemptions = 0;
    uint32_t moves = 0;
  };
  struct Kind {
    uint32_t type = 0;
    JobClass job_class = JobClass::kShort;
    uint8_t priority = 0;
    uint8_t group = kPolicyGroup;
    uint8_t unused = 0;
  };

  template <class T>
  static void put(std::atomic<T>& word, T value) {
    word.store(value, std::memory_order_relaxed);
  }
  template <class T>
  static T get(const std::atomic<T>& word) {
    return word.load(std::memory_order_relaxed);
  }

  std::atomic<int64_t> arrived_{0};
  std::atomic<int64_t> started_{0};
  std::atomic<int64_t> attained_from_{0};
  std::atomic<int64_t> size_hint_{0};
  std::atomic<int64_t> deadline_{0};
  std::atomic<uint64_t> policy_word_{0};
  std::atomic<uint64_t> flow_{0};
  std::atomic<Counts> counts_{};
  std::atomic<Kind> kind_{};
  static_assert(std::atomic<Counts>::is_always_lock_free);
  static_assert(std::atomic<Kind>::is_always_lock_free);
};

}  // namespace rubato
