// SPDX-License-Identifier: Apache-2.0
//
// Requests that wait half-way through code that knows nothing of fibers: for a mutex, a condition,
// a semaphore. They run on one worker, so that a request that blocks it hangs the test, and under
// every way to preempt; with checkpoints, a waiting request keeps the thread-local storage in which
// it began to wait.
#include <gtest/gtest.h>
#include <pthread.h>
#include <semaphore.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "mechanism/clock/clock.h"
#include "mechanism/preempt/tls_block.h"
#include "mechanism/preempt/interposed.h"
#include "mechanism/preempt/preempt_disable.h"
#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::checkpoints_until;
using testing::LetterServer;

// A value that a library may keep by thread while it is at work.
thread_local int t_mark = 0;
[[gnu::noinline]] int mark() {
  asm volatile("");
  return t_mark;
}
[[gnu::noinline]] void set_mark(int value) {
  asm volatile("");
  t_mark = value;
}

// The reason why requests cannot wait here without blocking the worker, as in the sanitizers'
// builds; empty if they can.
std::string missing() {
  if (const Status has = TlsBlock::available(); !has.ok()) return has.error();
  const Status attached = interposers_attach();
  return attached.ok() ? "" : attached.error();
}

class Waits : public ::testing::TestWithParam<PreemptMechanism> {
 protected:
  void SetUp() override {
    if (!missing().empty()) GTEST_SKIP() << missing();
    if (const Status has = available(GetParam()); !has.ok()) GTEST_SKIP() << has.error();
  }

  LetterServer& make(uint32_t workers = 1) {
    server_ = std::make_unique<LetterServer>("ps", workers);
    server_->options.preempt = GetParam();
    server_->options.policy_settings = {{"quantum", "200"}};
    return *server_;
  }

  // Each letter on a connection of its own to the first worker, in this order.
  void submit_all(const std::string& letters) {
    for (const char letter : letters) {
      flows_.push_back(server_->connect());
      server_->submit(flows_.back(), std::string(1, letter) + "\n");
    }
  }
  void expect_answers(const std::string& letters) {
    for (size_t i = 0; i < letters.size(); ++i) {
      EXPECT_EQ(server_->receive(flows_[i], 2), std::string(1, letters[i]) + "\n");
    }
    flows_.clear();
  }

 private:
  std::unique_ptr<LetterServer> server_;
  std::vector<uint64_t> flows_;
};

INSTANTIATE_TEST_SUITE_P(By, Waits,
                         ::testing::Values(PreemptMechanism::kCheckpoint, PreemptMechanism::kSignal,
                                           PreemptMechanism::kTimer),
                         [](const auto& with) { return to_string(with.param); });

TEST_P(Waits, who_waits_with_a_lock_in_hand_holds_up_neither_the_others_nor_who_wakes_it) {
  LetterServer& server = make();
  std::mutex outer;
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  std::atomic<bool> inside{false};
  std::string order;
  server.app.on('W') = [&](Request&) {
    const std::lock_guard kept(outer);
    set_mark(7);
    inside = true;
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open; });
    EXPECT_EQ(mark(), 7);
    EXPECT_EQ(preempt_disable_depth(), 2u);
    set_mark(0);
    order += 'W';
  };
  server.app.on('L') = [&](Request&) {
    EXPECT_FALSE(outer.try_lock());
    const std::lock_guard lock(outer);
    EXPECT_EQ(mark(), 0);
    EXPECT_EQ(preempt_disable_depth(), 1u);
    order += 'L';
  };
  server.app.on('O') = [&](Request&) {
    EXPECT_EQ(mark(), 0);
    order += 'O';
  };
  server.app.on('S') = [&](Request&) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(mark(), 0);
    order += 'S';
    open = true;
    changed.notify_all();
  };
  server.start();
  for (int round = 0; round < 20; ++round) {
    open = inside = false;
    order.clear();
    const uint64_t waiter = server.occupy("W\n", inside);
    const uint64_t second = server.connect();
    server.submit(second, "L\n");
    submit_all("O");
    expect_answers("O");
    submit_all("S");
    expect_answers("S");
    EXPECT_EQ(server.receive(waiter, 2), "W\n");
    EXPECT_EQ(server.receive(second, 2), "L\n");
    EXPECT_EQ(order, "OSWL");
  }
  EXPECT_TRUE(server.stop());
  EXPECT_GE(server.runtime->stats().lock_yields, 20u);
}

