// SPDX-License-Identifier: Apache-2.0
//
// JobQueue: one bounded FIFO of jobs. Its memory grows with the most it ever held, so a run of any
// length allocates only while its queues still grow. One owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policy/job.h"

namespace rubato::sim {

class JobQueue {
 public:
  uint64_t produced() const { return produced_ + from_tail_; }
  uint64_t consumed() const { return consumed_ + from_tail_; }
  uint32_t depth() const { return static_cast<uint32_t>(produced_ - consumed_); }
  bool empty() const { return produced_ == consumed_; }

  // False = it holds `capacity` jobs.
  bool put(Job* job, uint32_t capacity) {
    const uint32_t held = depth();
    if (held >= capacity) return false;
    if (held == ring_.size()) grow();
    ring_[produced_++ & mask_] = job;
    return true;
  }

  // Null = empty; both.
  const Job* head() const { return empty() ? nullptr : ring_[consumed_ & mask_]; }
  Job* take() { return empty() ? nullptr : ring_[consumed_++ & mask_]; }
  // The one that was put last.
  Job* take_tail() {
    if (empty()) return nullptr;
    ++from_tail_;
    return ring_[--produced_ & mask_];
  }

 private:
  static constexpr size_t kFirst = 16;

  [[gnu::noinline, gnu::cold]] void grow() {
    std::vector<Job*> wider(std::max(kFirst, 2 * ring_.size()));
    const uint64_t mask = wider.size() - 1;
    for (uint64_t i = consumed_; i < produced_; ++i) wider[i & mask] = ring_[i & mask_];
    ring_ = std::move(wider);
    mask_ = mask;
  }

  std::vector<Job*> ring_;
  uint64_t mask_ = 0;
  uint64_t produced_ = 0;   // but for those that were taken from the tail
  uint64_t consumed_ = 0;   // from the head
  uint64_t from_tail_ = 0;
};

}  // namespace rubato::sim
