// SPDX-License-Identifier: Apache-2.0
#include "overload/credit_control.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

#include "base/prng.h"

namespace rubato::overload {
namespace {

using Control = CreditControl;

constexpr CreditSettings kSettings;
constexpr uint32_t kCores = 4;
constexpr Instant kStart;
constexpr Nanos kLow;

const auto kNobody = [](CreditSession&, int64_t) { FAIL() << "nobody is to be told"; };
const auto kAnybody = [](CreditSession&, int64_t) {};

// Sessions that never have anything to say, which only make the pool theirs too.
class IdleSessions {
 public:
  IdleSessions(Control& control, size_t sessions) : sessions_(sessions) {
    for (CreditSession& session : sessions_) control.open(session, 0, kStart);
  }
  CreditSession& operator[](size_t i) { return sessions_[i]; }

 private:
  std::vector<CreditSession> sessions_;
};

void grow(Control& control, int64_t credits) {
  for (int64_t n = 1; control.pool().total() < credits; ++n) {
    control.update(kStart + kSettings.update_every * n, kLow, kAnybody);
  }
}

constexpr Instant kLater(Nanos::seconds(1000).count());

TEST(CreditControl, a_session_starts_with_a_credit_while_there_are_some) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, kCores);
  EXPECT_EQ(sessions[kCores - 1].credit, 1);
  EXPECT_EQ(control.pool().issued(), kCores);
  CreditSession late;
  EXPECT_EQ(control.open(late, 0, kStart), 0);
  EXPECT_EQ(control.pool().drained(), 1);
  control.close(late);
  EXPECT_EQ(control.pool().drained(), 0);
}

TEST(CreditControl, a_request_may_come_with_the_message_that_opens_the_session) {
  Control control(kSettings, 1);
  IdleSessions sessions(control, 1);
  CreditSession late;
  ASSERT_EQ(control.open(late, 0, kStart), 0);
  EXPECT_EQ(control.arrived(late, 0, kLow), Arrival::kServe);
  EXPECT_EQ(control.arrived(late, 0, kLow), Arrival::kRefuseUncredited);
}

TEST(CreditControl, a_reply_grants_what_is_asked_for_and_a_fair_share_of_the_rest) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 10);
  grow(control, 50);
  ASSERT_EQ(control.pool().issued(), 10);
  control.arrived(sessions[0], 5, kLow);
  // 40 are left for 10 sessions.
  EXPECT_EQ(control.replied(sessions[0], kLater), 5 + 4);
  EXPECT_EQ(control.pool().issued(), 10 - 1 + 9);
}

TEST(CreditControl, a_reply_takes_one_back_when_too_many_are_out) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 10);
  grow(control, 50);
  control.arrived(sessions[0], 5, kLow);
  ASSERT_EQ(control.replied(sessions[0], kLater), 9);
  control.pool().withhold(45);
  control.arrived(sessions[0], 8, kLow);
  EXPECT_EQ(control.replied(sessions[0], kLater), 8);
  control.arrived(sessions[0], 8, kLow);
  EXPECT_EQ(control.replied(sessions[0], kLater), 7);
}

TEST(CreditControl, who_is_served_keeps_its_last_credit) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 10);
  grow(control, 10);
  control.pool().withhold(6);
  control.arrived(sessions[0], 0, kLow);
  EXPECT_EQ(control.replied(sessions[0], kLater), 1);
}

TEST(CreditControl, demand_that_shrank_gives_credits_back_at_once) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 10);
  grow(control, 100);
  control.arrived(sessions[0], 20, kLow);
  ASSERT_EQ(control.replied(sessions[0], kLater), 29);
  control.arrived(sessions[0], 0, kLow);
  EXPECT_EQ(sessions[0].credit, 1);
  EXPECT_EQ(control.pool().issued(), 10);
}

