// SPDX-License-Identifier: Apache-2.0
//
// Waiting on fibers that share one thread, for conditions, semaphores and one-time initialisation:
// a fiber that blocks the thread hangs the test.
#include <cxxabi.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <memory>
#include <mutex>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>

#include "mechanism/preempt/interpose/testing/ring.h"
#include "mechanism/preempt/interpose/wakeups.h"
#include "mechanism/preempt/preempt_disable.h"
#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

using testing::Ring;

class Waiting : public ::testing::Test {
 protected:
  Ring ring_;
};

TEST_F(Waiting, two_fibers_hand_a_turn_to_and_fro) {
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;
  for (int me = 0; me < 2; ++me) {
    ring_.add([&, me] {
      std::unique_lock lock(mutex);
      while (turn < 2000) {
        changed.wait(lock, [&] { return turn % 2 == me || turn >= 2000; });
        EXPECT_EQ(preempt_disable_depth(), 1u);
        ++turn;
        changed.notify_one();
      }
    });
  }
  ring_.run();
  EXPECT_GE(turn, 2000);
}

TEST_F(Waiting, one_broadcast_wakes_all) {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  int waiting = 0;
  int passed = 0;
  for (int i = 0; i < 5; ++i) {
    ring_.add([&] {
      std::unique_lock lock(mutex);
      ++waiting;
      changed.wait(lock, [&] { return open; });
      ++passed;
    });
  }
  ring_.add([&] {
    while (waiting < 5) Ring::yield();
    const std::lock_guard lock(mutex);
    EXPECT_EQ(passed, 0);
    open = true;
    changed.notify_all();
  });
  ring_.run();
  EXPECT_EQ(passed, 5);
}

TEST_F(Waiting, a_wait_ends_at_its_time_and_holds_the_lock_again) {
  ring_.add([] {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    const auto soon = std::chrono::milliseconds(3);
    EXPECT_FALSE(never.wait_for(lock, soon, [] { return false; }));
    EXPECT_FALSE(never.wait_until(lock, std::chrono::system_clock::now() + soon,
                                  [] { return false; }));
    EXPECT_TRUE(lock.owns_lock());
    EXPECT_EQ(preempt_disable_depth(), 1u);
    lock.unlock();
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.run();
}

TEST_F(Waiting, a_wait_keeps_other_locks) {
  std::mutex outer;
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  bool waits = false;
  ring_.add([&] {
    const std::lock_guard kept(outer);
    std::unique_lock lock(mutex);
    waits = true;
    changed.wait(lock, [&] { return open; });
    EXPECT_EQ(preempt_disable_depth(), 2u);
  });
  ring_.add([&] {
    while (!waits) Ring::yield();
    EXPECT_FALSE(outer.try_lock());
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_one();
  });
  ring_.run();
}

TEST_F(Waiting, a_wait_without_the_mutex_is_refused_where_libc_refuses_it) {
  ring_.add([] {
    pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    EXPECT_EQ(pthread_cond_wait(&condition, &mutex), EPERM);
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.run();
}

// Items go from plain threads to fibers and back, as fast as they can; a lost wake-up hangs it.
TEST_F(Waiting, threads_and_fibers_wake_each_other) {
  constexpr int kItems = 3000;
  std::mutex mutex;
  std::condition_variable changed;
  int full = 0;
  int taken = 0;
  std::thread producer([&] {
    for (int i = 0; i < kItems; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return full < 4; });
      ++full;
      changed.notify_all();
    }
  });
  for (int fiber = 0; fiber < 3; ++fiber) {
    ring_.add([&] {
      for (;;) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return full > 0 || taken == kItems; });
        if (taken == kItems) return;
        --full;
        ++taken;
        changed.notify_all();
      }
    });
  }
  ring_.run();
  producer.join();
  EXPECT_EQ(taken, kItems);
}

