// SPDX-License-Identifier: Apache-2.0
//
// ThreadTable<Value>: a value for each of some threads. A thread finds its own by the kernel's id
// of it, so in a signal handler, and whatever thread-local storage it has at the time.
//
// Thread safety: add() and remove() one caller at a time; here() any thread, async-signal-safe.
// `value` is written before `thread` is stored with release, and read after `thread` was loaded
// with acquire; the thread that does so is the one that wrote it.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace rubato {

template <class Value>
class ThreadTable {
 public:
  static constexpr uint32_t kThreadsMax = 1024;

  struct Entry {
    std::atomic<pid_t> thread{0};  // 0 = free
    Value value{};
  };

  // For the calling thread, which has none yet. Null: kThreadsMax have one.
  Entry* add(Value value) {
    const auto free = std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) {
      return entry.thread.load(std::memory_order_acquire) == 0;
    });
    if (free == entries_.end()) return nullptr;
    free->value = value;
    free->thread.store(kernel_thread(), std::memory_order_release);
    const auto used = static_cast<uint32_t>(free - entries_.begin()) + 1;
    used_.store(std::max(used, used_.load(std::memory_order_relaxed)), std::memory_order_release);
    return free;
  }

  void remove(Entry& entry) { entry.thread.store(0, std::memory_order_release); }

  // The calling thread's; null = it has none.
  Value* here() {
    const pid_t me = kernel_thread();
    const uint32_t used = used_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < used; ++i) {
      if (entries_[i].thread.load(std::memory_order_acquire) == me) return &entries_[i].value;
    }
    return nullptr;
  }

 private:
  static pid_t kernel_thread() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

  std::array<Entry, kThreadsMax> entries_{};
  std::atomic<uint32_t> used_{0};  // no entry that is taken lies beyond
};

}  // namespace rubato