TEST(CreditControl, a_late_request_is_dropped_and_leaves_its_session_drained) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 10);
  grow(control, 50);
  EXPECT_EQ(control.arrived(sessions[0], 3, kSettings.refuse_delay), Arrival::kServe);
  EXPECT_EQ(control.arrived(sessions[1], 3, kSettings.refuse_delay + Nanos(1)),
            Arrival::kRefuseLate);
  EXPECT_EQ(control.refused(sessions[1], kLater), 0);
  EXPECT_EQ(control.pool().drained(), 1);
  EXPECT_EQ(control.pool().issued(), 9);
}

TEST(CreditControl, drained_sessions_with_demand_come_first_the_latest_of_them_before_the_others) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 10);
  grow(control, 10);
  for (size_t i = 0; i < 4; ++i) {
    control.arrived(sessions[i], i < 2 ? 0 : 5, kSettings.refuse_delay + Nanos(1));
    control.refused(sessions[i], kLater);
  }
  ASSERT_EQ(control.pool().drained(), 4);
  std::vector<CreditSession*> offered;
  const auto note = [&](CreditSession& session, int64_t credit) {
    EXPECT_GE(credit, 1);
    offered.push_back(&session);
  };
  for (int64_t n = 0; n < 1000 && offered.size() < 4; ++n) {
    control.update(kLater + kSettings.update_every * n, kLow, note);
  }
  EXPECT_EQ(offered,
            (std::vector<CreditSession*>{&sessions[3], &sessions[2], &sessions[0], &sessions[1]}));
}

TEST(CreditControl, demand_that_is_not_fresh_is_not_believed) {
  CreditSettings settings;
  settings.demand_fresh = Nanos::micros(50);
  Control control(settings, kCores);
  IdleSessions sessions(control, 10);
  grow(control, 10);
  control.arrived(sessions[0], 0, settings.refuse_delay + Nanos(1));
  control.refused(sessions[0], kLater);
  control.arrived(sessions[1], 5, settings.refuse_delay + Nanos(1));
  control.refused(sessions[1], kLater);
  std::vector<CreditSession*> offered;
  control.update(kLater + Nanos::micros(51), kLow,
                 [&](CreditSession& session, int64_t) { offered.push_back(&session); });
  ASSERT_FALSE(offered.empty());
  EXPECT_EQ(offered.front(), &sessions[0]);
}

TEST(CreditControl, an_overloaded_server_that_finishes_nothing_still_shrinks_its_pool_by_time) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 100);
  grow(control, 200);
  control.update(kLater, kSettings.target_delay * 2, kNobody);
  control.update(kLater + kSettings.update_every, kSettings.target_delay * 2, kNobody);
  EXPECT_EQ(control.pool().total(), 192);  // 200 * 0.98 * 0.98
}

TEST(CreditControl, a_client_is_told_only_that_it_gets_more) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 10);
  grow(control, 50);
  EXPECT_EQ(control.note_demand(sessions[0], 6, kLater), 6 + 4);
  EXPECT_EQ(control.note_demand(sessions[0], 2, kLater), Control::kNoAdvertisement);
  EXPECT_EQ(control.note_demand(sessions[0], 0, kLater), Control::kNoAdvertisement);
  EXPECT_EQ(sessions[0].credit, 0);
  EXPECT_EQ(control.pool().drained(), 1);
}

TEST(CreditControl, a_demand_is_heard_though_a_request_is_in_service) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 10);
  grow(control, 50);
  ASSERT_EQ(control.arrived(sessions[0], 0, kLow), Arrival::kServe);
  EXPECT_EQ(control.note_demand(sessions[0], 2, kLater), 1 + 2 + 4);
}

TEST(CreditControl, what_was_sent_on_credit_that_was_taken_back_meanwhile_is_served) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 10);
  grow(control, 50);
  ASSERT_EQ(control.note_demand(sessions[0], 6, kLater), 10);
  ASSERT_EQ(control.arrived(sessions[0], 9, kSettings.refuse_delay + Nanos(1)),
            Arrival::kRefuseLate);
  ASSERT_EQ(control.refused(sessions[0], kLater), 0);
  // Nine more were underway when it was told.
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(control.arrived(sessions[0], 0, kLow), Arrival::kServe) << i;
  }
}

