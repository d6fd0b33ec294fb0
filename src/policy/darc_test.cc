// SPDX-License-Identifier: Apache-2.0
#include "policy/darc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "policy/testing/arrivals.h"
#include "policy/testing/drive.h"
#include "policy/testing/profiles.h"
#include "policy/testing/script_host.h"
#include "policy/testing/seed.h"

namespace rubato {
namespace {

using testing::profile;
using testing::ScriptHost;
using testing::TypeOf;

constexpr QueueRef kUnprofiled{1, 0};
QueueRef typed(uint32_t type) { return {0, type}; }

using Firsts = std::vector<uint32_t>;
Firsts firsts(const Darc::Plan& plan) {
  return Firsts(plan.first.begin(), plan.first.begin() + plan.ranking.types);
}
Firsts owned(const Darc::Plan& plan) {
  return Firsts(plan.reserved.begin(), plan.reserved.begin() + plan.ranking.types);
}

const std::vector<TypeOf> kTpcc{{5.7, 44}, {6, 4}, {20, 44}, {88, 4}, {100, 4}};

// Persephone 5.4.2: {Payment, OrderStatus}, {NewOrder}, {Delivery, StockLevel} own 2, 6, 6 of 14.
TEST(Darc, groups_tpcc_as_the_paper_does) {
  const Darc::Plan plan = Darc({}).reserve(profile(kTpcc), 14);
  EXPECT_EQ(firsts(plan), (Firsts{0, 0, 2, 8, 8}));
  EXPECT_EQ(owned(plan), (Firsts{2, 2, 6, 6, 6}));
}

// 16 workers, 99.5 % 0.5 us and 0.5 % 500 us: a demand of 2.66 makes 3.
TEST(Darc, reserves_three_of_sixteen_for_the_short_half_of_extreme_bimodal) {
  const Darc::Plan plan = Darc({}).reserve(profile({{0.5, 99.5}, {500, 0.5}}), 16);
  EXPECT_EQ(firsts(plan), (Firsts{0, 3}));
}

TEST(Darc, a_fraction_of_up_to_a_half_is_left_to_stealing_and_nobody_gets_nothing) {
  // Demands of 0.4, 1.5 and 8.1 of 10 workers.
  const Darc::Plan plan = Darc({}).reserve(profile({{1, 4}, {10, 1.5}, {100, 0.81}}), 10);
  EXPECT_EQ(firsts(plan), (Firsts{0, 1, 2}));
}

TEST(Darc, a_long_group_that_finds_no_worker_left_shares_the_spillway) {
  const Darc::Plan plan = Darc({}).reserve(profile({{1, 55}, {10, 4.4}, {100, 0.01}}), 2);
  EXPECT_EQ(firsts(plan), (Firsts{0, 1, 1}));
}

TEST(Darc, a_type_that_came_no_more_gets_no_worker_of_its_own_but_keeps_its_rank) {
  const Darc::Plan plan = Darc({}).reserve(profile({{1, 0}, {10, 50}, {100, 5}}), 2);
  EXPECT_EQ(firsts(plan), (Firsts{0, 0, 1}));
  EXPECT_EQ(owned(plan), (Firsts{0, 1, 1}));
}

Darc::Plan two_types() { return Darc({}).reserve(profile({{1, 80}, {10, 12}}), 4); }

TEST(Darc, short_types_steal_from_long_ones_but_not_the_reverse) {
  ScriptHost<Darc> host(4, 1, two_types());
  ASSERT_EQ(firsts(host.plan()), (Firsts{0, 2}));
  Job short_job, long_job;
  None none;
  host.push(typed(2), &long_job);
  EXPECT_EQ(Darc({}).next(none, WorkerId{0}, host), nullptr);
  host.push(typed(1), &short_job);
  EXPECT_EQ(Darc({}).next(none, WorkerId{3}, host), &short_job);
  EXPECT_EQ(Darc({}).next(none, WorkerId{1}, host), nullptr);
  EXPECT_EQ(Darc({}).next(none, WorkerId{2}, host), &long_job);
}

TEST(Darc, unknown_types_run_on_the_spillway_only_after_all_others) {
  ScriptHost<Darc> host(4, 1, two_types());
  Job known, unknown, unheard_of;
  known.type = 2;
  unheard_of.type = 40;
  EXPECT_EQ(Darc({}).route(unknown, WorkerId{1}, host), typed(0));
  EXPECT_EQ(Darc({}).route(unheard_of, WorkerId{1}, host), typed(0));
  EXPECT_EQ(Darc({}).route(known, WorkerId{1}, host), typed(2));
  None none;
  host.push(typed(0), &unknown);
  host.push(typed(2), &known);
  EXPECT_EQ(Darc({}).next(none, WorkerId{0}, host), nullptr);
  EXPECT_EQ(Darc({}).next(none, WorkerId{3}, host), &known);
  EXPECT_EQ(Darc({}).next(none, WorkerId{2}, host), nullptr);
  EXPECT_EQ(Darc({}).next(none, WorkerId{3}, host), &unknown);
}

TEST(Darc, workers_of_one_kind_serve_the_same_types) {
  const Darc darc({.spillway = 2});
  ScriptHost<Darc> host(14, 1, darc.reserve(profile(kTpcc), 14));
  std::vector<uint32_t> kinds;
  for (uint32_t w = 0; w < 14; ++w) kinds.push_back(hook::kind(darc, WorkerId{w}, host));
  EXPECT_EQ(kinds, (std::vector<uint32_t>{2, 2, 3, 3, 3, 3, 3, 3, 5, 5, 5, 5, 6, 6}));
  for (uint32_t w = 1; w < 14; ++w) {
    const bool alike = kinds[w] == kinds[w - 1];
    bool serve_the_same = true;
    for (uint32_t type = 0; type < limits::kTypes; ++type) {
      serve_the_same &= hook::may_serve(darc, typed(type), WorkerId{w}, host) ==
                        hook::may_serve(darc, typed(type), WorkerId{w - 1}, host);
    }
    EXPECT_EQ(alike, serve_the_same) << w;
  }
}

TEST(Darc, all_is_first_come_first_served_until_the_first_window_closes) {
  ScriptHost<Darc> host(4);
  Job first, second;
  first.type = 2;
  second.type = 1;
  EXPECT_EQ(Darc({}).route(first, WorkerId{0}, host), kUnprofiled);
  host.push(kUnprofiled, &first);
  host.push(kUnprofiled, &second);
  None none;
  EXPECT_EQ(Darc({}).next(none, WorkerId{0}, host), &first);
  EXPECT_EQ(Darc({}).next(none, WorkerId{3}, host), &second);
}

class DarcWindows : public ::testing::Test {
 protected:
  explicit DarcWindows(const Darc::Config& config = {.window = 1000}) : policy_(config) {
    adapt();  // the first window begins
  }

