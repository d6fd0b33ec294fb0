// SPDX-License-Identifier: Apache-2.0
//
// Requests that wait for a lock of a suspended one without saying so: in a loop, in the kernel, in
// the C library. They run on one worker, under every policy, so that a request that is not left
// where it is stuck hangs the test.
#include <gtest/gtest.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "mechanism/clock/clock.h"
#include "mechanism/cpu/bare_syscall.h"
#include "mechanism/preempt/mechanism.h"
#include "runtime/testing/letter_app.h"
#include "runtime/testing/live_policies.h"

namespace rubato {
namespace {

using testing::LetterServer;

// Without the C library.
[[gnu::noinline]] void bare_futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  bare_syscall(SYS_futex, reinterpret_cast<long>(&word), operation, value);
}

// A request H holds something and is suspended, at a semaphore. A request S lets it go on, and
// waits for what it holds.
class Stuck : public ::testing::TestWithParam<std::tuple<std::string, PreemptMechanism>> {
 protected:
  void SetUp() override {
    const PreemptMechanism mechanism = std::get<1>(GetParam());
    if (const Status has = available(mechanism); !has.ok()) GTEST_SKIP() << has.error();
    server_ = std::make_unique<LetterServer>(std::get<0>(GetParam()));
    server_->options.preempt = mechanism;
    sem_init(&go_on_, 0, 0);
  }
  void TearDown() override { sem_destroy(&go_on_); }

  template <class Hold, class Release, class Wait>
  void run(Hold hold, Release release, Wait wait) {
    server_->app.on('H') = [this, hold, release](Request&) {
      hold();
      holds_ = true;
      EXPECT_EQ(sem_wait(&go_on_), 0);
      release();
    };
    server_->app.on('S') = [this, wait](Request&) {
      sem_post(&go_on_);
      wait();
    };
    server_->start();
    const uint64_t holder = server_->occupy("H\n", holds_);
    EXPECT_EQ(server_->call(server_->connect(), "S\n"), "S\n");
    EXPECT_EQ(server_->receive(holder, 2), "H\n");
    EXPECT_TRUE(server_->stop());
  }
  uint64_t left() const { return server_->runtime->stats().stuck_left; }
  // A request that loops may be preempted before it is found to be stuck.
  uint64_t times_left() const { return left() + server_->runtime->stats().preemptions; }

  std::unique_ptr<LetterServer> server_;

 private:
  sem_t go_on_{};
  std::atomic<bool> holds_{false};
};

std::vector<std::string> policies() {
  std::vector<std::string> names;
  for (const testing::LivePolicy& policy : testing::all_live()) names.emplace_back(policy.name);
  return names;
}

std::string name_of(const ::testing::TestParamInfo<Stuck::ParamType>& info) {
  std::string name = std::get<0>(info.param) + "_" + to_string(std::get<1>(info.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(By, Stuck,
                         ::testing::Combine(::testing::ValuesIn(policies()),
                                            ::testing::Values(PreemptMechanism::kSignal,
                                                              PreemptMechanism::kTimer)),
                         name_of);

TEST_P(Stuck, who_spins_for_a_lock_lets_its_holder_run) {
  std::atomic_flag lock;
  const auto take = [&] {
    while (lock.test_and_set(std::memory_order_acquire)) {
    }
  };
  run(take, [&] { lock.clear(); }, take);
  EXPECT_GE(times_left(), 1u);
}

TEST_P(Stuck, who_spins_with_a_lock_in_hand_lets_the_holder_of_another_run) {
  std::mutex mutex;
  std::atomic_flag lock;
  run([&] { lock.test_and_set(); }, [&] { lock.clear(); },
      [&] {
        const std::lock_guard holds(mutex);
        while (lock.test_and_set(std::memory_order_acquire)) {
        }
      });
  EXPECT_GE(times_left(), 1u);
}

TEST_P(Stuck, who_waits_in_the_kernel_lets_its_holder_run) {
  std::atomic<uint32_t> taken{0};
  run([&] { taken = 1; },
      [&] {
        taken = 0;
        bare_futex(taken, FUTEX_WAKE_PRIVATE, 1);
      },
      [&] {
        while (taken != 0) bare_futex(taken, FUTEX_WAIT_PRIVATE, 1);
      });
  EXPECT_GE(times_left(), 1u);
}

TEST_P(Stuck, who_waits_under_a_lock_of_the_loader_lets_others_run) {
  std::atomic<uint32_t> taken{0};
  const auto callback = [](dl_phdr_info*, size_t, void* argument) {
    auto& word = *static_cast<std::atomic<uint32_t>*>(argument);
    while (word != 0) bare_futex(word, FUTEX_WAIT_PRIVATE, 1);
    return 1;
  };
  run([&] { taken = 1; },
      [&] {
        taken = 0;
        bare_futex(taken, FUTEX_WAKE_PRIVATE, 1);
      },
      [&] { EXPECT_EQ(dl_iterate_phdr(callback, &taken), 1); });
  EXPECT_GE(left(), 1u);
}

TEST_P(Stuck, who_waits_inside_the_c_library_lets_others_run) {
  pthread_barrier_t barrier;
  ASSERT_EQ(pthread_barrier_init(&barrier, nullptr, 2), 0);
  const auto wait = [&] { pthread_barrier_wait(&barrier); };
  run([] {}, wait, wait);
  EXPECT_GE(left(), 1u);
  pthread_barrier_destroy(&barrier);
}

TEST_P(Stuck, who_sleeps_and_looks_in_turn_lets_others_run) {
  std::atomic<bool> done{false};
  run([] {}, [&] { done = true; },
      [&] {
        while (!done) usleep(100);
      });
  EXPECT_GE(times_left(), 1u);
}

TEST_P(Stuck, who_must_not_be_preempted_is_not_left) {
  uint64_t times = 0;
  run([] {}, [] {},
      [&] {
        const NoPreempt whole;
        const uint64_t before = left();  // on a busy machine it may have been left before
        const Instant end = now() + Nanos::millis(60);
        while (now() < end) {
        }
        times = left() - before;
      });
  EXPECT_EQ(times, 0u);
}

}  // namespace
}  // namespace rubato