TEST_P(Waits, who_waits_for_a_semaphore_of_the_standard_library_lets_others_run) {
  LetterServer& server = make();
  std::binary_semaphore reported{0};
  std::atomic<bool> inside{false};
  server.app.on('W') = [&](Request&) {
    inside = true;
    reported.acquire();
  };
  server.app.on('S') = [&](Request&) { reported.release(); };
  server.start();
  for (int round = 0; round < 10; ++round) {
    inside = false;
    const uint64_t waiter = server.occupy("W\n", inside);
    submit_all("OS");
    expect_answers("OS");
    EXPECT_EQ(server.receive(waiter, 2), "W\n");
  }
  EXPECT_TRUE(server.stop());
  EXPECT_GE(server.runtime->stats().lock_yields, 10u);
}

// The TLS block identifies the lock's owner: a request that shared it would be let in.
TEST_P(Waits, who_waits_for_work_on_another_thread_lets_others_run) {
  LetterServer& server = make();
  std::atomic<bool> inside{false};
  std::atomic<bool> done{false};
  std::string order;
  server.app.on('W') = [&](Request&) {
    inside = true;
    EXPECT_TRUE(wait_for(done));
    order += 'W';
  };
  server.app.on('O') = [&](Request&) { order += 'O'; };
  server.start();
  const uint64_t waiter = server.occupy("W\n", inside);
  for (int i = 0; i < 3; ++i) {
    submit_all("OO");
    expect_answers("OO");
  }
  done = true;
  EXPECT_EQ(server.receive(waiter, 2), "W\n");
  EXPECT_EQ(order, "OOOOOOW");
}

TEST_P(Waits, a_recursive_lock_of_who_waits_is_taken_for_the_others) {
  LetterServer& server = make();
  std::recursive_mutex mutex;
  sem_t reported;
  sem_init(&reported, 0, 0);
  std::atomic<bool> inside{false};
  server.app.on('W') = [&](Request&) {
    const std::lock_guard once(mutex);
    const std::lock_guard twice(mutex);
    inside = true;
    EXPECT_EQ(sem_wait(&reported), 0);
    EXPECT_EQ(preempt_disable_depth(), 2u);
  };
  server.app.on('S') = [&](Request&) {
    EXPECT_FALSE(mutex.try_lock());
    sem_post(&reported);
    const std::lock_guard lock(mutex);
  };
  server.start();
  const uint64_t waiter = server.occupy("W\n", inside);
  submit_all("S");
  expect_answers("S");
  EXPECT_EQ(server.receive(waiter, 2), "W\n");
  EXPECT_TRUE(server.stop());
  sem_destroy(&reported);
}

TEST_P(Waits, an_exception_that_is_handled_is_still_there_after_a_wait) {
  LetterServer& server = make();
  sem_t reported;
  sem_init(&reported, 0, 0);
  server.app.on('W') = [&](Request&) {
    try {
      try {
        throw std::runtime_error("of W");
      } catch (const std::runtime_error&) {
        EXPECT_EQ(sem_wait(&reported), 0);
        throw;
      }
    } catch (const std::exception& error) {
      EXPECT_STREQ(error.what(), "of W");
    }
    EXPECT_EQ(std::current_exception(), nullptr);
  };
  server.app.on('S') = [&](Request&) {
    EXPECT_EQ(std::current_exception(), nullptr);
    try {
      throw std::runtime_error("of S");
    } catch (const std::runtime_error& error) {
      sem_post(&reported);
      checkpoint();
      EXPECT_STREQ(error.what(), "of S");
    }
  };
  server.start();
  for (int round = 0; round < 10; ++round) {
    submit_all("WS");
    expect_answers("WS");
  }
  EXPECT_TRUE(server.stop());
  sem_destroy(&reported);
}

