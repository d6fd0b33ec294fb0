// SPDX-License-Identifier: Apache-2.0
//
// Waiting by the public headers: what waits holds no worker, is served first come, first served,
// and ends by a deadline, a cancellation or a stop; between tasks and with threads, under every
// policy and way to preempt.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <rubato/rubato.hpp>

namespace {

using namespace std::chrono_literals;
using rubato::Cancellation;
using rubato::Channel;
using rubato::ConditionVariable;
using rubato::Executor;
using rubato::ExecutorOptions;
using rubato::Mutex;
using rubato::Outcome;
using rubato::Semaphore;

ExecutorOptions with(const std::string& policy, uint32_t workers = 1) {
  ExecutorOptions options;
  options.scheduler.policy = policy;
  options.scheduler.workers = workers;
  return options;
}

Executor make(const ExecutorOptions& options = with("synergy")) {
  auto executor = Executor::create(options);
  EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error());
  return std::move(*executor);
}

template <class T>
Outcome outcome_of(std::future<T>& future) {
  try {
    static_cast<void>(future.get());
    return Outcome::kFinished;
  } catch (const rubato::TaskError& error) {
    return error.outcome();
  }
}

// Every policy with checkpoints, and some with interrupts.
struct Way {
  const char* policy;
  rubato::Preempt preempt;
};

class EveryWay : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    ExecutorOptions options = with(GetParam().policy, 2);
    options.scheduler.preempt = GetParam().preempt;
    auto made = Executor::create(options);
    if (!made.ok()) GTEST_SKIP() << made.error();
    executor_.emplace(std::move(*made));
  }
  // Waits on a thread, so that no task has to.
  void finish() {
    executor_->stop();
    EXPECT_TRUE(executor_->join());
    EXPECT_EQ(executor_->unfinished(), 0u);
  }
  Executor& executor() { return *executor_; }

 private:
  std::optional<Executor> executor_;
};

std::string name_of(const ::testing::TestParamInfo<Way>& way) {
  std::string name = way.param.policy;
  std::erase(name, '-');
  switch (way.param.preempt) {
    case rubato::Preempt::kSignal: return name + "_signal";
    case rubato::Preempt::kTimer: return name + "_timer";
    default: return name;
  }
}

constexpr auto kCheckpoint = rubato::Preempt::kCheckpoint;

INSTANTIATE_TEST_SUITE_P(
    Ways, EveryWay,
    ::testing::Values(Way{"synergy", kCheckpoint}, Way{"fcfs", kCheckpoint},
                      Way{"cfcfs", kCheckpoint}, Way{"steal", kCheckpoint},
                      Way{"zygos", kCheckpoint}, Way{"ps", kCheckpoint},
                      Way{"shinjuku", kCheckpoint}, Way{"jbsq", kCheckpoint},
                      Way{"tinyquanta", kCheckpoint}, Way{"fixed-priority", kCheckpoint},
                      Way{"edf", kCheckpoint}, Way{"srpt", kCheckpoint}, Way{"las", kCheckpoint},
                      Way{"mlfq", kCheckpoint}, Way{"darc", kCheckpoint},
                      Way{"darc-static", kCheckpoint}, Way{"sbb", kCheckpoint},
                      Way{"altocumulus", kCheckpoint}, Way{"ps", rubato::Preempt::kSignal},
                      Way{"synergy", rubato::Preempt::kSignal},
                      Way{"ps", rubato::Preempt::kTimer}),
    name_of);

// Were one worker held, the last tasks would not come to wake the others.
TEST_P(EveryWay, many_that_wait_hold_no_worker) {
  constexpr int kTasks = 300;
  Semaphore go;
  Semaphore all;
  for (int i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(executor().execute([&] {
      go.acquire();
      all.release();
    }, {.type = 1, .is_long = i % 3 == 0}));
  }
  executor().execute([&] { go.release(kTasks); });
  for (int i = 0; i < kTasks; ++i) all.acquire();
  finish();
}

