// SPDX-License-Identifier: Apache-2.0
#include "runtime/live_limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

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
      if (!limiter_.admits(worker, 0, user, arrived)) continue;
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

}  // namespace
}  // namespace rubato
