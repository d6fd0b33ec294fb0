// SPDX-License-Identifier: Apache-2.0
//
// Tests of the model checker on programs whose outcomes the C++ memory model fixes.
#include "mechanism/queue/testing/model.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>

namespace rubato::model {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr Bounds kWide{8, 8, 1'000'000};

struct Pair {
  Atomic<int> x{0};
  Atomic<int> y{0};
  int first = -1;
  int second = -1;
};

using Outcomes = std::set<std::pair<int, int>>;

template <class Left, class Right>
Outcomes outcomes(Left left, Right right) {
  Outcomes seen;
  const Report report = explore(kWide, [&](Execution& run) {
    auto pair = std::make_shared<Pair>();
    run.thread([pair, left] { left(*pair); });
    run.thread([pair, right] { right(*pair); });
    run.finally([pair, &seen] { seen.insert({pair->first, pair->second}); });
  });
  EXPECT_EQ(report.failure, "");
  return seen;
}

TEST(Model, store_buffering_shows_both_threads_the_old_values) {
  const Outcomes seen = outcomes(
      [](Pair& p) {
        p.x.store(1, kRelease);
        p.first = p.y.load(kAcquire);
      },
      [](Pair& p) {
        p.y.store(1, kRelease);
        p.second = p.x.load(kAcquire);
      });
  EXPECT_EQ(seen, (Outcomes{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

TEST(Model, message_passing_by_release_and_acquire_delivers_the_message) {
  const Outcomes seen = outcomes(
      [](Pair& p) {
        p.x.store(1, kRelaxed);
        p.y.store(1, kRelease);
      },
      [](Pair& p) {
        p.first = p.y.load(kAcquire);
        p.second = p.x.load(kRelaxed);
      });
  EXPECT_EQ(seen, (Outcomes{{0, 0}, {0, 1}, {1, 1}}));
}

TEST(Model, message_passing_without_order_can_lose_the_message) {
  const Outcomes seen = outcomes(
      [](Pair& p) {
        p.x.store(1, kRelaxed);
        p.y.store(1, kRelaxed);
      },
      [](Pair& p) {
        p.first = p.y.load(kRelaxed);
        p.second = p.x.load(kRelaxed);
      });
  EXPECT_TRUE(seen.contains({1, 0}));
}

TEST(Model, one_location_is_never_seen_going_back) {
  const Outcomes seen = outcomes(
      [](Pair& p) {
        p.x.store(1, kRelaxed);
        p.x.store(2, kRelaxed);
      },
      [](Pair& p) {
        p.first = p.x.load(kRelaxed);
        p.second = p.x.load(kRelaxed);
      });
  for (const auto& [first, second] : seen) EXPECT_LE(first, second);
  EXPECT_EQ(seen.size(), 6u);
}

TEST(Model, only_one_of_two_exchanges_succeeds) {
  const auto try_it = [](Pair& p, int& result) {
    int expected = 0;
    result = p.x.compare_exchange_strong(expected, 1, kRelaxed, kRelaxed) ? 1 : 0;
  };
  const Outcomes seen = outcomes([try_it](Pair& p) { try_it(p, p.first); },
                                 [try_it](Pair& p) { try_it(p, p.second); });
  EXPECT_EQ(seen, (Outcomes{{0, 1}, {1, 0}}));
}

TEST(Model, exchange_continues_the_release_sequence) {
  struct Three {
    Atomic<int> message{0};
    Atomic<int> flag{0};
    bool lost = false;
  };
  const Report report = explore(kWide, [](Execution& run) {
    auto three = std::make_shared<Three>();
    run.thread([three] {
      three->message.store(1, kRelaxed);
      three->flag.store(1, kRelease);
    });
    run.thread([three] {
      int expected = 1;
      three->flag.compare_exchange_strong(expected, 2, kRelaxed, kRelaxed);
    });
    run.thread([three, &run] {
      if (three->flag.load(kAcquire) == 2) {
        run.expect(three->message.load(kRelaxed) == 1, "message lost");
      }
    });
  });
  EXPECT_EQ(report.failure, "");
}

TEST(Model, who_waits_lets_the_others_go_on_and_costs_no_preemption) {
  const Report report = explore(Bounds{0, 0, 1'000}, [](Execution& run) {
    auto pair = std::make_shared<Pair>();
    for (int i = 0; i < 2; ++i) {
      run.thread([pair, &run] {
        while (pair->x.load(kAcquire) == 0) run.wait();
      });
    }
    run.thread([pair] { pair->x.store(1, kRelease); });
  });
  EXPECT_EQ(report.failure, "");
  EXPECT_EQ(report.executions, 6u);
}

TEST(Model, plain_accesses_without_order_are_reported) {
  for (const auto order : {kRelaxed, kRelease}) {
    struct Message {
      Plain<int> text;
      Atomic<int> flag{0};
    };
    const Report report = explore(kWide, [order](Execution& run) {
      auto message = std::make_shared<Message>();
      run.thread([message, order] {
        message->text = 1;
        message->flag.store(1, order);
      });
      run.thread([message, &run] {
        if (message->flag.load(kAcquire) == 1) run.expect(message->text == 1, "wrong text");
      });
    });
    EXPECT_EQ(report.failure.empty(), order == kRelease) << report.failure;
  }
}

TEST(Model, schedules_are_counted_by_the_preemptions_allowed) {
  const auto executions = [](uint32_t preemptions) {
    return explore(Bounds{preemptions, 0, 1'000'000}, [](Execution& run) {
             auto pair = std::make_shared<Pair>();
             for (int i = 0; i < 2; ++i) {
               run.thread([pair] {
                 pair->x.load(kRelaxed);
                 pair->x.load(kRelaxed);
               });
             }
           })
        .executions;
  };
  EXPECT_EQ(executions(0), 2u);
  EXPECT_GT(executions(1), 2u);
  EXPECT_GT(executions(2), executions(1));
}

}  // namespace
}  // namespace rubato::model
