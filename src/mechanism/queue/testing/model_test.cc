// SPDX-License-Identifier: Apache-2.0
//
// Tests of the model checker on programs whose outcomes the C++ memory model fixes.
#include "mechanism/queue/testing/model.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <utility>

namespace rubato::model {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kAcqRel = std::memory_order_acq_rel;
constexpr auto kSeqCst = std::memory_order_seq_cst;
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

// Store buffering: each thread writes one location and reads the other. `orders` are those of the
// two writes, then of the two reads.
template <class Write>
bool may_both_miss(std::array<std::memory_order, 4> orders, Write write) {
  return outcomes(
             [=](Pair& p) {
               write(p.x, orders[0]);
               p.first = p.y.load(orders[2]);
             },
             [=](Pair& p) {
               write(p.y, orders[1]);
               p.second = p.x.load(orders[3]);
             })
      .contains({0, 0});
}

void store_one(Atomic<int>& to, std::memory_order order) { to.store(1, order); }
void exchange_one(Atomic<int>& to, std::memory_order order) { to.exchange(1, order); }
void compare_and_exchange_one(Atomic<int>& to, std::memory_order order) {
  int expected = 0;
  to.compare_exchange_strong(expected, 1, order, kRelaxed);
}

TEST(Model, store_buffering_with_four_seq_cst_accesses_shows_one_thread_the_new_value) {
  for (const auto write : {store_one, exchange_one, compare_and_exchange_one}) {
    EXPECT_FALSE(may_both_miss({kSeqCst, kSeqCst, kSeqCst, kSeqCst}, write));
  }
}

TEST(Model, store_buffering_with_three_seq_cst_accesses_can_show_both_the_old_values) {
  for (size_t weak = 0; weak < 4; ++weak) {
    std::array<std::memory_order, 4> orders{kSeqCst, kSeqCst, kSeqCst, kSeqCst};
    orders[weak] = weak < 2 ? kRelease : kAcquire;
    EXPECT_TRUE(may_both_miss(orders, store_one)) << weak;
    if (weak < 2) orders[weak] = kAcqRel;
    EXPECT_TRUE(may_both_miss(orders, exchange_one)) << weak;
    EXPECT_TRUE(may_both_miss(orders, compare_and_exchange_one)) << weak;
  }
}

// [atomics.order]/4: an access on one side and a fence on the other are in one order, too; but an
// access orders nothing but itself.
TEST(Model, store_buffering_with_a_fence_on_one_side_needs_two_seq_cst_accesses_on_the_other) {
  const auto may_both_miss = [](std::memory_order store, std::memory_order load) {
    return outcomes(
               [=](Pair& p) {
                 p.x.store(1, store);
                 p.first = p.y.load(load);
               },
               [](Pair& p) {
                 p.y.store(1, kRelaxed);
                 current_run().fence();
                 p.second = p.x.load(kRelaxed);
               })
        .contains({0, 0});
  };
  EXPECT_FALSE(may_both_miss(kSeqCst, kSeqCst));
  EXPECT_TRUE(may_both_miss(kSeqCst, kRelaxed));
  EXPECT_TRUE(may_both_miss(kRelease, kSeqCst));
}

TEST(Model, store_buffering_with_two_fences_shows_one_thread_the_new_value) {
  const auto fenced = [](Atomic<int>& mine, Atomic<int>& theirs) {
    mine.store(1, kRelaxed);
    current_run().fence();
    return theirs.load(kRelaxed);
  };
  const Outcomes seen = outcomes([fenced](Pair& p) { p.first = fenced(p.x, p.y); },
                                 [fenced](Pair& p) { p.second = fenced(p.y, p.x); });
  EXPECT_EQ(seen, (Outcomes{{0, 1}, {1, 0}, {1, 1}}));
}

TEST(Model, seq_cst_accesses_of_other_locations_are_no_fence) {
  struct Four : Pair {
    Atomic<int> left{0};
    Atomic<int> right{0};
  };
  bool both_missed = false;
  const Report report = explore(kWide, [&](Execution& run) {
    auto four = std::make_shared<Four>();
    run.thread([four] {
      four->x.store(1, kRelaxed);
      four->left.exchange(1, kSeqCst);
      four->first = four->y.load(kRelaxed);
    });
    run.thread([four] {
      four->y.store(1, kRelaxed);
      four->right.exchange(1, kSeqCst);
      four->second = four->x.load(kRelaxed);
    });
    run.finally([four, &both_missed] { both_missed |= four->first == 0 && four->second == 0; });
  });
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(both_missed);
}

TEST(Model, seq_cst_store_and_load_deliver_a_message) {
  const Outcomes seen = outcomes(
      [](Pair& p) {
        p.x.store(1, kRelaxed);
        p.y.store(1, kSeqCst);
      },
      [](Pair& p) {
        p.first = p.y.load(kSeqCst);
        p.second = p.x.load(kRelaxed);
      });
  EXPECT_EQ(seen, (Outcomes{{0, 0}, {0, 1}, {1, 1}}));
}

// R: of two writes of y the second thread's is the last, and yet it does not see x. The values of
// y tell which write was the last.
TEST(Model, write_after_write_orders_what_is_read_only_if_all_is_seq_cst) {
  const auto may_miss = [](std::array<std::memory_order, 4> orders) {
    bool missed = false;
    const Report report = explore(kWide, [&](Execution& run) {
      auto pair = std::make_shared<Pair>();
      run.thread([pair, orders] {
        pair->x.store(1, orders[0]);
        pair->y.store(1, orders[1]);
      });
      run.thread([pair, orders] {
        pair->y.store(2, orders[2]);
        pair->second = pair->x.load(orders[3]);
      });
      run.finally([pair, &missed] {
        missed |= pair->y.load(kRelaxed) == 2 && pair->second == 0;
      });
    });
    EXPECT_EQ(report.failure, "");
    return missed;
  };
  EXPECT_FALSE(may_miss({kSeqCst, kSeqCst, kSeqCst, kSeqCst}));
  EXPECT_TRUE(may_miss({kRelease, kSeqCst, kSeqCst, kSeqCst}));
  EXPECT_TRUE(may_miss({kSeqCst, kSeqCst, kSeqCst, kAcquire}));
}

// Two threads write, two read both locations in opposite orders. True = the readers can disagree
// which write was the first.
bool readers_may_disagree(std::memory_order store, std::memory_order first,
                          std::memory_order second) {
  struct Readers : Pair {
    std::array<int, 4> seen{};
  };
  bool disagree = false;
  const Report report = explore({sanitizer::kPresent ? 0u : 3u, 2}, [&](Execution& run) {
    auto r = std::make_shared<Readers>();
    run.thread([=] { r->x.store(1, store); });
    run.thread([=] { r->y.store(1, store); });
    run.thread([=] {
      r->seen[0] = r->x.load(first);
      r->seen[1] = r->y.load(second);
    });
    run.thread([=] {
      r->seen[2] = r->y.load(first);
      r->seen[3] = r->x.load(second);
    });
    run.finally([r, &disagree] { disagree |= r->seen == std::array{1, 0, 1, 0}; });
  });
  EXPECT_EQ(report.failure, "");
  return disagree;
}

TEST(Model, readers_agree_about_the_first_of_two_writes_if_they_read_seq_cst) {
  EXPECT_FALSE(readers_may_disagree(kSeqCst, kSeqCst, kSeqCst));
  // C++20: a load that sees a store follows in S what must precede the store.
  EXPECT_FALSE(readers_may_disagree(kRelease, kSeqCst, kSeqCst));
}

TEST(Model, readers_can_disagree_about_the_first_of_two_writes_otherwise) {
  EXPECT_TRUE(readers_may_disagree(kSeqCst, kSeqCst, kAcquire));
  EXPECT_TRUE(readers_may_disagree(kRelease, kAcquire, kAcquire));
}

constexpr Weaken kSeqCstOnly{.seq_cst = true};

TEST(Model, weakened_seq_cst_accesses_still_acquire_and_release) {
  struct Weak {
    Atomic<int, kSeqCstOnly> x{0};
    Atomic<int, kSeqCstOnly> y{0};
    Plain<int> message;
    int first = -1;
    int second = -1;
  };
  Outcomes seen;
  const Report report = explore(kWide, [&](Execution& run) {
    auto weak = std::make_shared<Weak>();
    run.thread([weak] {
      weak->message = 1;
      weak->x.store(1, kSeqCst);
      weak->first = weak->y.load(kSeqCst);
    });
    run.thread([weak, &run] {
      weak->y.store(1, kSeqCst);
      weak->second = weak->x.load(kSeqCst);
      if (weak->second == 1) run.expect(weak->message == 1, "another message");
    });
    run.finally([weak, &seen] { seen.insert({weak->first, weak->second}); });
  });
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(seen.contains({0, 0}));
}

TEST(Model, exchange_replaces_the_latest_value) {
  const auto take = [](Pair& p) { return p.x.exchange(1, kRelaxed); };
  const Outcomes seen = outcomes([take](Pair& p) { p.first = take(p); },
                                 [take](Pair& p) { p.second = take(p); });
  EXPECT_EQ(seen, (Outcomes{{0, 1}, {1, 0}}));
}

// One thread waits for a change that another makes and announces.
Report wait_for_a_change(std::memory_order change, std::memory_order wait, bool announced) {
  return explore(kWide, [=](Execution& run) {
    auto pair = std::make_shared<Pair>();
    run.thread([=, &run] {
      pair->x.wait(0, wait);
      run.expect(pair->x.load(kRelaxed) == 1, "woken too early");
    });
    run.thread([=] {
      pair->x.fetch_add(1, change);
      if (announced) pair->x.notify_all();
    });
  });
}

TEST(Model, a_thread_that_waits_is_woken_by_a_seq_cst_change) {
  EXPECT_EQ(wait_for_a_change(kSeqCst, kSeqCst, true).failure, "");
  EXPECT_EQ(wait_for_a_change(kSeqCst, kRelaxed, true).failure, "");
}

TEST(Model, a_thread_that_waits_can_miss_a_change_that_is_weaker_or_not_announced) {
  EXPECT_NE(wait_for_a_change(kAcqRel, kSeqCst, true).failure, "");
  EXPECT_NE(wait_for_a_change(kSeqCst, kSeqCst, false).failure, "");
}

TEST(Model, one_notification_wakes_one_thread_or_all) {
  for (const bool all : {false, true}) {
    const Report report = explore(Bounds{1, 1, 100'000}, [all](Execution& run) {
      auto pair = std::make_shared<Pair>();
      for (int i = 0; i < 2; ++i) run.thread([pair] { pair->x.wait(0, kAcquire); });
      run.thread([pair, all] {
        pair->x.store(1, kSeqCst);
        all ? pair->x.notify_all() : pair->x.notify_one();
      });
    });
    EXPECT_EQ(report.failure.empty(), all) << report.failure;
  }
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