TEST_P(EveryWay, a_mutex_keeps_tasks_and_threads_apart) {
  constexpr int kTasks = 40;
  constexpr int kRounds = 50;
  Mutex mutex;
  int64_t inside = 0;
  int64_t count = 0;
  const auto work = [&] {
    for (int round = 0; round < kRounds; ++round) {
      const std::scoped_lock lock(mutex);
      EXPECT_EQ(++inside, 1);
      if (round % 8 == 0) rubato::yield();
      rubato::checkpoint();
      ++count;
      --inside;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(work);
  for (int i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(executor().execute(work, {.type = static_cast<uint32_t>(i % 4)}));
  }
  for (std::thread& thread : threads) thread.join();
  finish();
  EXPECT_EQ(count, (kTasks + 2) * kRounds);
}

TEST_P(EveryWay, a_channel_hands_each_value_over_once_and_in_order) {
  constexpr int kPushers = 3;
  constexpr int kEach = 500;
  Channel<std::unique_ptr<int>> channel(4);
  std::array<std::atomic<int>, kPushers * kEach> seen{};
  std::atomic<int> left{kPushers};
  const auto push = [&](int pusher) {
    for (int i = 0; i < kEach; ++i) {
      EXPECT_TRUE(channel.push(std::make_unique<int>(pusher * kEach + i)));
    }
    if (--left == 0) channel.close();
  };
  const auto pop = [&] {
    std::array<int, kPushers> last;
    last.fill(-1);
    while (const auto value = channel.pop()) {
      const int pusher = **value / kEach;
      EXPECT_GT(**value, last[static_cast<size_t>(pusher)]);
      last[static_cast<size_t>(pusher)] = **value;
      ++seen[static_cast<size_t>(**value)];
    }
  };
  for (int i = 0; i < 3; ++i) executor().execute(pop);
  for (int i = 1; i < kPushers; ++i) executor().execute([&, i] { push(i); });
  std::thread thread(pop);
  push(0);
  thread.join();
  finish();
  for (const auto& times : seen) EXPECT_EQ(times, 1);
  EXPECT_FALSE(channel.try_push(nullptr));
  EXPECT_FALSE(channel.pop().has_value());
}

TEST_P(EveryWay, sleepers_and_offloaded_calls_come_back) {
  constexpr int kTasks = 60;
  std::atomic<int> done{0};
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTasks; ++i) {
    executor().execute([&, i] {
      const auto time = std::chrono::microseconds(100 * (i % 7));
      const auto slept_from = std::chrono::steady_clock::now();
      rubato::sleep_for(time);
      EXPECT_GE(std::chrono::steady_clock::now() - slept_from, time - 10us);
      const auto id = rubato::offload([] { return std::this_thread::get_id(); });
      EXPECT_NE(id, std::this_thread::get_id());
      ++done;
    });
  }
  finish();
  EXPECT_EQ(done, kTasks);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 500us);
}

