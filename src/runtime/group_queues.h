// SPDX-License-Identifier: Apache-2.0
//
// GroupQueues: the queues of requests whose group is not the policy's (sched/group_shares.h): at
// each worker two for each group, of requests that have just come and of those that were suspended.
// Built before the workers start. Threads: a worker puts into its own; any thread does the rest.
// Memory order: that of the queues (mechanism/queue/steal_queue.h) and of own_marks.h.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "mechanism/queue/steal_queue.h"
#include "policy/job.h"
#include "runtime/own_marks.h"

namespace rubato {

class GroupQueues {
 public:
  // `groups` with the policy's; as many requests may be suspended as there are fibers.
  GroupQueues(uint32_t workers, uint32_t groups, uint32_t capacity, uint32_t fibers)
      : groups_(groups - 1) {
    marks_.reserve(groups_);
    for (uint32_t i = 0; i < groups_; ++i) marks_.emplace_back(workers);
    const uint32_t suspended = std::bit_ceil(std::min(capacity, fibers));
    for (uint32_t i = 0; i < workers * groups_; ++i) {
      queues_.push_back({std::make_unique<Queue>(capacity), std::make_unique<Queue>(suspended)});
    }
  }

  // False = full.
  bool put(WorkerId me, Job* job, bool suspended) {
    marks_[job->group - 1].set(me);
    return queue(me, job->group, suspended).put(job);
  }
  // From this worker's own, first those that were suspended or that have just come. Null = empty.
  Job* take_own(WorkerId me, uint32_t group, bool suspended_first) {
    Job* const job = take_either(me, group, suspended_first);
    if (job == nullptr) marks_[group - 1].clear(me);
    return job;
  }
  // From those of another worker. Null = they are empty.
  Job* take_from_others(WorkerId me, uint32_t group) {
    Job* job = nullptr;
    marks_[group - 1].any_other(me, [&](WorkerId other) {
      job = take_either(other, group, false);
      return job != nullptr;
    });
    return job;
  }

  // Requests that wait, a hint: of a group at a worker, of all groups there, and anywhere.
  uint32_t depth(WorkerId worker, uint32_t group) {
    return queue(worker, group, false).depth() + queue(worker, group, true).depth();
  }
  uint32_t depth(WorkerId worker) {
    uint32_t sum = 0;
    for (uint32_t group = 1; group <= groups_; ++group) sum += depth(worker, group);
    return sum;
  }
  bool any_waiting() {
    return std::ranges::any_of(queues_, [](const Pair& pair) {
      return pair[0]->depth() > 0 || pair[1]->depth() > 0;
    });
  }

 private:
  using Queue = StealQueue<Job*>;
  using Pair = std::array<std::unique_ptr<Queue>, 2>;

  Job* take_either(WorkerId worker, uint32_t group, bool suspended_first) {
    Job* const job = take(worker, group, suspended_first);
    return job != nullptr ? job : take(worker, group, !suspended_first);
  }
  Job* take(WorkerId worker, uint32_t group, bool suspended) {
    Queue& from = queue(worker, group, suspended);
    Job* job = nullptr;
    return from.depth() > 0 && from.take(job) ? job : nullptr;
  }
  Queue& queue(WorkerId worker, uint32_t group, bool suspended) {
    return *queues_[worker.value * groups_ + group - 1][suspended ? 1 : 0];
  }

  const uint32_t groups_;  // but the policy's
  std::vector<OwnMarks<>> marks_;
  std::vector<Pair> queues_;
};

}  // namespace rubato