TEST_F(Waiting, a_signal_from_another_process_arrives) {
  struct Shared {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int told;
  };
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* shared = static_cast<Shared*>(memory);
  pthread_mutexattr_t mutex_attributes;
  pthread_mutexattr_init(&mutex_attributes);
  pthread_mutexattr_setpshared(&mutex_attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&shared->mutex, &mutex_attributes);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_cond_init(&shared->condition, &attributes);
  const pid_t child = fork();
  if (child == 0) {
    pthread_mutex_lock(&shared->mutex);
    shared->told = 1;
    pthread_cond_signal(&shared->condition);
    pthread_mutex_unlock(&shared->mutex);
    _exit(0);
  }
  ring_.add([&] {
    pthread_mutex_lock(&shared->mutex);
    while (shared->told == 0) pthread_cond_wait(&shared->condition, &shared->mutex);
    pthread_mutex_unlock(&shared->mutex);
  });
  ring_.run();
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  munmap(memory, sizeof(Shared));
}

TEST_F(Waiting, a_semaphore_is_yielded_for) {
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  std::string order;
  ring_.add([&] {
    EXPECT_EQ(sem_wait(&semaphore), 0);
    order += "waited";
    timespec past{};
    EXPECT_EQ(sem_timedwait(&semaphore, &past), -1);
    EXPECT_EQ(errno, ETIMEDOUT);
  });
  ring_.add([&] {
    order += "posted ";
    sem_post(&semaphore);
  });
  ring_.run();
  EXPECT_EQ(order, "posted waited");
  sem_destroy(&semaphore);
}

// The standard library waits for all of these in the kernel's futex, by syscall().
TEST_F(Waiting, an_atomic_is_yielded_for) {
  std::atomic<int> taken{0};
  int inside = 0;
  for (int i = 0; i < 4; ++i) {
    ring_.add([&] {
      for (int round = 0; round < 20; ++round) {
        int free = 0;
        while (!taken.compare_exchange_strong(free, 1)) {
          taken.wait(1);
          free = 0;
        }
        EXPECT_EQ(++inside, 1);
        Ring::yield();
        --inside;
        taken = 0;
        taken.notify_one();
      }
    });
  }
  ring_.run();
  EXPECT_GT(ring_.lock_yields(), 0u);
}

TEST_F(Waiting, semaphores_latches_and_barriers_of_the_standard_library_are_yielded_for) {
  std::binary_semaphore semaphore{0};
  std::latch latch{3};
  std::barrier barrier{3};
  int rounds = 0;
  for (int i = 0; i < 3; ++i) {
    ring_.add([&] {
      latch.arrive_and_wait();
      for (int round = 0; round < 50; ++round) {
        barrier.arrive_and_wait();
        ++rounds;
      }
      semaphore.release();
    });
    ring_.add([&] { semaphore.acquire(); });
  }
  ring_.run();
  EXPECT_EQ(rounds, 150);
}

TEST_F(Waiting, a_semaphore_of_the_standard_library_ends_at_its_time) {
  ring_.add([] {
    std::binary_semaphore never{0};
    EXPECT_FALSE(never.try_acquire_for(std::chrono::milliseconds(3)));
  });
  ring_.run();
}

TEST_F(Waiting, a_futex_refuses_what_the_kernel_refuses) {
  ring_.add([] {
    alignas(8) uint32_t words[2] = {7, 0};
    const auto wait = [](const void* word, int operation, uint32_t value, const timespec* time,
                         uint32_t mask) {
      errno = 0;
      return syscall(SYS_futex, word, operation, value, time, nullptr, mask) == 0 ? 0 : errno;
    };
    const timespec wrong{0, -1};
    const timespec past{};
    const auto* odd = reinterpret_cast<const char*>(words) + 1;
    EXPECT_EQ(wait(words, FUTEX_WAIT_PRIVATE, 8, nullptr, 0), EAGAIN);
    EXPECT_EQ(wait(odd, FUTEX_WAIT_PRIVATE, 7, nullptr, 0), EINVAL);
    EXPECT_EQ(wait(nullptr, FUTEX_WAIT_PRIVATE, 7, nullptr, 0), EFAULT);
    EXPECT_EQ(wait(words, FUTEX_WAIT_PRIVATE, 7, &wrong, 0), EINVAL);
    EXPECT_EQ(wait(words, FUTEX_WAIT_PRIVATE, 7, &past, 0), ETIMEDOUT);
    EXPECT_EQ(wait(words, FUTEX_WAIT_BITSET_PRIVATE, 7, &past, 1), ETIMEDOUT);
    EXPECT_EQ(wait(words, FUTEX_WAIT_BITSET_PRIVATE, 7, &past, 0), EINVAL);
    EXPECT_EQ(syscall(SYS_futex, words, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0), 0);
    EXPECT_EQ(syscall(SYS_getpid), getpid());
  });
  ring_.run();
}