// Waits of all kinds that are cancelled before, while and after, by deadlines too, and a stop in
// the middle: each task is told its end once, and what they wait for is whole afterwards.
TEST_P(EveryWay, each_end_is_told_once_in_a_storm_of_waits_and_cancellations) {
  constexpr uint32_t kThreads = 2;
  constexpr uint32_t kEach = 600;
  Mutex mutex;
  ConditionVariable changed;
  Semaphore permits(3);
  Channel<int> channel(2);
  std::atomic<uint64_t> submitted{0};
  std::atomic<uint64_t> ended{0};
  std::array<std::atomic<uint64_t>, 5> by{};
  const auto count = [&](Outcome outcome) {
    ++by[static_cast<size_t>(outcome)];
    ++ended;
  };
  const auto work = [&](uint32_t i) {
    switch (i % 6) {
      case 0: rubato::sleep_for(std::chrono::microseconds(i % 500)); break;
      case 1: {
        const std::scoped_lock lock(mutex);
        rubato::yield();
        changed.notify_one();
        break;
      }
      case 2: {
        std::unique_lock lock(mutex);
        changed.wait(lock, std::chrono::microseconds(i % 300));
        break;
      }
      case 3:
        if (permits.acquire(1ms)) {
          static_cast<void>(rubato_checkpoint());
          permits.release();
        }
        break;
      case 4: channel.push(1, std::chrono::microseconds(i % 400)); break;
      default: static_cast<void>(channel.pop(std::chrono::microseconds(i % 400))); break;
    }
  };
  const auto storm = [&](uint32_t seed) {
    for (uint32_t i = seed; i < kEach * kThreads; i += kThreads) {
      rubato::TaskAttributes attributes{.type = i % 4, .is_long = i % 3 == 0};
      if (i % 5 == 0) attributes.deadline = std::chrono::microseconds(1 + i % 300);
      const Cancellation cancellation;
      if (i % 2 == 0) attributes.cancellation = cancellation;
      if (executor().execute([&, i] { work(i); }, attributes, count)) ++submitted;
      if (i % 7 == 0) std::this_thread::yield();
      cancellation.cancel();
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) threads.emplace_back(storm, t);
  for (std::thread& thread : threads) thread.join();
  finish();
  EXPECT_EQ(ended, submitted);
  EXPECT_EQ(by[static_cast<size_t>(Outcome::kFailed)], 0u);
  EXPECT_TRUE(mutex.try_lock());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(permits.try_acquire());
  EXPECT_FALSE(permits.try_acquire());
}

// One worker without preemption, and each task goes on only by waiting: the order is that of turns.
TEST(Waiting, a_mutex_goes_to_those_that_wait_in_their_order) {
  constexpr int kTasks = 20;
  Executor executor = make(with("fcfs"));
  Mutex mutex;
  std::vector<int> order;
  std::atomic<int> waiting{0};
  executor.execute([&] {
    const std::scoped_lock lock(mutex);
    while (waiting < kTasks) rubato::yield();
    EXPECT_FALSE(mutex.try_lock());
  });
  for (int i = 0; i < kTasks; ++i) {
    executor.execute([&, i] {
      ++waiting;
      const std::scoped_lock lock(mutex);
      order.push_back(i);
      rubato::yield();
    });
  }
  executor.stop();
  EXPECT_TRUE(executor.join());
  ASSERT_EQ(order.size(), static_cast<size_t>(kTasks));
  for (int i = 0; i < kTasks; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Waiting, permits_and_notifications_go_in_order_too) {
  constexpr int kTasks = 10;
  Executor executor = make(with("fcfs"));
  Semaphore permits;
  Mutex mutex;
  ConditionVariable changed;
  std::vector<int> order;
  int waiting = 0;
  for (int i = 0; i < kTasks; ++i) {
    executor.execute([&, i] {
      ++waiting;
      permits.acquire();
      order.push_back(i);
      std::unique_lock lock(mutex);
      changed.wait(lock);
      order.push_back(i);
    });
  }
  executor.submit([&] {
    while (waiting < kTasks) rubato::yield();
    for (int i = 0; i < kTasks; ++i) permits.release();
    while (order.size() < kTasks) rubato::yield();
    rubato::yield();
    for (int i = 0; i < kTasks; ++i) changed.notify_one();
  }).get();
  executor.stop();
  EXPECT_TRUE(executor.join());
  ASSERT_EQ(order.size(), size_t{2} * kTasks);
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i) % kTasks);
}

// Waits on a thread until a task does.
void wait_until_one_waits(Semaphore& waits) { waits.acquire(); }

TEST(Waiting, a_cancellation_ends_every_wait_and_what_was_held_is_given_back) {
  Executor executor = make();
  Mutex mutex;
  ConditionVariable changed;
  Semaphore none;
  Channel<int> channel(1);
  const std::vector<std::function<void()>> waits{
      [&] { rubato::sleep_for(24h); },
      [&] { none.acquire(); },
      [&] { static_cast<void>(channel.pop()); },
      [&] {
        std::unique_lock lock(mutex);
        changed.wait(lock);
      },
  };
  for (const auto& wait : waits) {
    Cancellation cancellation;
    Semaphore begun;
    bool unwound = false;
    auto task = executor.submit(
        [&] {
          struct Mark {
            bool& set;
            ~Mark() { set = true; }
          } const mark{unwound};
          begun.release();
          wait();
        },
        {.cancellation = cancellation});
    wait_until_one_waits(begun);
    cancellation.cancel();
    EXPECT_EQ(outcome_of(task), Outcome::kCancelled);
    EXPECT_TRUE(unwound);
  }
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_EQ(executor.stats().failed, 0u);
}

TEST(Waiting, a_task_that_is_cancelled_already_does_not_wait) {
  Executor executor = make();
  Cancellation cancellation;
  Semaphore none;
  auto task = executor.submit(
      [&] {
        cancellation.cancel();
        none.acquire();
      },
      {.cancellation = cancellation});
  EXPECT_EQ(outcome_of(task), Outcome::kCancelled);
}

