// SPDX-License-Identifier: Apache-2.0
//
// OrderableJobQueue: a bounded queue of jobs in either Order, with the face of JobQueue. For
// policies that declare a queue that is not FIFO; those of all others are JobQueues. One owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policy/contract.h"
#include "sim/job_queue.h"

namespace rubato::sim {

class OrderableJobQueue {
 public:
  explicit OrderableJobQueue(Order order) : by_word_(order == Order::kByWord) {}

  uint64_t produced() const { return by_word_ ? produced_ : fifo_.produced(); }
  uint64_t consumed() const { return by_word_ ? produced_ - heap_.size() : fifo_.consumed(); }
  uint32_t depth() const {
    return by_word_ ? static_cast<uint32_t>(heap_.size()) : fifo_.depth();
  }
  bool empty() const { return depth() == 0; }

  // False = it holds `capacity` jobs.
  bool put(Job* job, uint32_t capacity) {
    if (!by_word_) return fifo_.put(job, capacity);
    if (heap_.size() >= capacity) return false;
    heap_.push_back({job->policy_word, produced_++, job});
    std::push_heap(heap_.begin(), heap_.end(), behind);
    return true;
  }

  // Null = empty; both.
  const Job* head() const {
    if (!by_word_) return fifo_.head();
    return heap_.empty() ? nullptr : heap_.front().job;
  }
  Job* take() {
    if (!by_word_) return fifo_.take();
    if (heap_.empty()) return nullptr;
    std::pop_heap(heap_.begin(), heap_.end(), behind);
    Job* const job = heap_.back().job;
    heap_.pop_back();
    return job;
  }
  // The one that was put last. Requires a FIFO.
  Job* take_tail() { return fifo_.take_tail(); }

  // Of the job that is taken next; kNoWord = empty. Requires the order kByWord.
  uint64_t first_word() const { return heap_.empty() ? kNoWord : heap_.front().word; }

 private:
  struct Entry {
    uint64_t word;
    uint64_t number;  // of the put
    Job* job;
  };
  static bool behind(const Entry& a, const Entry& b) {
    return a.word != b.word ? a.word > b.word : a.number > b.number;
  }

  bool by_word_;
  JobQueue fifo_;
  std::vector<Entry> heap_;
  uint64_t produced_ = 0;
};

}  // namespace rubato::sim
