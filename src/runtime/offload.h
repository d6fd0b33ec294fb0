// SPDX-License-Identifier: Apache-2.0
//
// Offload: helper threads of one runtime, for calls that block the thread: at most so many, made
// when they are needed. Further calls wait for one, first come, first served. Threads: run() by
// requests and any other thread, the rest by the owner. A mutex guards everything.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "runtime/waiter.h"

namespace rubato {

class Offload {
 public:
  Offload() = default;
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  // Runs `call(user)` on a helper; returns when it has ended. A request holds no worker meanwhile,
  // and nothing ends the wait. False: there is no helper, and none can be made. May switch.
  bool run(void (*call)(void* user), void* user);

 private:
  // On its caller's stack, until the waiter is claimed.
  struct Job {
    void (*call)(void* user);
    void* user;
    Waiter waiter{};
    ListLinks<Job> links{};
  };

  bool submit(Job& job);
  void add_helper();
  void help();

  std::mutex mutex_;
  std::condition_variable changed_;
  IntrusiveList<Job, &Job::links> jobs_;
  std::vector<std::thread> helpers_;
  uint32_t idle_ = 0;
  bool ends_ = false;
};

}  // namespace rubato