TEST(Waiting, the_deadline_of_the_task_ends_its_waits_and_that_of_the_wait_does_not_end_the_task) {
  Executor executor = make();
  Semaphore none;
  auto expires = executor.submit([&] { none.acquire(); }, {.deadline = 2ms});
  EXPECT_EQ(outcome_of(expires), Outcome::kExpired);
  auto goes_on = executor.submit([&] {
    const bool acquired = none.acquire(1ms);
    Mutex mutex;
    mutex.lock();
    return !acquired && !mutex.try_lock_for(1ms) && !none.acquire(0ms);
  });
  EXPECT_TRUE(goes_on.get());
}

TEST(Waiting, a_stop_waits_for_those_that_wait_until_its_limit) {
  Executor executor = make();
  Semaphore begun;
  auto task = executor.submit([&] {
    begun.release();
    rubato::sleep_for(5ms);
    return 7;
  });
  begun.acquire();
  executor.stop();
  EXPECT_TRUE(executor.join());
  EXPECT_EQ(task.get(), 7);
}

TEST(Waiting, a_stop_cancels_those_that_wait_at_its_limit) {
  ExecutorOptions options = with("synergy", 2);
  options.scheduler.drain_limit = 10ms;
  Executor executor = make(options);
  Semaphore none;
  Mutex mutex;
  std::vector<std::future<void>> tasks;
  for (int i = 0; i < 20; ++i) {
    tasks.push_back(executor.submit([&] {
      const std::scoped_lock lock(mutex);
      none.acquire();
    }));
  }
  executor.stop();
  EXPECT_FALSE(executor.join());
  for (auto& task : tasks) EXPECT_EQ(outcome_of(task), Outcome::kCancelled);
  EXPECT_TRUE(mutex.try_lock());
}

TEST(Waiting, who_finds_no_fiber_is_told_so_and_counted) {
  ExecutorOptions options = with("synergy");
  options.scheduler.max_fibers = 3;
  Executor executor = make(options);
  Semaphore go;
  Semaphore begun;
  std::vector<std::future<bool>> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(executor.submit([&] {
      begun.release();
      try {
        return go.acquire();
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), std::errc::resource_unavailable_try_again);
        return false;
      }
    }));
  }
  EXPECT_FALSE(tasks[2].get());
  EXPECT_EQ(executor.stats().preemptions_denied, 1u);
  go.release(2);
  EXPECT_TRUE(tasks[0].get());
  EXPECT_TRUE(tasks[1].get());
}

TEST(Waiting, a_lock_that_is_wanted_while_the_stack_is_unwound_is_waited_for) {
  Executor executor = make();
  Cancellation cancellation;
  Mutex mutex;
  Semaphore begun;
  bool cleaned = false;
  mutex.lock();
  auto task = executor.submit(
      [&] {
        struct Cleaner {
          Mutex& mutex;
          Semaphore& begun;
          bool& cleaned;
          ~Cleaner() {
            begun.release();
            const std::scoped_lock lock(mutex);
            cleaned = true;
          }
        } const cleaner{mutex, begun, cleaned};
        begun.release();
        rubato::sleep_for(24h);
      },
      {.cancellation = cancellation});
  begun.acquire();
  cancellation.cancel();
  begun.acquire();
  EXPECT_FALSE(cleaned);
  mutex.unlock();
  EXPECT_EQ(outcome_of(task), Outcome::kCancelled);
  EXPECT_TRUE(cleaned);
}

TEST(Waiting, a_region_without_preemption_goes_on_after_a_wait) {
  Executor executor = make(with("ps"));
  Semaphore go;
  auto task = executor.submit([&] {
    const rubato::NoPreempt region;
    return go.acquire();
  });
  executor.submit([&] { go.release(); }).get();
  EXPECT_TRUE(task.get());
}

TEST(Waiting, threads_wait_for_threads_with_deadlines) {
  Mutex mutex;
  ConditionVariable changed;
  Semaphore none;
  EXPECT_FALSE(none.acquire(1ms));
  mutex.lock();
  EXPECT_FALSE(mutex.try_lock_for(1ms));
  mutex.unlock();
  std::unique_lock lock(mutex);
  EXPECT_FALSE(changed.wait(lock, 1ms));
  bool ready = false;
  std::thread other([&] {
    const std::scoped_lock held(mutex);
    ready = true;
    changed.notify_all();
  });
  EXPECT_TRUE(changed.wait(lock, [&] { return ready; }));
  lock.unlock();
  other.join();
  rubato::sleep_for(1ms);
  rubato::yield();
  EXPECT_EQ(rubato::offload([] { return 3; }), 3);
}

