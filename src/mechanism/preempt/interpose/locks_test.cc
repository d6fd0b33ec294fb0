// SPDX-License-Identifier: Apache-2.0
//
// Locks on fibers that share one thread: a fiber that blocks the thread hangs the test.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "mechanism/preempt/interpose/testing/ring.h"
#include "mechanism/preempt/preempt_disable.h"

namespace rubato {
namespace {

using testing::Ring;

class Locks : public ::testing::Test {
 protected:
  Ring ring_;
};

class Mutex {
 public:
  explicit Mutex(int type = PTHREAD_MUTEX_NORMAL, int robust = PTHREAD_MUTEX_STALLED,
                 int protocol = PTHREAD_PRIO_NONE) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    pthread_mutexattr_setrobust(&attributes, robust);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }
  ~Mutex() { pthread_mutex_destroy(&mutex_); }
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  pthread_mutex_t* get() { return &mutex_; }

 private:
  pthread_mutex_t mutex_;
};

timespec from_now(clockid_t clock, int64_t ns) {
  timespec at{};
  clock_gettime(clock, &at);
  at.tv_nsec += ns;
  at.tv_sec += at.tv_nsec / 1'000'000'000;
  at.tv_nsec %= 1'000'000'000;
  return at;
}

TEST_F(Locks, a_lock_is_a_section_until_it_is_released) {
  ring_.add([] {
    std::mutex mutex;
    EXPECT_EQ(preempt_disable_depth(), 0u);
    mutex.lock();
    EXPECT_EQ(preempt_disable_depth(), 1u);
    EXPECT_TRUE(mutex.native_handle() != nullptr);
    mutex.unlock();
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.run();
}

TEST_F(Locks, a_taken_lock_is_yielded_for) {
  std::mutex mutex;
  std::vector<int> order;
  ring_.add([&] {
    const std::lock_guard lock(mutex);
    Ring::yield();
    order.push_back(1);
  });
  ring_.add([&] {
    const std::lock_guard lock(mutex);
    order.push_back(2);
  });
  ring_.run();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_GT(ring_.lock_yields(), 0u);
}

TEST_F(Locks, nested_locks_are_released_in_any_order) {
  ring_.add([] {
    std::mutex a;
    std::mutex b;
    std::mutex c;
    a.lock();
    b.lock();
    c.lock();
    EXPECT_EQ(preempt_disable_depth(), 3u);
    a.unlock();
    c.unlock();
    EXPECT_EQ(preempt_disable_depth(), 1u);
    b.unlock();
  });
  ring_.run();
}

TEST_F(Locks, more_locks_than_are_remembered_are_counted) {
  ring_.add([] {
    std::vector<std::mutex> mutexes(40);
    for (std::mutex& mutex : mutexes) mutex.lock();
    EXPECT_EQ(preempt_disable_depth(), 40u);
    for (std::mutex& mutex : mutexes) mutex.unlock();
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.run();
}

TEST_F(Locks, trylock_of_a_taken_lock_opens_no_section) {
  std::mutex mutex;
  ring_.add([&] {
    const std::lock_guard lock(mutex);
    Ring::yield();
  });
  ring_.add([&] {
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.run();
}

TEST_F(Locks, a_recursive_mutex_is_held_until_its_last_release) {
  std::recursive_mutex mutex;
  int turns = 0;
  ring_.add([&] {
    mutex.lock();
    mutex.lock();
    mutex.unlock();
    EXPECT_EQ(preempt_disable_depth(), 1u);
    ++turns;
    mutex.unlock();
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.add([&] {
    const std::lock_guard lock(mutex);
    ++turns;
  });
  ring_.run();
  EXPECT_EQ(turns, 2);
}

TEST_F(Locks, an_error_checking_mutex_tells_its_owner_from_others) {
  Mutex mutex(PTHREAD_MUTEX_ERRORCHECK);
  ring_.add([&] {
    ASSERT_EQ(pthread_mutex_lock(mutex.get()), 0);
    EXPECT_EQ(pthread_mutex_lock(mutex.get()), EDEADLK);
    EXPECT_EQ(preempt_disable_depth(), 1u);
    EXPECT_EQ(pthread_mutex_unlock(mutex.get()), 0);
    EXPECT_EQ(pthread_mutex_unlock(mutex.get()), EPERM);
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.run();
}

TEST_F(Locks, a_recursive_mutex_belongs_to_its_fiber) {
  std::recursive_mutex mutex;
  int inside = 0;
  for (int fiber = 0; fiber < 3; ++fiber) {
    ring_.add([&] {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(++inside, 1);
      Ring::yield();
      const std::lock_guard again(mutex);
      Ring::yield();
      --inside;
    });
  }
  ring_.run();
  EXPECT_GT(ring_.lock_yields(), 0u);
}

TEST_F(Locks, a_robust_mutex_tells_that_its_owner_has_died) {
  Mutex mutex(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);
  std::thread([&] { pthread_mutex_lock(mutex.get()); }).join();
  ring_.add([&] {
    EXPECT_EQ(pthread_mutex_lock(mutex.get()), EOWNERDEAD);
    EXPECT_EQ(preempt_disable_depth(), 1u);
    EXPECT_EQ(pthread_mutex_consistent(mutex.get()), 0);
    EXPECT_EQ(pthread_mutex_unlock(mutex.get()), 0);
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.run();
}

TEST_F(Locks, a_priority_inheriting_mutex_works_among_fibers) {
  Mutex mutex(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT);
  int inside = 0;
  for (int i = 0; i < 3; ++i) {
    ring_.add([&] {
      ASSERT_EQ(pthread_mutex_lock(mutex.get()), 0);
      EXPECT_EQ(++inside, 1);
      Ring::yield();
      --inside;
      EXPECT_EQ(pthread_mutex_unlock(mutex.get()), 0);
    });
  }
  ring_.run();
}

void let_a_thread_wait_for_a_fiber() {
  Mutex mutex(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT);
  Ring ring;
  ring.add([&] {
    pthread_mutex_lock(mutex.get());
    std::thread waiter([&] { pthread_mutex_lock(mutex.get()); });
    constexpr int kKernelWaits = INT_MIN;  // FUTEX_WAITERS, which the kernel sets
    while ((__atomic_load_n(&mutex.get()->__data.__lock, __ATOMIC_RELAXED) & kKernelWaits) == 0) {
      std::this_thread::yield();
    }
    pthread_mutex_unlock(mutex.get());
    waiter.join();
  });
  ring.run();
}

TEST(LocksDeathTest, a_thread_that_waits_for_a_priority_inheriting_mutex_is_not_left_to_hang) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(let_a_thread_wait_for_a_fiber(), "rubato: .*priority-inheriting");
}

TEST_F(Locks, a_timed_lock_gives_up_at_its_time_on_either_clock) {
  Mutex mutex;
  bool done = false;
  ring_.add([&] {
    pthread_mutex_lock(mutex.get());
    while (!done) Ring::yield();
    pthread_mutex_unlock(mutex.get());
  });
  ring_.add([&] {
    timespec at = from_now(CLOCK_REALTIME, 3'000'000);
    EXPECT_EQ(pthread_mutex_timedlock(mutex.get(), &at), ETIMEDOUT);
    at = from_now(CLOCK_MONOTONIC, 3'000'000);
    EXPECT_EQ(pthread_mutex_clocklock(mutex.get(), CLOCK_MONOTONIC, &at), ETIMEDOUT);
    EXPECT_EQ(pthread_mutex_clocklock(mutex.get(), CLOCK_PROCESS_CPUTIME_ID, &at), EINVAL);
    at.tv_nsec = -1;
    EXPECT_EQ(pthread_mutex_timedlock(mutex.get(), &at), EINVAL);
    EXPECT_EQ(preempt_disable_depth(), 0u);
    done = true;
  });
  ring_.run();
}

TEST_F(Locks, a_lock_that_another_fiber_releases_leaves_both_counts_right) {
  Mutex mutex;
  std::mutex other;
  ring_.add([&] {
    pthread_mutex_lock(mutex.get());
    EXPECT_EQ(preempt_disable_depth(), 1u);
    Ring::yield();
    const std::lock_guard lock(other);  // here it learns of it
    EXPECT_EQ(preempt_disable_depth(), 1u);
  });
  ring_.add([&] {
    EXPECT_EQ(pthread_mutex_unlock(mutex.get()), 0);
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.run();
}

TEST_F(Locks, a_lock_that_a_plain_thread_releases_leaves_the_count_right) {
  Mutex mutex;
  std::mutex other;
  ring_.add([&] {
    for (int i = 0; i < 3; ++i) {
      pthread_mutex_lock(mutex.get());
      std::thread([&] { EXPECT_EQ(pthread_mutex_unlock(mutex.get()), 0); }).join();
      const std::lock_guard lock(other);
      EXPECT_EQ(preempt_disable_depth(), 1u);
    }
  });
  ring_.run();
}

TEST_F(Locks, a_lock_held_by_a_plain_thread_is_waited_for) {
  std::mutex mutex;
  std::atomic<int> step{0};
  std::thread holder([&] {
    const std::lock_guard lock(mutex);
    step = 1;
    while (step != 2) std::this_thread::yield();
  });
  while (step != 1) std::this_thread::yield();
  int turns = 0;
  bool taken = false;
  ring_.add([&] {
    const std::lock_guard lock(mutex);
    taken = true;
  });
  ring_.add([&] {
    for (; turns < 100; ++turns) Ring::yield();
    EXPECT_FALSE(taken);
    step = 2;
  });
  ring_.run();
  holder.join();
  EXPECT_TRUE(taken);
  EXPECT_EQ(turns, 100);
}

TEST_F(Locks, readers_share_and_a_writer_waits_for_them) {
  std::shared_mutex mutex;
  int readers = 0;
  bool written = false;
  for (int i = 0; i < 3; ++i) {
    ring_.add([&] {
      const std::shared_lock lock(mutex);
      ++readers;
      while (readers < 3) Ring::yield();
      EXPECT_FALSE(written);
    });
  }
  ring_.add([&] {
    const std::unique_lock lock(mutex);
    EXPECT_EQ(readers, 3);
    EXPECT_EQ(preempt_disable_depth(), 1u);
    written = true;
  });
  ring_.run();
  EXPECT_TRUE(written);
}

TEST_F(Locks, a_writer_that_asks_again_is_told_so) {
  ring_.add([] {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    ASSERT_EQ(pthread_rwlock_wrlock(&lock), 0);
    EXPECT_EQ(pthread_rwlock_wrlock(&lock), EDEADLK);
    EXPECT_EQ(pthread_rwlock_rdlock(&lock), EDEADLK);
    EXPECT_EQ(pthread_rwlock_tryrdlock(&lock), EBUSY);
    timespec at = from_now(CLOCK_REALTIME, 1'000'000);
    EXPECT_EQ(pthread_rwlock_timedrdlock(&lock, &at), EDEADLK);
    EXPECT_EQ(preempt_disable_depth(), 1u);
    EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.run();
}

TEST_F(Locks, a_spin_lock_is_yielded_for) {
  pthread_spinlock_t lock{};
  pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
  int inside = 0;
  for (int i = 0; i < 2; ++i) {
    ring_.add([&] {
      pthread_spin_lock(&lock);
      EXPECT_EQ(++inside, 1);
      EXPECT_EQ(preempt_disable_depth(), 1u);
      Ring::yield();
      --inside;
      pthread_spin_unlock(&lock);
    });
  }
  ring_.run();
}

TEST_F(Locks, a_spin_lock_of_ones_own_is_yielded_for_where_it_yields) {
  std::atomic<bool> locked{false};
  int passed = 0;
  for (int i = 0; i < 2; ++i) {
    ring_.add([&] {
      while (locked.exchange(true)) std::this_thread::yield();
      Ring::yield();
      ++passed;
      locked = false;
    });
  }
  ring_.run();
  EXPECT_EQ(passed, 2);
}

TEST_F(Locks, an_exception_unwinds_through_guards) {
  std::mutex a;
  std::mutex b;
  for (int fiber = 0; fiber < 2; ++fiber) {
    ring_.add([&] {
      for (int i = 0; i < 10; ++i) {
        try {
          const std::lock_guard first(a);
          Ring::yield();
          const std::lock_guard second(b);
          throw std::runtime_error("out");
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "out");
          Ring::yield();
        }
        EXPECT_EQ(preempt_disable_depth(), 0u);
      }
    });
  }
  ring_.run();
}

}  // namespace
}  // namespace rubato