// The waiter is on the second worker, the holder on the first: other requests go on meanwhile.
TEST_P(Waits, who_finds_a_lock_taken_that_is_held_across_checkpoints_lets_others_run) {
  LetterServer& server = make(2);
  std::mutex mutex;
  std::atomic<bool> held{false};
  std::atomic<int> waiting{0};
  std::atomic<bool> passed{false};
  server.app.on('H') = [&](Request& request) {
    mutex.lock();
    const uint32_t before = request.preemptions;
    held = true;
    checkpoints_until([&] { return passed.load(); });
    EXPECT_EQ(request.preemptions, before);
    mutex.unlock();
  };
  server.app.on('L') = [&](Request&) {
    ++waiting;
    const std::lock_guard lock(mutex);
  };
  server.app.on('O') = [&](Request&) { passed = true; };
  server.start();
  const uint64_t holder = server.occupy("H\n", held);
  submit_all("LL");
  while (waiting < 2) std::this_thread::yield();
  submit_all("O");
  expect_answers("LLO");
  EXPECT_EQ(server.receive(holder, 2), "H\n");
  EXPECT_TRUE(server.stop());
  EXPECT_GE(server.runtime->stats().lock_yields, 2u);
}

// A preemption that fell due inside is honoured where the lock is released, half-way through any
// code.
TEST(WaitsAtCheckpoints, a_lock_held_across_them_is_not_left_before_its_release) {
  if (!missing().empty()) GTEST_SKIP() << missing();
  LetterServer server("ps");
  server.options.preempt = PreemptMechanism::kCheckpoint;
  server.options.policy_settings = {{"quantum", "200"}};
  std::mutex mutex;
  std::atomic<bool> held{false};
  std::atomic<bool> submitted{false};
  uint32_t before = 0;
  uint32_t after = 0;
  bool fast_ran = false;
  server.app.on('H') = [&](Request& request) {
    mutex.lock();
    held = true;
    set_mark(5);
    checkpoints_until([&] { return submitted.load(); });
    for (int i = 0; i < 1'000'000; ++i) checkpoint();  // more than a slice of the CPU
    before = request.preemptions;
    mutex.unlock();
    after = request.preemptions;
    EXPECT_EQ(mark(), 5);
    set_mark(0);
    EXPECT_TRUE(fast_ran);
  };
  server.app.on('F') = [&](Request&) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(mark(), 0);
    fast_ran = true;
  };
  server.start();
  const uint64_t holder = server.occupy("H\n", held);
  const uint64_t fast = server.connect();
  server.submit(fast, "F\n");
  submitted = true;
  EXPECT_EQ(server.receive(fast, 2), "F\n");
  EXPECT_EQ(server.receive(holder, 2), "H\n");
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(before, 0u);
  EXPECT_EQ(after, 1u);
}

// The timer core writes to the thread-local storage that the worker uses at the moment.
TEST(WaitsAtCheckpoints, who_has_waited_is_preempted_again_by_the_timer_core) {
  if (!missing().empty()) GTEST_SKIP() << missing();
  LetterServer server("ps");
  server.options.preempt = PreemptMechanism::kCheckpoint;
  server.options.preemption_clock = PreemptionClock::kTimerCore;
  server.options.policy_settings = {{"quantum", "200"}};
  sem_t reported;
  sem_init(&reported, 0, 0);
  std::atomic<bool> passed{false};
  std::atomic<bool> waited{false};
  server.app.on('W') = [&](Request&) {
    EXPECT_EQ(sem_wait(&reported), 0);
    waited = true;
    checkpoints_until([&] { return passed.load(); });
  };
  server.app.on('S') = [&](Request&) { sem_post(&reported); };
  server.app.on('O') = [&](Request&) { passed = true; };
  server.start();
  for (int round = 0; round < 5; ++round) {
    passed = waited = false;
    const uint64_t waiter = server.connect();
    server.submit(waiter, "W\n");
    EXPECT_EQ(server.call(server.connect(), "S\n"), "S\n");
    while (!waited) std::this_thread::yield();
    EXPECT_EQ(server.call(server.connect(), "O\n"), "O\n");
    EXPECT_EQ(server.receive(waiter, 2), "W\n");
  }
  EXPECT_TRUE(server.stop());
  sem_destroy(&reported);
}

}  // namespace
}  // namespace rubato
