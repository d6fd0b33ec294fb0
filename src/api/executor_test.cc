// SPDX-License-Identifier: Apache-2.0
//
// The executor by its public headers: outcomes, deadlines, cancellation, bounds, coroutines.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <coroutine>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <rubato/rubato.hpp>

namespace {

using namespace std::chrono_literals;
using rubato::Cancellation;
using rubato::Executor;
using rubato::ExecutorOptions;
using rubato::Outcome;
using rubato::Overloaded;
using rubato::TaskAttributes;
using rubato::TaskError;

ExecutorOptions with(const std::string& policy, uint32_t workers = 2) {
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

std::string complaint_about(const ExecutorOptions& options) {
  auto executor = Executor::create(options);
  return executor.ok() ? std::string() : executor.error();
}

template <class T>
Outcome outcome_of(std::future<T>& future) {
  try {
    static_cast<void>(future.get());
    return Outcome::kFinished;
  } catch (const TaskError& error) {
    return error.outcome();
  }
}

// Occupies every worker until it is told to go on, or destroyed.
class Gate {
 public:
  explicit Gate(Executor& executor, uint32_t workers = 1) {
    for (uint32_t i = 0; i < workers; ++i) {
      executor.execute([this] {
        ++held_;
        open_.wait(false);
        --held_;
      });
    }
    while (held_ < workers) std::this_thread::yield();
  }
  ~Gate() {
    open();
    while (held_ > 0) std::this_thread::yield();
  }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<uint32_t> held_{0};
  std::atomic<bool> open_{false};
};

class EveryPolicy : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryPolicy, runs_each_task_once_whoever_submits_it) {
  constexpr uint64_t kThreads = 3;
  constexpr uint64_t kEach = 2000;
  Executor executor = make(with(GetParam()));
  std::vector<std::atomic<uint32_t>> ran(2 * kThreads * kEach);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kEach; ++i) {
        const uint64_t mine = 2 * (t * kEach + i);
        const auto type = static_cast<uint32_t>(i % 3);
        const TaskAttributes attributes{.type = type, .is_long = i % 7 == 0};
        ASSERT_TRUE(executor.execute(
            [&, mine] {
              ++ran[mine];
              rubato::checkpoint();
              EXPECT_TRUE(executor.execute([&ran, mine] { ++ran[mine + 1]; }));
            },
            attributes));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (executor.unfinished() > 0) std::this_thread::yield();
  for (const auto& count : ran) ASSERT_EQ(count, 1u);
  EXPECT_EQ(executor.stats().requests, ran.size());
  executor.stop();
  EXPECT_TRUE(executor.join());
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy,
                         ::testing::Values("synergy", "fcfs", "ps", "darc", "rss", "altocumulus",
                                           "srpt", "edf", "sbb"));

// The policies that EveryPolicy leaves out, and the allocators of cores.
TEST(Executor, takes_every_policy_and_allocator_that_a_server_takes) {
  const auto expect_runs = [](const ExecutorOptions& options) {
    Executor executor = make(options);
    std::vector<std::future<void>> ends;
    for (uint32_t i = 0; i < 40; ++i) {
      ends.push_back(executor.submit([] { for (int n = 0; n < 500; ++n) rubato::checkpoint(); },
                                     {.type = i % 3, .is_long = i % 10 == 0, .expected = 10us}));
    }
    for (std::future<void>& end : ends) end.get();
  };
  for (const char* policy : {"cfcfs", "steal", "zygos", "shinjuku", "jbsq", "tinyquanta",
                             "fixed-priority", "las", "mlfq", "darc-static"}) {
    SCOPED_TRACE(policy);
    expect_runs(with(policy));
  }
  for (const char* cores : {"static", "reactive", "caladan", "util-range", "delay-range",
                            "coresync"}) {
    SCOPED_TRACE(cores);
    ExecutorOptions options = with("synergy");
    options.scheduler.cores = cores;
    expect_runs(options);
  }
}

TEST(Executor, futures_have_values_and_exceptions) {
  Executor executor = make();
  EXPECT_EQ(executor.submit([] { return 6 * 7; }).get(), 42);
  executor.submit([] {}).get();
  auto text = executor.submit([text = std::make_unique<std::string>("moved")]() mutable {
    return std::move(text);
  });
  EXPECT_EQ(*text.get(), "moved");
  EXPECT_THROW(executor.submit([] { throw std::out_of_range("far"); }).get(), std::out_of_range);
  EXPECT_EQ(executor.stats().failed, 1u);
}

TEST(Executor, closures_of_every_size_and_their_callbacks_are_destroyed_once) {
  Executor executor = make();
  auto counted = std::make_shared<int>(0);
  std::array<char, 100> small{};
  std::array<char, 1000> large{};
  std::promise<void> both;
  std::atomic<int> done{0};
  const auto callback = [&](Outcome outcome) {
    EXPECT_EQ(outcome, Outcome::kFinished);
    if (++done == 2) both.set_value();
  };
  executor.execute([counted, small] { EXPECT_EQ(small[0], 0); }, {}, callback);
  executor.execute([counted, large] { EXPECT_EQ(large[0], 0); }, {}, callback);
  both.get_future().get();
  while (counted.use_count() > 1) std::this_thread::yield();
}

TEST(Executor, a_callback_tells_what_an_exception_did) {
  Executor executor = make();
  std::promise<Outcome> told;
  executor.execute([] { throw 1; }, {}, [&](Outcome outcome) { told.set_value(outcome); });
  EXPECT_EQ(told.get_future().get(), Outcome::kFailed);
}

TEST(Executor, a_short_task_overtakes_a_long_one_on_the_same_worker) {
  Executor executor = make(with("synergy", 1));
  std::atomic<bool> short_ran{false};
  std::atomic<bool> long_runs{false};
  auto slow = executor.submit([&] {
    const rubato::LongSection section;
    long_runs = true;
    while (!short_ran) rubato::checkpoint();
    return short_ran.load();
  });
  while (!long_runs) std::this_thread::yield();
  executor.submit([&] { short_ran = true; }).get();
  EXPECT_TRUE(slow.get());
  EXPECT_GE(executor.stats().preemptions, 1u);
}

TEST(Executor, a_bound_is_a_refusal_that_is_counted) {
  ExecutorOptions options = with("fcfs", 1);
  options.max_tasks = 3;
  Executor executor = make(options);
  Gate gate(executor);
  EXPECT_TRUE(executor.execute([] {}));
  auto fits = executor.submit([] {});
  EXPECT_FALSE(executor.execute([] {}));
  auto refused = executor.submit([] {});
  EXPECT_EQ(outcome_of(refused), Outcome::kRefused);
  EXPECT_TRUE(std::holds_alternative<Overloaded>(executor.try_submit([] {})));
  auto kept = std::make_unique<int>(1);
  EXPECT_TRUE(executor.try_execute([kept = std::move(kept)] {}).has_value());
  EXPECT_EQ(executor.stats().refused, 4u);
  gate.open();
  fits.get();
}

TEST(Executor, a_continuation_is_refused_neither_by_the_bound_nor_by_a_stop) {
  ExecutorOptions options = with("fcfs", 1);
  options.max_tasks = 2;
  Executor executor = make(options);
  std::atomic<int> ran{0};
  const auto one = [&] { ++ran; };
  {
    Gate gate(executor);
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(executor.execute(one, {.is_continuation = true}));
    EXPECT_FALSE(executor.execute(one));
    EXPECT_EQ(executor.unfinished(), 201u);
    executor.stop();
    EXPECT_TRUE(executor.execute(one, {.is_continuation = true}));
  }
  EXPECT_TRUE(executor.join());
  EXPECT_EQ(ran, 201);
  EXPECT_TRUE(executor.execute(one, {.is_continuation = true}));  // and never runs
}

TEST(Executor, continuations_after_a_stop_end_as_cancelled_with_those_that_they_submit) {
  ExecutorOptions options = with("fcfs", 1);
  options.max_tasks = 2;
  Executor executor = make(options);
  std::vector<Outcome> ends;
  const auto tell = [&](Outcome outcome) { ends.push_back(outcome); };
  const auto go_on = [&](Outcome outcome) {
    tell(outcome);
    for (int i = 0; i < 4; ++i) executor.execute([] {}, {.is_continuation = true}, tell);
  };
  executor.end_left();  // nothing yet
  executor.stop();
  EXPECT_TRUE(executor.join());
  EXPECT_TRUE(executor.execute([] {}, {.is_continuation = true}, go_on));
  EXPECT_TRUE(ends.empty());
  executor.end_left();
  EXPECT_EQ(ends, std::vector<Outcome>(5, Outcome::kCancelled));
  EXPECT_EQ(executor.unfinished(), 0u);
}

TEST(Executor, chains_of_continuations_after_a_stop_end_whichever_queues_they_go_to) {
  Executor executor = make(with("fcfs", 4));
  // The pool has been used, so that tasks come from it in another order than that of their memory.
  for (int i = 0; i < 300; ++i) executor.submit([] {}).get();
  executor.stop();
  EXPECT_TRUE(executor.join());
  int ends = 0;
  std::function<void(Outcome)> go_on = [&](Outcome) {
    if (++ends == 100) return;
    EXPECT_TRUE(executor.execute([] {}, {.is_continuation = true}, go_on));
  };
  EXPECT_TRUE(executor.execute([] {}, {.is_continuation = true}, go_on));
  executor.end_left();
  EXPECT_EQ(ends, 100);
  EXPECT_EQ(executor.unfinished(), 0u);
}

TEST(Executor, a_task_that_is_cancelled_before_its_turn_does_not_run) {
  Executor executor = make(with("fcfs", 1));
  Cancellation cancellation;
  std::atomic<bool> ran{false};
  Gate gate(executor);
  auto cancelled = executor.submit([&] { ran = true; }, {.cancellation = cancellation});
  auto other = executor.submit([] { return 1; });
  cancellation.cancel();
  gate.open();
  EXPECT_EQ(outcome_of(cancelled), Outcome::kCancelled);
  EXPECT_EQ(other.get(), 1);
  EXPECT_FALSE(ran);
}

TEST(Executor, a_running_task_and_those_it_submitted_end_when_they_are_cancelled) {
  Executor executor = make(with("synergy", 1));
  Cancellation cancellation;
  std::atomic<bool> runs{false};
  std::future<void> child;
  auto parent = executor.submit(
      [&] {
        child = executor.submit([] {});
        runs = true;
        const rubato::LongSection section;
        for (;;) rubato::checkpoint();
      },
      {.cancellation = cancellation});
  while (!runs) std::this_thread::yield();
  cancellation.cancel();
  EXPECT_EQ(outcome_of(parent), Outcome::kCancelled);
  const Outcome of_child = outcome_of(child);
  EXPECT_TRUE(of_child == Outcome::kCancelled || of_child == Outcome::kFinished);
}

TEST(Executor, a_deadline_ends_tasks_that_wait_and_tasks_that_run) {
  Executor executor = make(with("synergy", 1));
  auto runs = executor.submit(
      [] {
        const rubato::LongSection section;
        for (;;) rubato::checkpoint();
      },
      {.deadline = 2ms});
  EXPECT_EQ(outcome_of(runs), Outcome::kExpired);
  Gate gate(executor);
  auto waits = executor.submit([] {}, {.deadline = 1ns});
  auto late = executor.submit([] {}, {.deadline = -5ms});
  auto never_in_time = executor.submit([] {}, {.deadline = std::chrono::nanoseconds::min()});
  auto patient = executor.submit([] {}, {.deadline = std::chrono::nanoseconds::max()});
  gate.open();
  EXPECT_EQ(outcome_of(waits), Outcome::kExpired);
  EXPECT_EQ(outcome_of(late), Outcome::kExpired);
  EXPECT_EQ(outcome_of(never_in_time), Outcome::kExpired);
  EXPECT_EQ(outcome_of(patient), Outcome::kFinished);
}

// Types from 255 on share their statistics.
TEST(Executor, any_number_of_a_type_may_be_asked_for_its_times) {
  Executor executor = make(with("synergy", 1));
  for (const uint32_t type : {3u, 255u, 256u, 100'000u}) {
    auto done = executor.submit([] {}, {.type = type});
    EXPECT_EQ(outcome_of(done), Outcome::kFinished);
  }
  executor.stop();
  EXPECT_TRUE(executor.join());  // a task is counted shortly after its end was told
  EXPECT_EQ(executor.times(3).service.count, 1u);
  for (const uint32_t type : {255u, 256u, 65'535u, UINT32_MAX}) {
    EXPECT_EQ(executor.times(type).service.count, 3u) << type;
  }
}

TEST(Executor, deadline_and_trace_travel_with_a_task_to_those_it_submits) {
  Executor executor = make();
  struct Seen {
    std::chrono::nanoseconds left;
    uint64_t trace;
  };
  const auto look = [] { return Seen{rubato::this_task::time_left(), rubato::this_task::trace()}; };
  std::promise<Seen> inherited;
  std::promise<Seen> later;
  std::promise<Seen> detached;
  executor.execute(
      [&] {
        executor.execute([&] { inherited.set_value(look()); });
        executor.execute([&] { later.set_value(look()); }, {.deadline = 24h, .trace = 8});
        executor.execute([&] { detached.set_value(look()); }, {.detached = true});
      },
      {.deadline = 1h, .trace = 7});
  const Seen first = inherited.get_future().get();
  EXPECT_GT(first.left, 50min);
  EXPECT_LE(first.left, 1h);
  EXPECT_EQ(first.trace, 7u);
  const Seen second = later.get_future().get();
  EXPECT_LE(second.left, 1h);
  EXPECT_EQ(second.trace, 8u);
  const Seen third = detached.get_future().get();
  EXPECT_EQ(third.left, 0ns);
  EXPECT_EQ(third.trace, 0u);
  EXPECT_EQ(look().trace, 0u);
}

TEST(Executor, try_submit_says_when_to_come_again_while_every_worker_is_late) {
  ExecutorOptions options = with("fcfs", 1);
  options.scheduler.overload = rubato::Overload::kAqm;
  options.scheduler.target_delay = 1us;
  options.scheduler.overload_patience = 0ns;
  Executor executor = make(options);
  std::vector<std::future<void>> all;
  std::optional<Overloaded> overloaded;
  // The worker is late as soon as it runs one task while others wait.
  while (!overloaded) {
    overloaded = executor.try_execute([] {
      const auto end = std::chrono::steady_clock::now() + 20us;
      while (std::chrono::steady_clock::now() < end) continue;
    });
  }
  EXPECT_GE(overloaded->retry_after, 2us);
  executor.stop();
  EXPECT_TRUE(executor.join());
  EXPECT_GT(executor.stats().refused, 0u);
}

// Each task submits its successor, so that its group always has work. They end within any slice,
// also when a sanitizer slows them down: where tasks are cut, many end at once and none for long.
// So it is their steps that tell what a group has had.
class Flood {
 public:
  Flood(Executor& executor, uint32_t group, int tasks) : executor_(executor), group_(group) {
    for (int i = 0; i < tasks; ++i) submit();
  }
  void end() { ends_ = true; }
  uint64_t steps() const { return steps_.load(std::memory_order_relaxed); }
  // Those since the last call, as a number to divide by.
  double take() {
    const uint64_t now = steps();
    return static_cast<double>(now - std::exchange(before_, now));
  }

 private:
  static constexpr int kSteps = 500;  // of a task

  void submit() {
    executor_.execute(
        [this] {
          for (int i = 0; i < kSteps; ++i) {
            steps_.fetch_add(1, std::memory_order_relaxed);
            rubato::checkpoint();
          }
          if (!ends_) submit();
        },
        {.group = group_});
  }

  Executor& executor_;
  const uint32_t group_;
  std::atomic<bool> ends_{false};
  std::atomic<uint64_t> steps_{0};
  uint64_t before_ = 0;
};

TEST_P(EveryPolicy, groups_share_a_worker_by_weight) {
  ExecutorOptions options = with(GetParam(), 1);
  options.groups = {{"heavy", 300}, {"light", 100}};
  // What a sanitizer adds to a slice depends on whose slice was before; these are long beside it.
  constexpr std::array has_quantum{"ps", "srpt", "sbb"};
  if (std::ranges::find(has_quantum, GetParam()) != has_quantum.end()) {
    options.scheduler.set["quantum"] = "1ms";
  }
  Executor executor = make(options);
  // More tasks than one has turns before the worker looks for arrivals.
  std::array floods{std::make_unique<Flood>(executor, 0, 64),
                    std::make_unique<Flood>(executor, 1, 64),
                    std::make_unique<Flood>(executor, 2, 64)};
  auto& [policy, heavy, light] = floods;
  // A stall of the machine may cost a group some turns: then another part of the run will do.
  for (bool in_parts = false; !in_parts;) {
    for (auto& flood : floods) flood->take();
    const uint64_t begin = light->steps();
    while (light->steps() < begin + 50'000) std::this_thread::yield();
    const double unit = light->take();
    const double three = heavy->take() / unit;
    const double one = policy->take() / unit;
    in_parts = three > 2.4 && three < 3.6 && one > 0.8 && one < 1.25;
  }
  while (executor.group_stats(1).requests == 0) std::this_thread::yield();
  EXPECT_GT(executor.group_stats(1).service_ns, 0);
  EXPECT_GT(executor.group_stats(1).waited_ns, 0);
  for (auto& flood : floods) flood->end();
  executor.stop();
  EXPECT_TRUE(executor.join());
}

TEST_P(EveryPolicy, a_group_keeps_its_turns_while_its_tasks_submit_their_successors) {
  ExecutorOptions options = with(GetParam(), 1);
  options.groups = {{"heavy", 10'000}, {"light", 1}};
  Executor executor = make(options);
  std::vector<uint32_t> order;  // the worker's
  std::function<void(int)> chain = [&](int left) {
    executor.execute(
        [&, left] {
          order.push_back(1);
          if (left > 1) chain(left - 1);
        },
        {.group = 1});
  };
  constexpr size_t kChains = 4;
  constexpr size_t kLength = 50;
  {
    Gate gate(executor);
    for (size_t i = 0; i < kChains; ++i) chain(kLength);
    for (int i = 0; i < 100; ++i) executor.execute([&] { order.push_back(2); }, {.group = 2});
  }
  while (executor.group_stats(1).requests < kChains * kLength) std::this_thread::yield();
  executor.stop();
  EXPECT_TRUE(executor.join());
  ASSERT_EQ(order.size(), kChains * kLength + 100);
  const auto last = std::ranges::find(order.rbegin(), order.rend(), 1u).base() - order.begin();
  EXPECT_LE(std::ranges::count(order.begin(), order.begin() + last, 2u), 2);
}

TEST(Executor, a_group_that_floods_leaves_room_for_others_and_is_refused_itself) {
  ExecutorOptions options = with("synergy", 1);
  options.groups = {{"a", 100, 64}, {"b", 100, 64}};
  Executor executor = make(options);
  std::vector<uint32_t> order;  // the worker's
  {
    Gate gate(executor);
    for (int i = 0; i < 64; ++i) {
      EXPECT_TRUE(executor.execute([&] { order.push_back(1); }, {.group = 1}));
    }
    EXPECT_FALSE(executor.execute([] {}, {.group = 1}));
    EXPECT_TRUE(executor.execute([&] { order.push_back(2); }, {.group = 2}));
    EXPECT_FALSE(executor.execute([] {}, {.group = 3})) << "there is none";
    EXPECT_EQ(executor.group_stats(1).unfinished, 64u);
    EXPECT_EQ(executor.group_stats(2).unfinished, 1u);
    EXPECT_EQ(executor.group_stats(3).unfinished, 0u);
    EXPECT_EQ(executor.stats().refused, 2u);
  }
  executor.stop();
  EXPECT_TRUE(executor.join());
  ASSERT_EQ(order.size(), 65u);
  EXPECT_LE(std::ranges::find(order, 2u) - order.begin(), 2);
  EXPECT_EQ(executor.group_stats(1).requests, 64u);
  EXPECT_EQ(executor.group_stats(2).requests, 1u);
}

TEST(Executor, a_group_travels_with_a_task_to_those_it_submits) {
  ExecutorOptions options = with("synergy");
  options.groups = {{"a"}, {"b"}};
  Executor executor = make(options);
  Executor other = make(options);
  executor.execute(
      [&] {
        executor.execute([] {});
        executor.execute([] {}, {.group = 2});
        executor.execute([] {}, {.detached = true});
        other.execute([] {});
      },
      {.group = 1});
  while (executor.unfinished() + other.unfinished() > 0) std::this_thread::yield();
  executor.stop();
  EXPECT_TRUE(executor.join());
  other.stop();
  EXPECT_TRUE(other.join());
  EXPECT_EQ(executor.group_stats(1).requests, 2u);
  EXPECT_EQ(executor.group_stats(2).requests, 1u);
  EXPECT_EQ(executor.group_stats(0).requests, 1u);
  EXPECT_EQ(other.group_stats(0).requests, 1u);
}

TEST(Executor, groups_that_do_not_fit_are_refused_by_name) {
  ExecutorOptions options = with("synergy");
  options.groups = {{"a", 1}, {"b", 10'001}};
  EXPECT_EQ(complaint_about(options), "group b: weight 10001 is not in 1 .. 10000");
  options.groups = {{"a", 1, 1 << 20}};
  EXPECT_EQ(complaint_about(options),
            "group a: max_tasks 1048576 is not in 1 .. inbox_capacity (16384)");
  options.groups = {{"a", 1}, {"b", 1}, {"a", 2}};
  EXPECT_EQ(complaint_about(options), "group a: there are two of that name");
  options.groups = {{"", 1}};
  EXPECT_EQ(complaint_about(options), "group: its name is empty");
  options.groups.resize(15);
  EXPECT_EQ(complaint_about(options), "groups: at most 14 besides the default one");
  options.groups.clear();
  options.weight = 0;  // as in a group
  EXPECT_EQ(complaint_about(options), "weight: 0 is not in 1 .. 10000");
}

TEST(Executor, a_stop_finishes_what_was_submitted_and_refuses_the_rest) {
  Executor executor = make(with("cfcfs", 1));
  std::atomic<int> ran{0};
  {
    Gate gate(executor);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(executor.execute([&] { ++ran; }));
    executor.stop();
  }
  EXPECT_TRUE(executor.join());
  EXPECT_GE(ran, 100);
  auto late = executor.submit([] {});
  EXPECT_EQ(outcome_of(late), Outcome::kRefused);
}

// Tasks of all kinds, cancelled before they start, while they run and after they have ended, by
// deadlines too; then a stop in the middle. Every callback is called once.
TEST_P(EveryPolicy, tells_each_end_once_in_a_storm_of_cancellations) {
  constexpr uint32_t kThreads = 3;
  ExecutorOptions options = with(GetParam());
  options.max_tasks = 64;
  Executor executor = make(options);
  std::atomic<uint64_t> submitted{0};
  std::array<std::atomic<uint64_t>, 5> ended{};
  const auto count = [&](Outcome outcome) { ++ended[static_cast<size_t>(outcome)]; };
  const auto storm = [&](uint32_t seed) {
    for (uint32_t i = seed; submitted < 3000 * kThreads; i += kThreads) {
      TaskAttributes attributes{.type = i % 4, .is_long = i % 3 == 0};
      if (i % 5 == 0) attributes.deadline = std::chrono::microseconds(i % 100);
      const Cancellation cancellation;
      if (i % 2 == 0) attributes.cancellation = cancellation;
      const auto work = [&, i] {
        for (uint32_t step = 0; step < i % 64; ++step) rubato::checkpoint();
        if (executor.execute([] {}, {}, count)) ++submitted;
      };
      if (executor.execute(work, attributes, count)) ++submitted;
      if (i % 7 == 0) std::this_thread::yield();
      cancellation.cancel();
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) threads.emplace_back(storm, t);
  while (submitted < 2000 * kThreads) std::this_thread::yield();
  submitted += 3000 * kThreads;  // the threads end
  for (std::thread& thread : threads) thread.join();
  executor.stop();
  EXPECT_TRUE(executor.join());
  uint64_t sum = 0;
  for (const auto& outcome : ended) sum += outcome;
  EXPECT_EQ(sum, submitted - 3000 * kThreads);
  EXPECT_EQ(ended[static_cast<size_t>(Outcome::kFailed)], 0u);
}

TEST(Executor, nobody_waits_for_ever_when_a_stop_gives_tasks_up) {
  ExecutorOptions options = with("fcfs", 1);
  options.scheduler.drain_limit = 10ms;
  std::future<void> waits;
  std::future<void> runs;
  {
    Executor executor = make(options);
    std::atomic<bool> started{false};
    runs = executor.submit([&] {
      started = true;
      for (;;) rubato::checkpoint();
    });
    while (!started) std::this_thread::yield();
    waits = executor.submit([] {});
  }
  EXPECT_EQ(outcome_of(runs), Outcome::kCancelled);
  EXPECT_EQ(outcome_of(waits), Outcome::kCancelled);
}

ExecutorOptions in_loop(const std::string& policy = "synergy") {
  ExecutorOptions options = with(policy, 0);
  options.in_loop = true;
  return options;
}

bool is_readable(const Executor& executor) {
  pollfd p{executor.fd(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

TEST(ExecutorInALoop, runs_on_its_callers_thread_when_the_descriptor_says_so) {
  Executor executor = make(in_loop());
  EXPECT_EQ(executor.run(1s), rubato::LoopState::kIdle);
  EXPECT_FALSE(is_readable(executor));
  auto where = executor.submit([] { return std::this_thread::get_id(); });
  EXPECT_TRUE(is_readable(executor));
  EXPECT_EQ(where.wait_for(0s), std::future_status::timeout);
  EXPECT_EQ(executor.run(1s), rubato::LoopState::kIdle);
  EXPECT_EQ(where.get(), std::this_thread::get_id());
  EXPECT_FALSE(is_readable(executor));
}

TEST(ExecutorInALoop, the_descriptor_of_a_new_one_says_run) {
  Executor executor = make(in_loop());
  auto first = executor.submit([] { return 1; });
  ASSERT_TRUE(is_readable(executor));
  while (executor.run(1ms) != rubato::LoopState::kIdle) continue;
  EXPECT_EQ(first.get(), 1);
}

class ExecutorInALoopPreempts : public ::testing::TestWithParam<std::string> {};

TEST_P(ExecutorInALoopPreempts, a_long_task_gives_the_loop_back_and_lets_others_pass) {
  Executor executor = make(in_loop(GetParam()));
  std::atomic<bool> goes_on{true};
  auto slow = executor.submit([&] {
    for (int i = 0; goes_on && i < 20'000'000; ++i) rubato::checkpoint();
  });
  while (executor.run(100us) == rubato::LoopState::kIdle) {
    ASSERT_EQ(slow.wait_for(0s), std::future_status::timeout) << "it kept the loop to its end";
  }
  EXPECT_TRUE(is_readable(executor));
  auto quick = executor.submit([] { return 1; });
  while (quick.wait_for(0s) != std::future_status::ready) executor.run(100us);
  EXPECT_EQ(slow.wait_for(0s), std::future_status::timeout);
  goes_on = false;
  while (executor.run(1ms) != rubato::LoopState::kIdle) continue;
  slow.get();
}

// Not shinjuku, whose preempted requests go before those of their type.
INSTANTIATE_TEST_SUITE_P(Policies, ExecutorInALoopPreempts,
                         ::testing::Values("synergy", "ps", "tinyquanta", "srpt", "las", "mlfq",
                                           "sbb"));

TEST(ExecutorInALoop, serves_other_threads_by_poll) {
  Executor executor = make(in_loop("ps"));
  constexpr int kTasks = 2000;
  std::atomic<int> ran{0};
  std::thread other([&] {
    for (int i = 0; i < kTasks; ++i) {
      while (!executor.execute([&] { ++ran; })) std::this_thread::yield();
    }
    executor.stop();
  });
  while (executor.run(1ms) != rubato::LoopState::kStopped) {
    pollfd p{executor.fd(), POLLIN, 0};
    ::poll(&p, 1, 1);
  }
  other.join();
  EXPECT_EQ(ran, kTasks);
  EXPECT_TRUE(executor.join());
}

TEST(ExecutorInALoop, its_destructor_finishes_what_was_submitted) {
  std::future<int> left;
  {
    Executor executor = make(in_loop("fcfs"));
    left = executor.submit([] { return 5; });
  }
  EXPECT_EQ(left.get(), 5);
}

TEST(ExecutorInALoop, several_take_turns_on_one_thread) {
  Executor first = make(in_loop());
  Executor second = make(in_loop("darc"));
  auto both = first.submit([&] { return second.submit([] { return 3; }); });
  first.run(1s);
  second.run(1s);
  EXPECT_EQ(both.get().get(), 3);
}

TEST(ExecutorInALoop, refuses_what_needs_threads) {
  ExecutorOptions options = in_loop();
  options.scheduler.idle = rubato::Idle::kSpin;
  EXPECT_EQ(complaint_about(options), "idle: in its caller's loop an executor takes adaptive");
  Executor threaded = make();
  EXPECT_EQ(threaded.fd(), -1);
  EXPECT_EQ(rubato_executor_run(threaded.c(), 1), RUBATO_ERROR);
}

ExecutorOptions in_loops(uint32_t count, const std::string& policy = "synergy") {
  ExecutorOptions options = in_loop(policy);
  options.scheduler.workers = count;
  return options;
}

// A thread for each loop, until the executor has stopped. They sleep without a limit, so one that
// is not woken is there for ever.
class Loops {
 public:
  Loops(Executor& executor, uint32_t count) {
    for (uint32_t loop = 0; loop < count; ++loop) {
      threads_.emplace_back([&executor, loop] {
        for (;;) {
          const rubato::LoopState state = executor.run(100us, loop);
          if (state == rubato::LoopState::kStopped) return;
          pollfd p{executor.fd(loop), POLLIN, 0};
          if (state == rubato::LoopState::kIdle) ::poll(&p, 1, -1);
        }
      });
    }
  }
  ~Loops() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::vector<std::thread> threads_;
};

TEST_P(EveryPolicy, runs_each_task_once_in_several_loops) {
  constexpr uint64_t kTasks = 3000;
  Executor executor = make(in_loops(3, GetParam()));
  std::vector<std::atomic<uint32_t>> ran(2 * kTasks);
  const Loops loops(executor, 3);
  for (uint64_t i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(executor.execute(
        [&, i] {
          ++ran[2 * i];
          rubato::checkpoint();
          if (i % 100 == 0) rubato::Semaphore().acquire(100us);
          EXPECT_TRUE(executor.execute([&, i] { ++ran[2 * i + 1]; }));
        },
        {.is_long = i % 7 == 0}));
  }
  while (executor.unfinished() > 0) std::this_thread::yield();
  executor.stop();
  EXPECT_TRUE(executor.join());
  for (const auto& count : ran) ASSERT_EQ(count, 1u);
}

TEST_P(EveryPolicy, a_stop_ends_loops_that_sleep) {
  for (int i = 0; i < 30; ++i) {
    Executor executor = make(in_loops(3, GetParam()));
    std::atomic<int> ran{0};
    const Loops loops(executor, 3);
    for (int task = 0; task < i % 4; ++task) {
      executor.execute([&] {
        rubato::Semaphore().acquire(200us);
        ++ran;
      });
    }
    executor.stop();
    EXPECT_TRUE(executor.join());
    EXPECT_EQ(ran, i % 4);
  }
}

// The drain limit ends the wait, without a call from outside.
TEST(ExecutorInLoops, a_stop_at_its_limit_ends_a_wait_while_all_loops_sleep) {
  ExecutorOptions options = in_loops(2);
  options.scheduler.drain_limit = 50ms;
  Executor executor = make(options);
  rubato::Semaphore never;
  auto waits = executor.submit([&] { never.acquire(); });
  {
    const Loops loops(executor, 2);
    executor.stop();
  }
  EXPECT_EQ(outcome_of(waits), Outcome::kCancelled);
  EXPECT_FALSE(executor.join());
}

TEST(ExecutorInLoops, tasks_of_each_loop_wait_for_time_and_descriptors) {
  constexpr uint32_t kLoops = 3;
  Executor executor = make(in_loops(kLoops));
  std::array<std::array<int, 2>, kLoops> pipes{};
  std::vector<std::future<bool>> waits;
  const Loops loops(executor, kLoops);
  for (auto& pipe : pipes) {
    ASSERT_EQ(::pipe(pipe.data()), 0);
    waits.push_back(executor.submit([&pipe] {
      rubato::Semaphore().acquire(1ms);
      return (rubato::wait_fd(pipe[0], POLLIN, 10s) & POLLIN) != 0;
    }));
  }
  for (const auto& pipe : pipes) EXPECT_EQ(::write(pipe[1], "x", 1), 1);
  for (auto& wait : waits) EXPECT_TRUE(wait.get());
  executor.stop();
  EXPECT_TRUE(executor.join());
  for (const auto& pipe : pipes) {
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
}

// Two tasks that each hold their thread until the other runs.
TEST(ExecutorInLoops, one_takes_the_tasks_that_another_one_has_no_time_for) {
  Executor executor = make(in_loops(2));
  const Loops loops(executor, 2);
  std::atomic<int> meet{0};
  executor.execute([&] {
    for (int i = 0; i < 2; ++i) {
      executor.execute([&] {
        ++meet;
        while (meet < 2) std::this_thread::yield();
      });
    }
  });
  while (executor.unfinished() > 0) std::this_thread::yield();
  executor.stop();
}

// A loop that is away for a while may have lost its tasks to the other one.
TEST(ExecutorInLoops, a_loop_is_run_by_one_thread_only) {
  Executor executor = make(in_loops(2));
  while (executor.run(1ms, 1) == rubato::LoopState::kMore) continue;
  int ran = 0;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(executor.execute([&] { ++ran; }));
  std::thread([&] {
    EXPECT_EQ(rubato_executor_run_loop(executor.c(), 1, 1), RUBATO_ERROR);
    while (executor.run(1ms, 0) == rubato::LoopState::kMore) continue;
  }).join();
  while (executor.run(1ms, 1) == rubato::LoopState::kMore) continue;
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(executor.fd(2), -1);
  EXPECT_EQ(rubato_executor_run_loop(executor.c(), 2, 1), RUBATO_ERROR);
}

TEST(ExecutorInLoops, a_group_has_its_share_whatever_the_loop) {
  ExecutorOptions options = in_loops(2);
  options.groups = {{"a", 300}, {"b", 100}};
  Executor executor = make(options);
  const Loops loops(executor, 2);
  for (uint32_t i = 0; i < 300; ++i) {
    EXPECT_TRUE(executor.execute([] { rubato::checkpoint(); }, {.group = i % 3}));
  }
  while (executor.unfinished() > 0) std::this_thread::yield();
  for (uint32_t group = 0; group < 3; ++group) {
    EXPECT_EQ(executor.group_stats(group).requests, 100u);
  }
  executor.stop();
}

TEST(ExecutorInLoops, an_end_that_is_discarded_wakes_them_too) {
  Executor executor = make(in_loops(2));
  rubato_task* const task = rubato_task_create(executor.c(), nullptr);
  {
    const Loops loops(executor, 2);
    executor.stop();
    while (executor.execute([] {})) continue;  // until they drain
    rubato_task_discard(executor.c(), task);
  }
  EXPECT_TRUE(executor.join());
}

TEST(ExecutorInLoops, the_end_comes_also_if_loops_are_gone) {
  int told = 0;
  const auto end = [&](Outcome) { ++told; };
  {
    ExecutorOptions options = in_loops(3);
    options.scheduler.drain_limit = 50ms;
    Executor executor = make(options);
    std::thread([&] {
      executor.run(1ms, 1);
      for (int i = 0; i < 10; ++i) executor.execute([] {}, {}, end);
    }).join();  // and never again
    executor.run(1ms, 0);
    for (int i = 0; i < 10; ++i) executor.execute([] {}, {}, end);
  }
  EXPECT_EQ(told, 20);
}

// A coroutine that starts at once and tells its end.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Detached hop(Executor& executor, std::promise<uint64_t>& told) {
  uint64_t hops = 0;
  try {
    for (uint64_t i = 1; i <= 100; ++i) {
      co_await executor.schedule({.trace = i});
      if (rubato::this_task::trace() == i) ++hops;
    }
    executor.stop();
    for (;;) co_await executor.schedule();
  } catch (const TaskError& error) {
    EXPECT_EQ(error.outcome(), Outcome::kRefused);
    told.set_value(hops);
  }
}

TEST(Executor, a_coroutine_goes_on_as_a_task) {
  Executor executor = make();
  std::promise<uint64_t> told;
  hop(executor, told);
  EXPECT_EQ(told.get_future().get(), 100u);
  EXPECT_TRUE(executor.join());
}

TEST(Executor, options_that_have_no_effect_are_refused_by_name) {
  ExecutorOptions options = with("synergy");
  options.scheduler.port = 80;
  EXPECT_EQ(complaint_about(options), "port: an executor has no port and no connections");
  options = with("nonesuch");
  EXPECT_NE(complaint_about(options).find("nonesuch"), std::string::npos);
  options = with("synergy");
  options.max_tasks = 0;
  EXPECT_EQ(complaint_about(options), "max_tasks: 0 is not in 1 .. 16777216");
  options = with("synergy");
  options.scheduler.overload = rubato::Overload::kCredits;
  EXPECT_EQ(complaint_about(options), "overload: credits needs RUBATO_FRAMING_RPC");
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Executor, writes_a_trace_of_its_tasks_while_that_is_wanted) {
  const auto file = std::filesystem::path(testing::TempDir()) /
                    ("executor-trace-" + std::to_string(::getpid()) + ".json");
  ExecutorOptions options = with("synergy", 1);
  options.type_names = {"look-up", "scan", "sort"};
  options.scheduler.trace_file = file;
  const auto run = [](Executor& executor, uint32_t type) {
    executor.submit([] {}, {.type = type}).get();
    while (executor.unfinished() > 0) std::this_thread::yield();
  };
  {
    Executor executor = make(options);
    run(executor, 1);
    EXPECT_TRUE(executor.trace(false).ok());
    EXPECT_NE(text_of(file).find("\"scan\""), std::string::npos);
    run(executor, 2);  // in no trace
    EXPECT_TRUE(executor.trace(true).ok());
    run(executor, 0);
  }
  const std::string last = text_of(file);
  EXPECT_NE(last.find("\"look-up\""), std::string::npos);
  EXPECT_EQ(last.find("\"scan\""), std::string::npos);
  EXPECT_EQ(last.find("\"sort\""), std::string::npos);
  std::filesystem::remove(file);
}

TEST(Executor, says_why_there_is_no_trace) {
  ExecutorOptions options = with("fcfs", 1);
  Executor without = make(options);
  EXPECT_EQ(without.trace(true).error(), "trace_file: the executor was created without one");
  options.scheduler.trace_file = "/no/such/folder/trace.json";
  EXPECT_NE(complaint_about(options).find("/no/such/folder/trace.json"), std::string::npos);
  options.scheduler.trace_events = 0;
  EXPECT_NE(complaint_about(options).find("trace_events: takes"), std::string::npos);
}

TEST(Executor, tells_that_its_trace_is_not_whole_as_often_as_it_is_asked) {
  const auto file = std::filesystem::path(testing::TempDir()) /
                    ("executor-cut-" + std::to_string(::getpid()) + ".json");
  ExecutorOptions options = with("fcfs", 1);
  options.scheduler.trace_file = file;
  Executor executor = make(options);
  executor.submit([] {}).get();
  executor.stop();
  EXPECT_TRUE(executor.join());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{16, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const rubato::Status first = executor.trace(false), again = executor.trace(false);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_FALSE(first.ok());
  EXPECT_FALSE(again.ok());
  EXPECT_TRUE(executor.trace(true).ok());
  EXPECT_TRUE(executor.trace(false).ok());
  std::filesystem::remove(file);
}

TEST(Executor, refuses_to_trace_on_a_worker) {
  const auto file = std::filesystem::path(testing::TempDir()) /
                    ("executor-worker-" + std::to_string(::getpid()) + ".json");
  ExecutorOptions options = with("fcfs", 1);
  options.scheduler.trace_file = file;
  Executor executor = make(options);
  const rubato::Status told = executor.submit([&] { return executor.trace(false); }).get();
  EXPECT_EQ(told.error(), "trace_file: not on a worker");
  EXPECT_TRUE(executor.trace(false).ok());
  options.in_loop = true;
  Executor in_loop = make(options);
  in_loop.run(1ms);
  EXPECT_TRUE(in_loop.trace(false).ok());
  std::filesystem::remove(file);
}

TEST(Executor, leaves_no_trace_where_its_metrics_port_is_taken) {
  ExecutorOptions options = with("fcfs", 1);
  options.scheduler.metrics_port = 0;
  const Executor other = make(options);
  options.scheduler.metrics_port = static_cast<int>(other.metrics_port());
  options.scheduler.trace_file = std::filesystem::path(testing::TempDir()) /
                                 ("executor-no-port-" + std::to_string(::getpid()) + ".json");
  EXPECT_NE(complaint_about(options), "");
  EXPECT_FALSE(std::filesystem::exists(options.scheduler.trace_file));
}

TEST(Executor, has_a_metrics_port_if_it_is_asked_for) {
  ExecutorOptions options = with("synergy");
  EXPECT_EQ(make(options).metrics_port(), 0u);
  options.scheduler.metrics_port = 0;
  EXPECT_NE(make(options).metrics_port(), 0u);
}

TEST(Executor, a_text_with_a_null_character_is_refused_by_name) {
  const std::string cut("fcfs\0junk", 9);
  ExecutorOptions options[6];
  options[0].scheduler.policy = cut;
  options[1].scheduler.set = {{"quantum", std::string("5us\0", 4)}};
  options[2].scheduler.record_file = std::string(1, '\0');
  options[3].type_names = {"look-up", cut};
  options[4].groups = {{cut, 100}};
  options[5].scheduler.overload_set = {{std::string("\0x", 2), "1"}};
  const char* const names[] = {"policy", "set", "record_file", "type_names", "groups",
                               "overload_set"};
  for (size_t i = 0; i < std::size(options); ++i) {
    const auto refused = Executor::create(options[i]);
    ASSERT_FALSE(refused.ok()) << names[i];
    EXPECT_EQ(refused.error(), names[i] + std::string(": takes a text without null characters"));
  }
}

TEST(ExecutorInC, lists_of_texts_that_are_not_there_are_refused_by_name) {
  rubato_options scheduler;
  rubato_options_init(&scheduler, sizeof scheduler);
  rubato_executor_options options;
  rubato_executor_options_init(&options, sizeof options);
  options.scheduler = &scheduler;
  const auto complaint = [&options] {
    rubato_error error{};
    EXPECT_EQ(rubato_executor_create(&options, &error), nullptr);
    return std::string(error.text);
  };
  options.type_names_count = 3;
  EXPECT_EQ(complaint(), "type_names: null, with a count of 3");
  const char* const names[] = {"look-up", nullptr, "sort"};
  options.type_names = names;
  EXPECT_EQ(complaint(), "type_names: text 1 is null");
  options.type_names_count = 257;
  EXPECT_EQ(complaint(), "type_names: 257 for 256 types");
  options.type_names_count = 0;
  scheduler.set_count = 1;
  EXPECT_EQ(complaint(), "set: null, with a count of 1");
  scheduler.set = names + 1;
  EXPECT_EQ(complaint(), "set: text 0 is null");
}

TEST(ExecutorInC, a_function_and_its_end_get_the_pointer) {
  rubato_executor* executor = rubato_executor_create(nullptr, nullptr);
  ASSERT_NE(executor, nullptr);
  struct Both {
    std::atomic<int> ran{0};
    std::promise<int> told;
  } both;
  EXPECT_EQ(rubato_executor_submit(
                executor, nullptr, [](void* user) { return ++static_cast<Both*>(user)->ran; },
                [](void* user, int outcome, int64_t) {
                  static_cast<Both*>(user)->told.set_value(outcome);
                },
                &both),
            RUBATO_OK);
  EXPECT_EQ(both.told.get_future().get(), RUBATO_TASK_FAILED);  // it returned 1
  rubato_task* task = rubato_task_create(executor, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(rubato_task_closure(task)) % 64, 0u);
  rubato_task_discard(executor, task);
  rubato_executor_stop(executor);
  EXPECT_EQ(rubato_executor_join(executor), RUBATO_OK);
  rubato_executor_destroy(executor);
}

// Goes after the static objects of the library, and submits tasks even then: one that is late, and
// one that waits until it is cancelled.
class LastObject {
 public:
  ~LastObject() {
    if (executor == nullptr) return;
    const Cancellation cancellation;
    std::promise<Outcome> waiting;
    std::promise<Outcome> late;
    executor->execute([] { rubato::Semaphore().acquire(); }, {.cancellation = cancellation},
                      [&](Outcome outcome) { waiting.set_value(outcome); });
    executor->execute([] {}, {.deadline = -1ns}, [&](Outcome outcome) { late.set_value(outcome); });
    const bool expired = late.get_future().get() == Outcome::kExpired;
    cancellation.cancel();
    const bool cancelled = waiting.get_future().get() == Outcome::kCancelled;
    ::_exit(expired && cancelled ? 0 : 1);
  }

  Executor* executor = nullptr;
};
[[gnu::init_priority(101)]] LastObject g_last;

TEST(ExecutorDeathTest, tasks_run_while_the_program_exits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto leave = [] {
    g_last.executor = new Executor(make());
    std::exit(2);
  };
  EXPECT_EXIT(leave(), ::testing::ExitedWithCode(0), "");
}

TEST(ExecutorDeathTest, a_task_cannot_wait_for_the_end_of_its_own_executor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Executor executor = make();
  std::promise<bool> joined;
  executor.execute([] {}, {}, [&](Outcome) { joined.set_value(executor.join()); });
  EXPECT_FALSE(joined.get_future().get());
  Executor other = make();
  EXPECT_TRUE(executor.submit([&] { return other.stop(), other.join(); }).get());
  const auto destroy = [] {
    auto* const doomed = new Executor(make());
    doomed->execute([doomed] { delete doomed; });
    std::promise<void>().get_future().wait_for(10s);
  };
  EXPECT_DEATH(destroy(), "a task destroys its own executor");
}

}  // namespace