  // One window of requests: as many of 1 us and of 100 us, which waited this long on average.
  void serve(uint32_t shorts, uint32_t longs, Nanos waited) {
    come(shorts, longs);
    finish(shorts, longs, waited);
  }
  void come(uint32_t shorts, uint32_t longs) {
    for (uint32_t i = 0; i < shorts; ++i) host_.note_arrived(1);
    for (uint32_t i = 0; i < longs; ++i) host_.note_arrived(2);
  }
  void finish(uint32_t shorts, uint32_t longs, Nanos waited) {
    for (uint32_t i = 0; i < shorts; ++i) host_.note_served(1, Nanos::micros(1), waited);
    for (uint32_t i = 0; i < longs; ++i) host_.note_served(2, Nanos::micros(100), waited);
  }
  void pass(Nanos time) { host_.set_now(host_.now() + time); }
  Firsts adapt() {
    host_.publish(policy_.adapt(central_, host_));
    return firsts(host_.plan());
  }

  Darc policy_;
  Darc::Central central_;
  ScriptHost<Darc> host_{10};
};

class DarcLiterally : public DarcWindows {
 protected:
  DarcLiterally() : DarcWindows({.window = 1000, .literal = true}) {}
};

TEST_F(DarcWindows, the_first_full_window_makes_a_reservation) {
  serve(900, 9, Nanos());
  EXPECT_EQ(adapt(), Firsts());
  serve(90, 1, Nanos());
  EXPECT_EQ(adapt(), (Firsts{0, 5}));
}

TEST_F(DarcLiterally, a_reservation_changes_only_if_requests_wait_and_the_demand_has_drifted) {
  serve(1000, 10, Nanos());
  EXPECT_EQ(adapt(), (Firsts{0, 5}));
  serve(1000, 90, Nanos::micros(1));  // drifted, but nobody waits beyond 10 service times
  EXPECT_EQ(adapt(), (Firsts{0, 5}));
  serve(1000, 10, Nanos::micros(50));  // the other way round
  EXPECT_EQ(adapt(), (Firsts{0, 5}));
  serve(1000, 90, Nanos::micros(50));
  EXPECT_EQ(adapt(), (Firsts{0, 1}));
}

// Persephone 5.1: "whenever a request experiences queuing delays of ten times its average profiled
// service time".
TEST_F(DarcLiterally, one_request_seen_to_wait_beyond_its_target_is_enough_to_follow_the_demand) {
  serve(1000, 10, Nanos());
  EXPECT_EQ(adapt(), (Firsts{0, 5}));
  Job waiting;
  host_.set_now(Instant() + Nanos::micros(9));
  host_.push(typed(1), &waiting);
  serve(100, 9, Nanos());
  EXPECT_EQ(adapt(), (Firsts{0, 5}));  // 9 us are fewer than ten times 1 us
  host_.set_now(Instant() + Nanos::micros(11));
  EXPECT_EQ(adapt(), (Firsts{0, 5}));  // the window is still open
  host_.take(typed(1));
  serve(900, 81, Nanos());
  EXPECT_EQ(adapt(), (Firsts{0, 1}));
}

// A window of 1 us and 100 us requests lasts 1 ms here: 10 workers do 10 ms of work in it.
TEST_F(DarcWindows, demand_is_that_of_what_comes_not_of_what_is_done) {
  pass(Nanos::millis(1));
  serve(3000, 30, Nanos());
  EXPECT_EQ(adapt(), (Firsts{0, 5}));
  pass(Nanos::millis(1));
  come(1600, 70);
  finish(1600, 10, Nanos::micros(50));
  EXPECT_EQ(adapt(), (Firsts{0, 3}));  // on average 2.3 of 7.3 ms
}

TEST_F(DarcLiterally, demand_is_that_of_what_is_done) {
  pass(Nanos::millis(1));
  serve(3000, 30, Nanos());
  EXPECT_EQ(adapt(), (Firsts{0, 5}));
  pass(Nanos::millis(1));
  come(1000, 70);
  finish(1000, 10, Nanos::micros(50));
  EXPECT_EQ(adapt(), (Firsts{0, 5}));
}

// Windows of demands around 4.5 of 10 workers for the 1 us requests, of which somebody always waits
// too long.
template <class Windows>
Firsts own_of_windows(Windows&& next_window) {
  Firsts own;
  for (uint32_t shorts : {4450u, 4550u, 4440u, 4560u, 4430u, 4570u}) {
    own.push_back(next_window(shorts));
  }
  return own;
}

TEST_F(DarcWindows, a_number_holds_while_the_demand_stays_near_the_half_between_two) {
  EXPECT_EQ(own_of_windows([this](uint32_t shorts) {
              pass(Nanos::millis(1));
              serve(shorts, (10'000 - shorts) / 100, Nanos::micros(50));
              return adapt()[1];
            }),
            (Firsts{4, 4, 4, 4, 4, 4}));
  for (int i = 0; i < 4; ++i) {  // until the moving average has followed
    pass(Nanos::millis(1));
    serve(4'800, 52, Nanos::micros(50));
    adapt();
  }
  EXPECT_EQ(firsts(host_.plan())[1], 5u);
}

// Few of 100 us come with those of 1 us, then many: the window's mean is of no mix that there was.
TEST_F(DarcWindows, a_window_in_which_the_requests_change_makes_no_plan) {
  pass(Nanos::millis(1));
  serve(1200, 12, Nanos());
  EXPECT_EQ(adapt(), (Firsts{0, 5}));
  for (const uint32_t longs : {6u, 110u}) {
    pass(Nanos::micros(500));
    serve(600, longs, Nanos::micros(50));
    EXPECT_EQ(adapt(), (Firsts{0, 5}));
  }
  pass(Nanos::millis(1));
  serve(1200, 220, Nanos::micros(50));
  EXPECT_EQ(adapt(), (Firsts{0, 1}));  // of the new mix alone
}

TEST_F(DarcWindows, requests_that_change_all_the_time_have_a_plan_all_the_same) {
  pass(Nanos::millis(1));
  serve(1200, 12, Nanos());
  EXPECT_EQ(adapt(), (Firsts{0, 5}));
  for (const uint32_t longs : {6u, 110u, 6u, 110u}) {
    pass(Nanos::micros(500));
    serve(600, longs, Nanos::micros(50));
    adapt();
  }
  EXPECT_EQ(firsts(host_.plan()), (Firsts{0, 1}));
}

TEST_F(DarcWindows, requests_that_take_another_time_from_now_on_are_not_averaged) {
  const auto serve_as = [this](Nanos first, Nanos second) {
    pass(Nanos::millis(1));
    for (uint32_t i = 0; i < 1000; ++i) {
      host_.note_arrived(i % 2 + 1);
      host_.note_served(i % 2 + 1, i % 2 == 0 ? first : second, Nanos::millis(2));
    }
    return adapt();
  };
  EXPECT_EQ(serve_as(Nanos::micros(1), Nanos::micros(19)), (Firsts{0, 1}));
  EXPECT_EQ(serve_as(Nanos::micros(19), Nanos::micros(1)), (Firsts{0, 1}));
  EXPECT_EQ(host_.plan().ranking.order[0], 2);
}

// An average with the mix before would reserve two.
TEST_F(DarcWindows, what_comes_twice_as_often_as_before_is_another_mix) {
  pass(Nanos::millis(1));
  serve(2000, 80, Nanos());
  EXPECT_EQ(adapt(), (Firsts{0, 2}));
  pass(Nanos::millis(1));
  serve(5000, 30, Nanos::micros(50));
  EXPECT_EQ(adapt(), (Firsts{0, 5}));
}

class DarcWithoutDrift : public DarcWindows {
 protected:
  DarcWithoutDrift() : DarcWindows({.window = 1000, .drift = 0, .literal = true}) {}
};

TEST_F(DarcWithoutDrift, literally_a_number_goes_up_and_down_with_the_demand) {
  EXPECT_EQ(own_of_windows([this](uint32_t shorts) {
              pass(Nanos::millis(1));
              serve(shorts, (10'000 - shorts) / 100, Nanos::micros(50));
              return adapt()[1];
            }),
            (Firsts{4, 5, 4, 5, 4, 5}));
}

class DarcThatStarves : public DarcWindows {
 protected:
  // Eight workers are for requests of 100 us. More of these come than are done, and they wait.
  void starve() {
    pass(Nanos::millis(1));
    serve(1000, 50, Nanos());
    ASSERT_EQ(adapt(), (Firsts{0, 2}));
    waiting_.arrived = host_.now();
    host_.push(typed(2), &waiting_);
    window(60, 40);
  }
  // So many long requests come, and so many are done, while the first that waits goes on waiting.
  void window(uint32_t come_longs, uint32_t done_longs, Nanos lasts = Nanos::micros(1100)) {
    pass(lasts);
    come(1000, come_longs);
    finish(1000, done_longs, Nanos::millis(2));
    adapt();
  }

  Job waiting_;
};

TEST_F(DarcThatStarves, who_falls_behind_goes_first_on_its_own_workers) {
  starve();
  ASSERT_EQ(firsts(host_.plan()), (Firsts{0, 2}));
  Job short_job;
  host_.push(typed(1), &short_job);
  None none;
  EXPECT_EQ(policy_.next(none, WorkerId{2}, host_), &waiting_);
  EXPECT_EQ(policy_.next(none, WorkerId{2}, host_), &short_job);
}

TEST_F(DarcThatStarves, who_needs_more_workers_than_it_has_begins_earlier) {
  pass(Nanos::millis(1));
  serve(1000, 50, Nanos());
  ASSERT_EQ(adapt(), (Firsts{0, 2}));
  waiting_.arrived = host_.now();
  host_.push(typed(2), &waiting_);
  pass(Nanos::micros(1100));
  come(1000, 140);  // with the window before on average 8.9 workers, of which it has 8
  finish(1000, 80, Nanos::millis(2));
  EXPECT_EQ(adapt(), (Firsts{0, 1}));
}

TEST_F(DarcThatStarves, who_still_falls_behind_begins_earlier_by_one_worker_at_a_time) {
  starve();
  ASSERT_EQ(firsts(host_.plan()), (Firsts{0, 2}));
  window(60, 40, Nanos::micros(1200));  // twice as long as then
  EXPECT_EQ(firsts(host_.plan()), (Firsts{0, 1}));
  window(60, 40);  // it has waited longer, but not yet twice as long
  EXPECT_EQ(firsts(host_.plan()), (Firsts{0, 1}));
}

TEST_F(DarcThatStarves, in_an_overload_the_short_keep_what_their_demand_gives_them) {
  starve();
  for (int i = 0; i < 4; ++i) window(150, 80);
  EXPECT_EQ(firsts(host_.plan()), (Firsts{0, 1}));
  EXPECT_EQ(host_.plan().somebody_behind, 0u);
}

TEST_F(DarcThatStarves, it_is_forgotten_once_much_less_comes) {
  starve();
  EXPECT_EQ(host_.plan().somebody_behind, 1u);
  host_.take(typed(2));
  for (int i = 0; i < 4; ++i) {
    pass(Nanos::millis(1));
    serve(1000, 5, Nanos::micros(50));
    adapt();
  }
  EXPECT_EQ(host_.plan().somebody_behind, 0u);
}

std::vector<std::string> explained(const Darc::Plan& plan, uint32_t workers) {
  Explanation out([](uint32_t type) { return std::string(1, static_cast<char>('A' + type)); }, 7);
  Darc({}).explain(plan, workers, out);
  return out.take();
}

TEST(Darc, tells_who_owns_which_workers_who_may_steal_and_where_requests_wait) {
  const std::vector<std::string> lines = explained(Darc({}).reserve(profile(kTpcc), 14), 14);
  EXPECT_EQ(lines, (std::vector<std::string>{
      "B (group 1) owns workers 0 to 1, may steal workers 2 to 13, waits in queue typed 1",
      "C (group 1) owns workers 0 to 1, may steal workers 2 to 13, waits in queue typed 2",
      "D (group 2) owns workers 2 to 7, may steal workers 8 to 13, waits in queue typed 3",
      "E (group 3) owns workers 8 to 13, may steal no worker, waits in queue typed 4",
      "F (group 3) owns workers 8 to 13, may steal no worker, waits in queue typed 5",
      "other types are for worker 13 (the spillway) when nothing else waits there, and wait in "
      "queue typed 0"}));
}

TEST(Darc, tells_groups_apart_that_share_their_workers) {
  const std::vector<std::string> lines =
      explained(Darc({}).reserve(profile({{1, 50}, {100, 50}}), 1), 1);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "B (group 1) owns worker 0, may steal no worker, waits in queue typed 1");
  EXPECT_EQ(lines[1], "C (group 2) owns worker 0, may steal no worker, waits in queue typed 2");
}

TEST(Darc, tells_that_it_knows_no_type_yet) {
  const std::vector<std::string> lines = explained(Darc::Plan{}, 14);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("wait in one queue"), std::string::npos) << lines[0];
}

TEST(Darc, every_job_is_done_once_while_reservations_change) {
  const uint64_t seed = testing::test_seed(11);
  const auto arrivals = testing::make_arrivals(seed, {.load = 0.8});
  const auto report = testing::drive<Darc>({.window = 500, .check = Nanos::micros(100)}, arrivals);
  EXPECT_TRUE(report.violations.empty()) << report.violations.front() << ", seed " << seed;
  EXPECT_EQ(report.departures.size(), arrivals.size());
}

}  // namespace
}  // namespace rubato
