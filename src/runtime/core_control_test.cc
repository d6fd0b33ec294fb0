// SPDX-License-Identifier: Apache-2.0
#include "runtime/core_control.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rubato {
namespace {

// The figures that a server with credits would report.
struct FakeCredits final : CreditSource {
  int64_t drained() const override { return drained_sessions; }
  int64_t sessions() const override { return 10; }
  int64_t outstanding() const override { return out - withheld; }
  void withhold(int64_t n) override { withheld += n; }
  void give_back(int64_t n) override { withheld -= n; }
  CreditReport report() const override { return {}; }

  int64_t drained_sessions = 0;
  int64_t out = 0;
  int64_t withheld = 0;
};

class CoreControlTest : public ::testing::Test {
 protected:
  using Settings = std::map<std::string, std::string>;

  void make(const char* name, const Settings& settings, uint32_t workers, uint32_t guaranteed = 1) {
    auto rule = overload::CoreRule::make(name, settings, workers, kCoreTimeScale);
    ASSERT_TRUE(rule.ok());
    cores = std::make_unique<CoreControl>(std::move(*rule), workers, guaranteed, &credits);
    sample.assign(workers, {});
    look();  // the first only takes the measure
  }

  uint32_t look(bool stranded = false) {
    at = at + Nanos::millis(1);
    return cores->look(at, [this](WorkerId w) { return sample[w.value]; }, stranded);
  }

  // The worker has been idle for long enough. True = the worker parked.
  bool idle(uint32_t worker, Nanos polled = Nanos::seconds(1)) {
    if (!cores->should_park({worker}, polled)) return false;
    cores->park({worker});
    return true;
  }

  FakeCredits credits;
  std::unique_ptr<CoreControl> cores;
  std::vector<CoreControl::WorkerSample> sample;
  Instant at;
};

TEST_F(CoreControlTest, an_idle_burst_parks_and_comes_back_when_requests_wait) {
  make("reactive", {}, 3);
  EXPECT_FALSE(idle(2, Nanos(0)));
  EXPECT_TRUE(idle(2));
  EXPECT_FALSE(cores->has_core({2}));
  EXPECT_EQ(look(), CoreControl::kNobody);
  cores->note_wait({0}, Nanos::seconds(1));
  EXPECT_EQ(look(), 2u);
  EXPECT_TRUE(cores->has_core({2}));
  EXPECT_FALSE(cores->repark({2}));
  EXPECT_EQ(look(), CoreControl::kNobody);  // that wait is over
  EXPECT_EQ(cores->counts().granted, 3u);
  EXPECT_EQ(cores->counts().grants, 1u);
}

TEST_F(CoreControlTest, requests_behind_one_that_does_not_end_call_for_a_core) {
  make("caladan", {}, 2);
  ASSERT_TRUE(idle(1));
  sample[0].waits = sample[0].serves = true;
  EXPECT_EQ(look(), CoreControl::kNobody);  // it has just come
  EXPECT_EQ(look(), 1u);
}

TEST_F(CoreControlTest, while_requests_finish_those_behind_them_have_not_waited_for_long) {
  make("caladan", {{"threshold", "10ms"}}, 2);
  ASSERT_TRUE(idle(1));
  sample[0].waits = true;
  for (int i = 0; i < 50; ++i) {
    ++sample[0].finished;
    EXPECT_EQ(look(), CoreControl::kNobody);
  }
}

TEST_F(CoreControlTest, what_waits_at_a_parked_worker_calls_for_a_core) {
  make("reactive", {}, 2);
  ASSERT_TRUE(idle(1));
  EXPECT_EQ(look(true), 1u);
}

TEST_F(CoreControlTest, a_burst_that_is_asked_to_park_does_so_when_it_idles) {
  make("util-range", {}, 4, 2);
  look();  // nothing is busy
  int asked = 0;
  for (const uint32_t w : {2u, 3u}) asked += idle(w) ? 1 : 0;
  EXPECT_EQ(asked, 1);
  for (int i = 0; i < 10; ++i) look();
  EXPECT_TRUE(idle(2));
  EXPECT_TRUE(cores->has_core({0}));  // guaranteed ones are never asked
  EXPECT_TRUE(cores->has_core({1}));
}

TEST_F(CoreControlTest, busy_workers_are_asked_last) {
  make("util-range", {}, 3);
  sample[2].serves = true;
  look();
  EXPECT_FALSE(idle(2));
  EXPECT_TRUE(idle(1));
}

TEST_F(CoreControlTest, workers_of_each_kind_have_their_part_of_the_cores) {
  make("util-range", {}, 6);
  for (const uint32_t w : {3u, 4u, 5u}) sample[w].kind = 1;
  const auto cores_of = [&](uint32_t from) {
    int granted = 0;
    for (uint32_t w = from; w < from + 3; ++w) granted += cores->has_core({w}) ? 1 : 0;
    return granted;
  };
  for (int i = 0; i < 10; ++i) {
    look();  // nothing is busy
    for (uint32_t w = 1; w < 6; ++w) idle(w);
    EXPECT_LE(std::abs(cores_of(0) - cores_of(3)), 1);
  }
  EXPECT_EQ(cores->counts().granted, 1u);
  for (int i = 0; i < 10; ++i) {
    look(true);
    EXPECT_LE(std::abs(cores_of(0) - cores_of(3)), 1);
  }
  EXPECT_EQ(cores->counts().granted, 6u);
}

TEST_F(CoreControlTest, a_worker_asked_to_park_that_has_not_yet_is_the_first_to_stay) {
  make("util-range", {}, 3);
  look();
  EXPECT_EQ(look(true), CoreControl::kNobody);  // no worker need be woken
  EXPECT_FALSE(idle(1));
  EXPECT_FALSE(idle(2));
}

TEST_F(CoreControlTest, a_parked_worker_that_is_called_takes_its_core_back) {
  make("reactive", {}, 2);
  ASSERT_TRUE(idle(1));
  EXPECT_TRUE(cores->wake({1}));
  EXPECT_FALSE(cores->wake({1}));   // once is enough
  EXPECT_TRUE(cores->repark({1}));  // it found nothing
  EXPECT_TRUE(cores->wake({1}));
  cores->unpark({1});
  EXPECT_TRUE(cores->has_core({1}));
  EXPECT_EQ(cores->counts().self_unparks, 1u);
  EXPECT_EQ(cores->counts().granted, 2u);
}

TEST_F(CoreControlTest, coresync_withholds_credits_while_a_core_parks_and_returns_them) {
  make("coresync", {{"r", "10"}}, 3);
  credits.out = 100;
  EXPECT_FALSE(idle(2));
  EXPECT_EQ(credits.withheld, 30);  // (100 - 10) / 3
  EXPECT_FALSE(idle(1));            // one at a time
  credits.out = 60;                 // of which 30 are underway back
  EXPECT_TRUE(idle(2));
  cores->unpark({2});
  EXPECT_EQ(credits.withheld, 0);
}

TEST_F(CoreControlTest, coresync_parks_nobody_while_a_session_is_drained) {
  make("coresync", {}, 2);
  credits.drained_sessions = 1;
  EXPECT_FALSE(idle(1));
  credits.drained_sessions = 0;
  EXPECT_TRUE(idle(1));
}

class ManagedCoresTest : public CoreControlTest {
 protected:
  overload::CoreSignals manage(uint32_t most, bool fresh) {
    at = at + Nanos::millis(1);
    return cores->manage(at, most, fresh, [this](WorkerId w) { return sample[w.value]; }, false,
                         [this](WorkerId w) { woken.push_back(w.value); });
  }

