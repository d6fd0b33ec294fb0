// SPDX-License-Identifier: Apache-2.0
//
// TaskPools: the memory of an executor's tasks, apart for each group, so that no group takes what
// another may need. Threads as TaskPool.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "executor/task_pool.h"

namespace rubato {

class TaskPools {
 public:
  // `most` tasks at once outside of the program's own groups; `own`: of each of those.
  TaskPools(uint32_t most, const std::vector<uint32_t>& own) : common_(most) {
    for (const uint32_t of_group : own) own_.push_back(std::make_unique<TaskPool>(of_group));
  }

  // False: there are no addresses left for so many tasks.
  bool valid() const {
    return common_.valid() &&
           std::all_of(own_.begin(), own_.end(), [](const auto& pool) { return pool->valid(); });
  }

  // Why not, in words.
  std::string shortage() const {
    uint64_t bytes = common_.bytes();
    for (const auto& pool : own_) bytes += pool->bytes();
    return "no " + std::to_string((bytes + (1u << 20) - 1) >> 20) +
           " MiB of addresses for the tasks of the executor and its groups: see `ulimit -v` and "
           "/proc/sys/vm/overcommit_memory";
  }

  TaskPool& of(uint8_t group) {
    return group < kFirstOwnGroup ? common_ : *own_[group - kFirstOwnGroup];
  }
  const TaskPool& of(uint8_t group) const {
    return group < kFirstOwnGroup ? common_ : *own_[group - kFirstOwnGroup];
  }
  void give_back(Task& task) { of(task.group).give_back(task); }

  uint64_t taken() const {
    uint64_t sum = common_.taken();
    for (const auto& pool : own_) sum += pool->taken();
    return sum;
  }
  template <class F>
  void for_each(F&& visit) {
    common_.for_each(visit);
    for (const auto& pool : own_) pool->for_each(visit);
  }

 private:
  TaskPool common_;
  std::vector<std::unique_ptr<TaskPool>> own_;
};

}  // namespace rubato
