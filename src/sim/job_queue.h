// SPDX-License-Identifier: Apache-2.0
//
// JobQueue: one bounded FIFO of jobs. Its memory grows with the most it ever held, so a run of any
// length allocates only while its queues still grow. One owner.
#pragma once

#include <cstdint>

#include "base/limits.h"
#include "policy/job.h"
#include "sim/growing_ring.h"

namespace rubato::sim {

class alignas(limits::kCacheLineBytes) JobQueue {  // each worker has one: a line of it
 public:
  uint64_t produced() const { return jobs_.pushed(); }
  uint64_t consumed() const { return jobs_.pushed() - jobs_.size(); }
  uint32_t depth() const { return static_cast<uint32_t>(jobs_.size()); }
  bool empty() const { return jobs_.empty(); }

  // False = it holds `capacity` jobs.
  bool put(Job* job, uint32_t capacity) {
    if (depth() >= capacity) return false;
    jobs_.push(job);
    return true;
  }

  // Null = empty; both.
  const Job* head() const { return empty() ? nullptr : jobs_.front(); }
  Job* take() {
    if (empty()) return nullptr;
    Job* const job = jobs_.front();
    jobs_.pop();
    return job;
  }
  // The one that was put last.
  Job* take_tail() { return empty() ? nullptr : jobs_.pop_last(); }

 private:
  GrowingRing<Job*> jobs_;
};
static_assert(sizeof(JobQueue) == limits::kCacheLineBytes);

}  // namespace rubato::sim
