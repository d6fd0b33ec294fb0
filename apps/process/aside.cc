// SPDX-License-Identifier: Apache-2.0
#include "process/aside.h"

#include <utility>

namespace rubato {

AsideThread::AsideThread() : thread_([this] { serve(); }) {}

AsideThread::~AsideThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool AsideThread::run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (work_) return false;
    work_ = std::move(work);
  }
  changed_.notify_one();
  return true;
}

void AsideThread::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || work_; });
    if (!work_) return;
    lock.unlock();
    work_();
    lock.lock();
    work_ = nullptr;
  }
}

}  // namespace rubato
