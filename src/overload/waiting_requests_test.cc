// SPDX-License-Identifier: Apache-2.0
#include "overload/waiting_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "overload/testing/counting_platform.h"

namespace rubato::overload {
namespace {

using Waiting = WaitingRequests<testing::CountingPlatform>;

constexpr Nanos kSlot = Nanos::micros(10);

Instant at(int64_t us) { return Instant() + Nanos::micros(us); }

TEST(WaitingRequests, the_oldest_counts_whichever_worker_starts_it) {
  Waiting waiting(2, kSlot);
  EXPECT_EQ(waiting.oldest(at(50)), Nanos());
  const int64_t first = waiting.add(0, at(60), at(60));
  const int64_t second = waiting.add(1, at(90), at(90));
  EXPECT_EQ(waiting.oldest(at(100)), Nanos::micros(40));
  waiting.remove(1, first);
  EXPECT_EQ(waiting.oldest(at(100)), Nanos::micros(10));
  waiting.remove(0, second);
  EXPECT_EQ(waiting.oldest(at(100)), Nanos());
}

TEST(WaitingRequests, one_that_came_before_what_was_looked_at_is_found) {
  Waiting waiting(2, kSlot);
  EXPECT_EQ(waiting.oldest(at(5000)), Nanos());
  EXPECT_EQ(waiting.oldest(at(5000)), Nanos());
  waiting.add(1, at(1000), at(5000));
  EXPECT_EQ(waiting.oldest(at(5000)), Nanos::micros(4000));
}

TEST(WaitingRequests, one_that_waits_for_longer_than_all_slots_is_not_forgotten) {
  Waiting waiting(1, kSlot);
  const int64_t stuck = waiting.add(0, at(0), at(0));
  for (int64_t us = 0; us < 50'000; us += 500) {
    EXPECT_EQ(waiting.oldest(at(us)), Nanos::micros(us));
    waiting.remove(0, waiting.add(0, at(us), at(us)));
  }
  EXPECT_EQ(waiting.add(0, at(50'000), at(50'000)), Waiting::kUncounted);
  waiting.remove(0, stuck);
  EXPECT_EQ(waiting.oldest(at(60'000)), Nanos());
  EXPECT_NE(waiting.add(0, at(60'000), at(60'000)), Waiting::kUncounted);
}

// Against a list of all that wait.
TEST(WaitingRequests, are_those_of_a_list_whatever_order_they_start_in) {
  struct Request {
    int64_t us;
    int64_t slot;
  };
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng dice(seed);
    Waiting waiting(4, kSlot);
    std::vector<Request> list;
    int64_t us = 0;
    for (int step = 0; step < 5000; ++step) {
      us += dice.below(20);
      if (dice.below(2) == 0) {
        const int64_t since = std::max<int64_t>(us - dice.below(300), 0);
        list.push_back({since, waiting.add(dice.below(4), at(since), at(us))});
        ASSERT_NE(list.back().slot, Waiting::kUncounted);
      } else if (!list.empty()) {
        const bool in_order = dice.below(4) > 0;
        const auto which = in_order ? 0 : dice.below(static_cast<uint32_t>(list.size()));
        waiting.remove(dice.below(4), list[which].slot);
        list.erase(list.begin() + which);
      }
      int64_t oldest = us;
      for (const Request& request : list) oldest = std::min(oldest, request.us);
      if (list.empty()) oldest = us;
      const Nanos delay = waiting.oldest(at(us));
      ASSERT_GE(delay, list.empty() ? Nanos() : Nanos::micros(us - oldest));
      ASSERT_LT(delay, Nanos::micros(us - oldest) + kSlot);
    }
  }
}

struct ReadingPlatform {
  template <class T>
  class Cell : public std::atomic<T> {
   public:
    using std::atomic<T>::atomic;
    T load() const {
      ++reads;
      return std::atomic<T>::load();
    }
  };
  static inline int64_t reads = 0;
};

// Whoever looks holds a lock that sessions wait for.
TEST(WaitingRequests, are_found_without_a_look_at_the_time_in_which_none_came) {
  constexpr uint32_t kWorkers = 16;
  WaitingRequests<ReadingPlatform> waiting(kWorkers, kSlot);
  for (int64_t us = 1'000'000; us < 2'000'000; us += 100'000) {
    ReadingPlatform::reads = 0;
    EXPECT_EQ(waiting.oldest(at(us)), Nanos());
    const int64_t slot = waiting.add(3, at(us), at(us));
    EXPECT_EQ(waiting.oldest(at(us + 50)), Nanos::micros(50));
    waiting.remove(5, slot);
    EXPECT_EQ(waiting.oldest(at(us + 50)), Nanos());
    EXPECT_LT(ReadingPlatform::reads, 16 * kWorkers);
  }
}

struct AtomicPlatform {
  template <class T>
  using Cell = std::atomic<T>;
};

// Threads add at their worker and start at the next one's while another one looks, and leave one
// request each: those are found.
TEST(WaitingRequests, that_threads_bring_beside_a_look_are_found_by_a_later_one) {
  constexpr uint32_t kWorkers = 3;
  constexpr int64_t kEach = 3'000;  // fewer slots than are kept
  WaitingRequests<AtomicPlatform> waiting(kWorkers, kSlot);
  std::atomic<int64_t> clock_us{1'000'000};
  static_cast<void>(waiting.oldest(at(clock_us)));
  std::atomic<uint32_t> working{kWorkers};
  std::atomic<int64_t> left_first{std::numeric_limits<int64_t>::max()};
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      Prng dice(w + 1);
      int64_t left = -1;
      for (int64_t i = 0; i < kEach; ++i) {
        const int64_t us = clock_us.fetch_add(1);
        const int64_t since = us - dice.below(100);
        const int64_t slot = waiting.add(w, at(since), at(us));
        if (left < 0 && slot != -1 && i >= kEach / 2) {
          left = since;
        } else {
          waiting.remove((w + 1) % kWorkers, slot);
        }
      }
      for (int64_t first = left_first; left < first;) {
        if (left_first.compare_exchange_weak(first, left)) break;
      }
      --working;
    });
  }
  while (working > 0) static_cast<void>(waiting.oldest(at(clock_us)));
  for (std::thread& thread : threads) thread.join();
  const int64_t now_us = clock_us;
  const int64_t oldest_us = waiting.oldest(at(now_us)).count() / 1000;
  EXPECT_GE(oldest_us, now_us - left_first);
  EXPECT_LT(oldest_us, now_us - left_first + kSlot.count() / 1000);
}

}  // namespace
}  // namespace rubato::overload