  std::vector<uint32_t> woken;
};

TEST_F(ManagedCoresTest, a_fresh_order_parks_and_wakes_until_so_many_have_a_core) {
  make("reactive", {}, 4);
  EXPECT_EQ(manage(2, true).cores, 4u);  // until two have parked
  EXPECT_TRUE(idle(3, Nanos()));  // though the allocator would let them poll on
  EXPECT_TRUE(idle(2, Nanos()));
  EXPECT_FALSE(idle(1, Nanos()));
  EXPECT_EQ(manage(3, true).cores, 3u);
  EXPECT_EQ(woken, std::vector<uint32_t>{2});
  EXPECT_EQ(cores->counts().granted, 3u);
}

TEST_F(ManagedCoresTest, a_core_that_parks_by_itself_stays_parked_until_the_next_order) {
  make("reactive", {}, 3);
  EXPECT_EQ(manage(3, true).cores, 3u);
  ASSERT_TRUE(idle(2));
  EXPECT_EQ(manage(3, false).cores, 2u);
  EXPECT_TRUE(woken.empty());
  EXPECT_EQ(manage(3, true).cores, 3u);
  EXPECT_EQ(woken, std::vector<uint32_t>{2});
}

TEST_F(ManagedCoresTest, the_signals_are_those_that_the_allocator_would_see) {
  make("reactive", {}, 2);
  manage(2, true);
  cores->note_wait({0}, Nanos::micros(700));
  sample[0].busy = sample[0].busy + Nanos::micros(500);
  const overload::CoreSignals seen = manage(2, false);
  EXPECT_EQ(seen.max_delay, Nanos::micros(700));
  EXPECT_EQ(seen.mean_delay, Nanos::micros(350));
  EXPECT_DOUBLE_EQ(seen.busy, 0.25);
}

TEST_F(ManagedCoresTest, guaranteed_workers_keep_their_cores) {
  make("reactive", {}, 3, 2);
  manage(0, true);
  EXPECT_FALSE(idle(1, Nanos()));
  EXPECT_TRUE(idle(2, Nanos()));
  EXPECT_EQ(manage(0, false).cores, 2u);
}

TEST_F(ManagedCoresTest, nobody_else_decides_until_the_manager_has_gone) {
  make("caladan", {}, 4);
  manage(1, true);
  for (const uint32_t w : {1u, 2u, 3u}) ASSERT_TRUE(idle(w));
  manage(2, false);
  cores->note_wait({0}, Nanos::seconds(1));
  EXPECT_EQ(look(), CoreControl::kNobody);
  cores->unmanage();
  EXPECT_NE(look(), CoreControl::kNobody);
  cores->note_wait({0}, Nanos::seconds(1));
  EXPECT_EQ(look(), CoreControl::kNobody);  // two is what the manager allowed
  EXPECT_EQ(cores->counts().granted, 2u);
}

}  // namespace
}  // namespace rubato
