// SPDX-License-Identifier: Apache-2.0
//
// AsideThread: runs work that blocks in the kernel for long (file copies) where it keeps no worker
// from requests. One piece at a time. run() is for any thread; whoever destroys it waits for the
// work that runs. Made before the workers, so that it has the process's CPUs and not those of one.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace rubato {

class AsideThread {
 public:
  AsideThread();
  ~AsideThread();

  // False: other work runs, and nothing was done.
  bool run(std::function<void()> work);

 private:
  void serve();

  std::mutex mutex_;  // guards the two below
  std::function<void()> work_;  // empty = none
  bool stopping_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace rubato