TEST(CreditControl, a_client_that_ignores_its_credits_is_dropped_beyond_them) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 10);
  grow(control, 20);
  uint32_t served = 0;
  for (int i = 0; i < 1000; ++i) {
    if (control.arrived(sessions[0], 1000, kLow) == Arrival::kServe) ++served;
  }
  EXPECT_LE(served, 2u);  // its credit, and what was free when it opened
}

TEST(CreditControl, a_lie_about_demand_gets_a_sessions_limit_at_most) {
  Control control(kSettings, kCores);
  IdleSessions sessions(control, 100);
  grow(control, 1000);
  EXPECT_EQ(control.note_demand(sessions[0], INT64_MAX, kLater), kSettings.session_limit);
  EXPECT_EQ(control.note_demand(sessions[1], -5, kLater), Control::kNoAdvertisement);
  EXPECT_EQ(sessions[1].demand, 0);
}

// Random clients, honest and not: the counts are those of the sessions at every step.
class Walk {
 public:
  explicit Walk(uint64_t seed) : prng_(seed) {}

  void step() {
    CreditSession& session = sessions_[prng_.below(kSessions)];
    bool& open = open_[&session];
    now_ = now_ + Nanos::micros(prng_.below(20));
    if (!open) {
      control_.open(session, prng_.below(30), now_);
      open = true;
    } else {
      act(session, open);
    }
    const Nanos delay = Nanos::micros(prng_.below(250));
    control_.update(now_, delay, [](CreditSession& offered, int64_t credit) {
      EXPECT_GT(credit, 0);
      EXPECT_EQ(offered.credit, credit);
    });
    verify();
  }

 private:
  static constexpr size_t kSessions = 20;

  void act(CreditSession& session, bool& open) {
    switch (prng_.below(20)) {
      case 0:
        control_.close(session);
        open = false;
        return;
      case 1:
        control_.note_demand(session, static_cast<int64_t>(prng_.next()), now_);
        return;
      case 2:
        control_.note_demand(session, prng_.below(3), now_);
        return;
      case 3:
        control_.pool().withhold(prng_.below(50));
        return;
      case 4:
        control_.pool().give_back(control_.pool().withheld());
        return;
      default:
        break;
    }
    if (session.pending > 0 && prng_.below(2) == 0) {
      prng_.below(5) == 0 ? control_.refused(session, now_) : control_.replied(session, now_);
      return;
    }
    const Nanos delay = Nanos::micros(prng_.below(200));
    if (control_.arrived(session, prng_.below(10), delay) != Arrival::kServe) {
      control_.refused(session, now_);
    }
  }

  void verify() {
    int64_t issued = 0;
    int64_t pending = 0;
    int64_t drained = 0;
    int64_t open = 0;
    for (const CreditSession& session : sessions_) {
      if (!open_[&session]) continue;
      ++open;
      issued += session.credit;
      pending += session.pending;
      drained += session.drained == CreditSession::Drained::kNo ? 0 : 1;
      ASSERT_GE(session.credit, session.pending);
      ASSERT_EQ(session.drained != CreditSession::Drained::kNo, session.credit == 0);
    }
    ASSERT_EQ(control_.pool().issued(), issued);
    ASSERT_EQ(control_.pool().pending(), pending);
    ASSERT_EQ(control_.pool().drained(), drained);
    ASSERT_EQ(control_.pool().sessions(), open);
    ASSERT_GE(control_.pool().total(), kCores);
  }

  Prng prng_;
  Instant now_;
  Control control_{kSettings, kCores};
  std::array<CreditSession, kSessions> sessions_;
  std::map<const CreditSession*, bool> open_;
};

TEST(CreditControl, counts_are_those_of_its_sessions_whatever_clients_do) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Walk walk(seed);
    for (int i = 0; i < 20'000 && !testing::Test::HasFailure(); ++i) walk.step();
  }
}

}  // namespace
}  // namespace rubato::overload
