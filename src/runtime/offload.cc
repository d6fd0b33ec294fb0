// SPDX-License-Identifier: Apache-2.0
#include "runtime/offload.h"

#include <new>
#include <system_error>

#include "mechanism/preempt/preempt_disable.h"

namespace rubato {

Offload::~Offload() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

bool Offload::run(void (*call)(void* user), void* user) {
  Job job{call, user};
  if (!submit(job)) return false;
  static_cast<void>(job.waiter.wait({.firm = true}));
  return true;
}

bool Offload::submit(Job& job) {
  const PreemptDisableGuard no_preemption;
  {
    const std::scoped_lock lock(mutex_);
    if (idle_ == 0 && helpers_.size() < limits::kOffloadThreads) add_helper();
    if (helpers_.empty()) return false;
    jobs_.push_back(job);
  }
  changed_.notify_one();
  return true;
}

// Locked. The jobs wait for those that there are if it fails.
void Offload::add_helper() try {
  helpers_.emplace_back([this] { help(); });
} catch (const std::bad_alloc&) {
} catch (const std::system_error&) {
}

void Offload::help() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    Job* const job = jobs_.pop_front();
    if (job == nullptr) {
      ++idle_;
      changed_.wait(lock);
      --idle_;
      continue;
    }
    lock.unlock();
    job->call(job->user);
    {
      Claimed claimed;
      static_cast<void>(claimed.claim(job->waiter, Wake::kWoken));
    }
    lock.lock();
  }
}

}  // namespace rubato