// Wake-ups come at every moment of a wait, its first one too.
TEST_F(Waiting, a_futex_fails_only_with_an_error_of_its_own) {
  uint32_t word = 1;
  std::atomic<bool> done{false};
  std::thread waker([&] {
    while (!done) syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  });
  ring_.add([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    for (int i = 0; i < 20'000 && std::chrono::steady_clock::now() < end; ++i) {
      errno = EISDIR;
      const long rc = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, nullptr, nullptr, 0);
      ASSERT_TRUE(rc == 0 || errno != EISDIR) << i;
    }
  });
  ring_.run();
  done = true;
  waker.join();
}

TEST_F(Waiting, a_wake_up_that_leaves_the_word_as_it_was_is_not_waited_for_in_vain) {
  uint32_t word = 1;
  ring_.add([&] {
    EXPECT_EQ(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, nullptr, nullptr, 0), 0);
  });
  ring_.add([&] { syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); });
  ring_.run();
}

TEST_F(Waiting, the_end_of_a_thread_is_yielded_for) {
  std::binary_semaphore told{0};
  int result = 0;
  ring_.add([&] {
    std::thread([&] { told.acquire(); }).join();
    thrd_t thread{};
    EXPECT_EQ(thrd_create(&thread, [](void*) { return 7; }, nullptr), thrd_success);
    EXPECT_EQ(thrd_join(thread, &result), thrd_success);
  });
  ring_.add([&] { told.release(); });
  ring_.run();
  EXPECT_EQ(result, 7);
}

TEST_F(Waiting, locks_conditions_and_once_of_c11_are_yielded_for) {
  mtx_t mutex;
  cnd_t changed;
  ASSERT_EQ(mtx_init(&mutex, mtx_timed), thrd_success);
  ASSERT_EQ(cnd_init(&changed), thrd_success);
  static once_flag once = ONCE_FLAG_INIT;
  static int calls = 0;
  int turn = 0;
  for (int me = 0; me < 2; ++me) {
    ring_.add([&, me] {
      call_once(&once, [] {
        ++calls;
        Ring::yield();
      });
      EXPECT_EQ(mtx_lock(&mutex), thrd_success);
      while (turn < 100) {
        while (turn % 2 != me && turn < 100) {
          EXPECT_EQ(cnd_wait(&changed, &mutex), thrd_success);
        }
        EXPECT_EQ(preempt_disable_depth(), 1u);
        Ring::yield();
        ++turn;
        cnd_broadcast(&changed);
      }
      const timespec past{};
      EXPECT_EQ(cnd_timedwait(&changed, &mutex, &past), thrd_timedout);
      EXPECT_EQ(mtx_unlock(&mutex), thrd_success);
      EXPECT_EQ(preempt_disable_depth(), 0u);
    });
  }
  ring_.add([&] {
    while (mtx_trylock(&mutex) != thrd_busy) {
      EXPECT_EQ(mtx_unlock(&mutex), thrd_success);
      thrd_yield();
    }
    const timespec past{};
    EXPECT_EQ(mtx_timedlock(&mutex, &past), thrd_timedout);
  });
  ring_.run();
  EXPECT_EQ(calls, 1);
  cnd_destroy(&changed);
  mtx_destroy(&mutex);
}

