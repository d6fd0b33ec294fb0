// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "tests/torture/workload.h"

namespace torture {
namespace {

// What a lock protects: two counts that are equal whenever nobody is inside.
template <class Lock>
struct Guarded {
  Lock lock;
  uint64_t first = 0;
  uint64_t second = 0;

  // 1 = somebody else was inside.
  uint64_t enter_and_leave(uint64_t work) {
    const uint64_t seen = first;
    uint64_t wrong = seen != second ? 1 : 0;
    first = seen + 1;
    for (uint64_t i = 0; i < work; ++i) asm volatile("" : : "r"(i));
    wrong |= first != seen + 1 || second != seen ? 1 : 0;
    second = seen + 1;
    return wrong;
  }
};

struct SpinLock {
  SpinLock() { pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE); }
  void lock() { pthread_spin_lock(&spin); }
  void unlock() { pthread_spin_unlock(&spin); }
  pthread_spinlock_t spin;
};

std::array<Guarded<std::mutex>, 6> g_mutexes;
Guarded<std::recursive_mutex> g_recursive;
Guarded<std::shared_mutex> g_shared;
Guarded<SpinLock> g_spin;

// A ring of four slots, filled and emptied by whoever comes.
struct Exchange {
  std::mutex mutex;
  std::condition_variable changed;
  std::array<uint64_t, 4> slots{};
  uint64_t filled = 0;
  uint64_t out = 0;
};
Exchange g_exchange;

void put(uint64_t item) {
  std::unique_lock lock(g_exchange.mutex);
  g_exchange.changed.wait(lock, [] { return g_exchange.filled < g_exchange.slots.size(); });
  g_exchange.slots[(g_exchange.out + g_exchange.filled++) % g_exchange.slots.size()] = item;
  g_exchange.changed.notify_all();
}

void take() {
  std::unique_lock lock(g_exchange.mutex);
  g_exchange.changed.wait(lock, [] { return g_exchange.filled > 0; });
  ++g_exchange.out;
  --g_exchange.filled;
  g_exchange.changed.notify_all();
}

}  // namespace

// Nested in one order, released in another.
uint64_t nested_locks(uint64_t seed) {
  Random random(seed);
  Sum sum;
  for (int i = 0; i < 25; ++i) {
    const uint64_t mask = random.below(1u << g_mutexes.size());
    std::vector<std::function<void()>> releases;
    for (size_t k = 0; k < g_mutexes.size(); ++k) {
      if ((mask >> k & 1) == 0) continue;
      g_mutexes[k].lock.lock();
      releases.insert(releases.begin() + static_cast<int64_t>(random.below(releases.size() + 1)),
                      [k] { g_mutexes[k].lock.unlock(); });
      sum.add(g_mutexes[k].enter_and_leave(random.below(200)));
    }
    for (const auto& release : releases) release();
    {
      const std::lock_guard outer(g_recursive.lock);
      const std::lock_guard inner(g_recursive.lock);
      sum.add(g_recursive.enter_and_leave(random.below(100)));
    }
    if (random.below(3) == 0) {
      const std::unique_lock lock(g_shared.lock);
      sum.add(g_shared.enter_and_leave(random.below(100)));
    } else {
      const std::shared_lock lock(g_shared.lock);
      sum.add(g_shared.first == g_shared.second ? 0 : 1);
    }
    const std::lock_guard lock(g_spin.lock);
    sum.add(g_spin.enter_and_leave(random.below(50)));
  }
  return sum.value();
}

// Every run takes as many as it puts, so nobody waits for ever.
uint64_t conditions(uint64_t seed) {
  Random random(seed);
  for (int i = 0; i < 20; ++i) {
    put(random.below(1000));
    take();
  }
  return random.next();
}

uint64_t once(uint64_t seed) {
  Random random(seed);
  Sum sum;
  for (int i = 0; i < 20; ++i) {
    const auto flag = std::make_unique<std::once_flag>();
    int calls = 0;
    for (int k = 0; k < 3; ++k) std::call_once(*flag, [&] { ++calls; });
    sum.add(static_cast<uint64_t>(calls));
    static const uint64_t fixed = [] {
      uint64_t x = 1;
      for (int n = 0; n < 1000; ++n) x = x * 6364136223846793005u + 1;
      return x;
    }();
    sum.add(fixed ^ random.next());
  }
  return sum.value();
}

}  // namespace torture