// Longer than nanoseconds can be, or past: the one is no limit, the other has been reached.
TEST(Waiting, limits_beyond_any_clock_are_never_or_now) {
  using std::chrono::steady_clock;
  Semaphore none;
  EXPECT_FALSE(none.acquire(std::chrono::nanoseconds::min()));
  EXPECT_FALSE(none.acquire(std::chrono::hours::min()));
  EXPECT_FALSE(none.acquire(steady_clock::time_point::min()));
  rubato::sleep_until(steady_clock::time_point::min());
  rubato::sleep_for(std::chrono::hours::min());
  for (const auto time : {std::chrono::hours(24 * 365 * 300), std::chrono::hours::max()}) {
    Executor executor = make();
    Cancellation cancellation;
    Semaphore begun;
    auto sleeps = executor.submit(
        [&] {
          begun.release();
          rubato::sleep_for(time);
        },
        {.cancellation = cancellation});
    begun.acquire();
    EXPECT_EQ(sleeps.wait_for(20ms), std::future_status::timeout);
    cancellation.cancel();
    EXPECT_EQ(outcome_of(sleeps), Outcome::kCancelled);
  }
}

// The semaphore is gone as soon as its last permit has been taken, while its giver returns.
TEST(Waiting, what_was_waited_for_may_be_destroyed_at_once) {
  Executor executor = make(with("synergy", 2));
  for (int i = 0; i < 500; ++i) {
    executor.submit([&] {
      auto done = std::make_unique<Semaphore>();
      for (int j = 0; j < 3; ++j) executor.execute([&to = *done] { to.release(); });
      for (int j = 0; j < 3; ++j) done->acquire();
    }).get();
  }
}

// A thread that wakes a task may still be at it when the executor is destroyed.
TEST(Waiting, an_executor_outlives_who_wakes_its_tasks) {
  for (int i = 0; i < 200; ++i) {
    Semaphore go;
    std::thread waker;
    {
      Executor executor = make();
      executor.execute([&] { go.acquire(); });
      waker = std::thread([&] { go.release(); });
    }
    waker.join();
  }
}

TEST(Waiting, an_offloaded_call_holds_no_worker_and_throws_to_its_caller) {
  Executor executor = make();
  std::promise<void> open;
  auto blocked = executor.submit([&] { rubato::offload([&] { open.get_future().wait(); }); });
  EXPECT_EQ(executor.submit([] { return 1; }).get(), 1);
  open.set_value();
  blocked.get();
  auto throws = executor.submit([] { rubato::offload([] { throw std::out_of_range("far"); }); });
  EXPECT_THROW(throws.get(), std::out_of_range);
}

TEST(Waiting, more_calls_than_helpers_wait_for_their_turn) {
  Executor executor = make();
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  std::vector<std::future<void>> tasks;
  for (int i = 0; i < 100; ++i) {
    tasks.push_back(executor.submit([&] {
      rubato::offload([&] {
        const int now = ++at_once;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
        std::this_thread::yield();
        --at_once;
      });
    }));
  }
  for (auto& task : tasks) task.get();
  EXPECT_LE(most, RUBATO_OFFLOAD_THREADS);
}

TEST(Waiting, a_closed_channel_hands_out_what_it_has) {
  Channel<int> channel(2);
  EXPECT_TRUE(channel.try_push(1));
  EXPECT_TRUE(channel.push(2));
  EXPECT_FALSE(channel.try_push(3));
  EXPECT_FALSE(channel.push(3, 1ms));
  channel.close();
  EXPECT_FALSE(channel.push(4));
  EXPECT_EQ(channel.pop(), 1);
  EXPECT_EQ(channel.try_pop(), 2);
  EXPECT_FALSE(channel.pop().has_value());
}

TEST(Waiting, of_values_that_nobody_takes_none_is_lost_in_a_close) {
  Executor executor = make(with("synergy", 2));
  for (int round = 0; round < 300; ++round) {
    Channel<int> channel(1);
    std::atomic<int> pushed{0};
    int popped = 0;
    auto pusher = executor.submit([&] {
      while (channel.push(1)) ++pushed;
    });
    auto closer = executor.submit([&] { channel.close(); });
    while (channel.pop()) ++popped;
    pusher.get();
    closer.get();
    EXPECT_EQ(pushed, popped);
  }
}

}  // namespace
