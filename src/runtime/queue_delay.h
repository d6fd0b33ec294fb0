// SPDX-License-Identifier: Apache-2.0
//
// QueueDelay: the time that requests wait at one worker for their turn, by class: the signal that
// overload control acts on (CoreSync III-A takes the greatest of all cores). Short: the wait before
// the first start of a request that is not known to be long by then. Long: that wait of a request
// known to be long, and the wait of a preempted request until it goes on, so that time-sharing
// among long requests does not read as overload of the short ones. The control plane's requests do
// not count.
//
// Written by the worker, one relaxed store per start; read by any thread, for which a slightly old
// value will do.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "policy/job.h"

namespace rubato {

class QueueDelay {
 public:
  // A request of that class has its turn after waiting for `wait`.
  void waited(JobClass job_class, Nanos wait) { set(job_class, wait.count()); }
  // No request of that class waits here.
  void none_waits(JobClass job_class) {
    if (at(job_class).load(std::memory_order_relaxed) != 0) set(job_class, 0);
  }

  // Any thread.
  Nanos of(JobClass job_class) const {
    return Nanos(waited_ns_[static_cast<size_t>(job_class)].load(std::memory_order_relaxed));
  }

 private:
  std::atomic<int64_t>& at(JobClass job_class) {
    return waited_ns_[static_cast<size_t>(job_class)];
  }
  void set(JobClass job_class, int64_t ns) { at(job_class).store(ns, std::memory_order_relaxed); }

  std::array<std::atomic<int64_t>, 2> waited_ns_{};
};

}  // namespace rubato
