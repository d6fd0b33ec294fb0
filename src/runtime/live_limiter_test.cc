// SPDX-License-Identifier: Apache-2.0
#include "runtime/live_limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

constexpr uint32_t kWorkers = 4;
constexpr int kRequests = 5000;  // of each

// Workers that take requests in, serve some, and refuse others before their start. Times go on with
// every request of any worker.
class Workers {
 public:
  explicit Workers(const overload::LimiterSettings& settings) : limiter_(settings, kWorkers, 1) {
    std::vector<std::thread> threads;
    for (uint32_t w = 0; w < kWorkers; ++w) threads.emplace_back([this, w] { work(w); });
    for (std::thread& thread : threads) thread.join();
  }

  const LiveLimiter& limiter() const { return limiter_; }
  int64_t most_inside() const { return most_inside_; }
  int64_t let_in() const { return let_in_; }

 private:
  Instant now() { return Instant(clock_us_.fetch_add(1) * 1000 + 1); }

  void work(uint32_t worker) {
    for (int i = 0; i < kRequests; ++i) {
      const Instant arrived = now();
      const auto user = static_cast<uint64_t>(i % 100 + 1);
      if (!limiter_.admits(worker, {.user = user}, arrived)) continue;
      ++let_in_;
      const int64_t inside = ++inside_;
      int64_t most = most_inside_;
      while (inside > most && !most_inside_.compare_exchange_weak(most, inside)) continue;
      const bool starts = i % 7 != 0 && limiter_.starts(worker, now() - arrived, now());
      if (i % 16 == 0) std::this_thread::yield();
      --inside_;  // before the limiter knows
      starts ? limiter_.finished(worker, arrived, now()) : limiter_.leaves(now());
    }
  }

  LiveLimiter limiter_;
  std::atomic<int64_t> clock_us_{1};
  std::atomic<int64_t> inside_{0};
  std::atomic<int64_t> most_inside_{0};
  std::atomic<int64_t> let_in_{0};
};

TEST(LiveLimiter, lets_no_more_in_than_its_greatest_limit_whoever_decides) {
  overload::GradientSettings settings;
  settings.least = 1;
  settings.most = 3;
  settings.update_every = Nanos::micros(50);
  settings.measure_every = Nanos::millis(1);
  const Workers workers(settings);
  EXPECT_LE(workers.most_inside(), 3);
  EXPECT_EQ(workers.limiter().inside(), 0);
  EXPECT_GT(workers.limiter().report().decisions, 10u);
}

TEST(LiveLimiter, lets_no_more_in_than_is_usual_whoever_decides) {
  overload::Gradient2Settings settings;
  settings.least = 1;
  settings.most = 3;
  settings.update_every = Nanos::micros(50);
  const Workers workers(settings);
  EXPECT_LE(workers.most_inside(), 3);
  EXPECT_EQ(workers.limiter().inside(), 0);
  EXPECT_GT(workers.limiter().report().decisions, 10u);
}

TEST(LiveLimiter, counts_every_request_that_comes_to_any_worker) {
  overload::DagorSettings settings;
  settings.window = Nanos::seconds(3600);
  settings.requests = 100;
  const Workers workers(settings);
  EXPECT_EQ(workers.limiter().inside(), 0);
  // Arrivals while a decision is made count for the next window, or for none.
  const uint64_t all = uint64_t{kWorkers} * kRequests / 100;
  EXPECT_LE(workers.limiter().report().decisions, all);
  EXPECT_GT(workers.limiter().report().decisions, 0u);
}

TEST(LiveLimiter, keeps_its_share_when_windows_end_at_any_worker) {
  overload::CinnamonSettings settings;
  settings.workers = kWorkers;
  settings.longest_wait = Nanos::micros(20);
  settings.update_every = Nanos::micros(100);
  settings.overload_after = Nanos::micros(100);
  const Workers workers(settings);
  EXPECT_EQ(workers.limiter().inside(), 0);
  EXPECT_GT(workers.let_in(), 0);
  EXPECT_GT(workers.limiter().report().decisions, 10u);
}

// Under the model checker.
struct ModelCells {
  template <class T>
  class Cell {
   public:
    Cell(T value = T()) : value_(value) {}
    T load() const { return value_.load(std::memory_order_seq_cst); }
    void store(T value) { value_.store(value, std::memory_order_seq_cst); }
    T exchange(T value) { return value_.exchange(value, std::memory_order_seq_cst); }
    T fetch_add(T n) { return value_.fetch_add(n, std::memory_order_seq_cst); }

   private:
    model::Atomic<T> value_;
  };
  template <class T>
  using Count = overload::OneThread::Cell<T>;
};

// Two workers take in a request each where there is room for one, and any that is done ends a
// window. Forbidden outcomes: both are inside, a place stays taken, or nobody decides any more.
TEST(LiveLimiter, neither_doubles_nor_loses_a_place_in_any_interleaving) {
  overload::GradientSettings settings;
  settings.least = settings.most = 1;
  settings.update_every = Nanos(1);
  settings.measure_requests = 1;
  const auto scenario = [&settings](model::Execution& run) {
    struct Scene {
      explicit Scene(const overload::LimiterSettings& of) : limiter(of, 2, 1) {}
      overload::Limiter<ModelCells> limiter;
      int inside = 0;
      int64_t clock_us = 0;
      Instant now() { return Instant(++clock_us * 1000); }
    };
    auto scene = std::make_shared<Scene>(settings);
    for (uint32_t worker = 0; worker < 2; ++worker) {
      run.thread([scene, worker, &run] {
        const Instant arrived = scene->now();
        if (!scene->limiter.admits(worker, {.user = 1}, arrived)) return;
        run.expect(++scene->inside == 1, "two inside");
        const bool starts = worker == 0 && scene->limiter.starts(worker, {}, scene->now());
        --scene->inside;
        const Instant end = scene->now();
        starts ? scene->limiter.finished(worker, arrived, end) : scene->limiter.leaves(end);
      });
    }
    run.finally([scene, &run] {
      run.expect(scene->limiter.inside() == 0, "a place stays taken");
      const uint64_t before = scene->limiter.report().decisions;
      const Instant arrived = scene->now();
      run.expect(scene->limiter.admits(0, {.user = 1}, arrived), "there is no room");
      run.expect(scene->limiter.starts(0, {}, scene->now()), "it does not start");
      scene->limiter.finished(0, arrived, scene->now());
      const overload::LimiterReport report = scene->limiter.report();
      run.expect(report.decisions > before, "nobody decides any more");
      run.expect(report.limits.underway == 1, "another limit");
    });
  };
  const model::Report explored = model::explore(model::within(2, 1), scenario);
  EXPECT_EQ(explored.failure, "");
  EXPECT_GE(explored.executions, 50u);
}

}  // namespace
}  // namespace rubato