TEST_F(Waiting, call_once_runs_once_though_it_yields) {
  std::once_flag once;
  int calls = 0;
  for (int i = 0; i < 4; ++i) {
    ring_.add([&] {
      std::call_once(once, [&] {
        ++calls;
        EXPECT_EQ(preempt_disable_depth(), 1u);
        Ring::yield();
      });
      EXPECT_EQ(calls, 1);
      EXPECT_EQ(preempt_disable_depth(), 0u);
    });
  }
  ring_.run();
}

TEST_F(Waiting, call_once_after_an_exception_is_tried_again) {
  std::once_flag once;
  int calls = 0;
  for (int i = 0; i < 3; ++i) {
    ring_.add([&] {
      try {
        std::call_once(once, [&] {
          if (++calls == 1) throw std::runtime_error("not yet");
        });
      } catch (const std::runtime_error&) {
      }
      EXPECT_EQ(preempt_disable_depth(), 0u);
    });
  }
  ring_.run();
  EXPECT_EQ(calls, 2);
}

// The code that a compiler makes of `static const Slow slow;`, for a guard that is new in every
// run.
template <class Make>
void initialise(__cxxabiv1::__guard* guard, Make make) {
  if (abi::__cxa_guard_acquire(guard) == 0) return;
  try {
    make();
  } catch (...) {
    abi::__cxa_guard_abort(guard);
    throw;
  }
  abi::__cxa_guard_release(guard);
}

TEST_F(Waiting, a_static_variable_is_made_once_though_that_yields_and_throws) {
  __cxxabiv1::__guard guard = 0;
  int made = 0;
  int failures = 0;
  for (int i = 0; i < 4; ++i) {
    ring_.add([&] {
      try {
        initialise(&guard, [&] {
          const int number = ++made;
          EXPECT_EQ(preempt_disable_depth(), 1u);
          Ring::yield();
          if (number == 1) throw std::runtime_error("not yet");
        });
        EXPECT_EQ(made, 2);
      } catch (const std::runtime_error&) {
        ++failures;
      }
      EXPECT_EQ(preempt_disable_depth(), 0u);
    });
  }
  ring_.run();
  EXPECT_EQ(made, 2);
  EXPECT_EQ(failures, 1);
}

// The protocol of a condition variable under the model checker: a waiter that has looked at the
// predicate under the mutex before it changed is woken. A thread that finds the mutex taken
// returns: the other orders are other executions.
template <model::Weaken kWeaken, bool kEnlistUnderMutex>
model::Report wait_and_signal() {
  using Sync = model::Sync<kWeaken>;
  struct State {
    typename Sync::template Atomic<uint32_t> taken{0};
    typename Sync::template Plain<int> predicate;
    interpose::Wakeups<Sync> wakeups;
    uint32_t since = 0;
    bool waits = false;
    bool signalled = false;

    bool lock() {
      uint32_t free = 0;
      return taken.compare_exchange_strong(free, 1, std::memory_order_acq_rel,
                                           std::memory_order_relaxed);
    }
    void unlock() { taken.store(0, std::memory_order_release); }
  };
  return model::explore({3, 3}, [](model::Execution& run) {
    auto state = std::make_shared<State>();
    state->predicate = 0;
    run.thread([state] {
      if (!state->lock()) return;
      state->waits = state->predicate == 0;
      if (kEnlistUnderMutex) state->since = state->wakeups.enlist();
      state->unlock();
      if (!kEnlistUnderMutex) state->since = state->wakeups.enlist();
    });
    run.thread([state] {
      if (!state->lock()) return;
      state->predicate = 1;
      state->unlock();
      state->wakeups.notify();
      state->signalled = true;
    });
    run.finally([state, &run] {
      if (state->waits && state->signalled) {
        run.expect(state->wakeups.woken(state->since), "a wake-up is lost");
      }
    });
  });
}

TEST(Wakeups, no_interleaving_loses_one) {
  const model::Report report = wait_and_signal<model::Weaken{}, true>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 20u);
}

TEST(Wakeups, the_checker_would_notice_a_late_start) {
  EXPECT_NE((wait_and_signal<model::Weaken{}, false>().failure), "");
}

}  // namespace
}  // namespace rubato
