// SPDX-License-Identifier: Apache-2.0
//
// The policies that queue by type and learn the types as they go: fixed-priority, shinjuku; and
// what they learn (profile.h).
#include <gtest/gtest.h>

#include <vector>

#include "policy/fixed_priority.h"
#include "policy/profile.h"
#include "policy/shinjuku.h"
#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

QueueRef index(uint32_t declaration, uint32_t type) { return {declaration, type}; }

// Types 1 and 2 take 10 us and 1 us.
template <class P>
void teach(const P& policy, ScriptHost<P>& host) {
  typename P::Central central;
  for (int i = 0; i < 100; ++i) {
    host.note_served(1, Nanos::micros(10), Nanos());
    host.note_served(2, Nanos::micros(1), Nanos());
  }
  host.publish(policy.adapt(central, host));
}

struct TypedJob : Job {
  explicit TypedJob(uint32_t of_type, Instant at = Instant()) { type = of_type, arrived = at; }
};

TEST(Profile, windows_average_service_times_and_shares_of_the_work) {
  ScriptHost<FixedPriority> host(1);
  Profile profile;
  for (int i = 0; i < 3; ++i) host.note_served(1, Nanos(100), Nanos(500));
  host.note_served(2, Nanos(700), Nanos(0));
  EXPECT_EQ(profile.observe(host), 4u);
  profile.close(1);
  EXPECT_EQ(profile.of(1).service, Nanos(100));
  EXPECT_DOUBLE_EQ(profile.demands()[1], 0.3);
  EXPECT_TRUE(profile.waits_beyond(4.9));
  EXPECT_FALSE(profile.waits_beyond(5.1));
  host.note_served(1, Nanos(200), Nanos(0));
  EXPECT_EQ(profile.observe(host), 1u);
  profile.close(1);
  EXPECT_EQ(profile.of(1).service, Nanos(150));
  EXPECT_EQ(profile.of(2).service, Nanos(700));
  EXPECT_DOUBLE_EQ(profile.demands()[2], 0);
}

// Persephone 4.3.3: the deviation is that "from the current allocation".
TEST(Profile, demand_drifts_by_shares_of_the_adopted_one_whether_it_grows_or_shrinks) {
  Profile profile;
  profile.adopt({0, 0.25, 0.75});
  EXPECT_FALSE(profile.has_drifted({0, 0.25, 0.75}, 0));
  EXPECT_TRUE(profile.has_drifted({0, 0.26, 0.74}, 0));
  EXPECT_FALSE(profile.has_drifted({0, 0.27, 0.73}, 0.1));
  EXPECT_TRUE(profile.has_drifted({0, 0.276, 0.724}, 0.1));
  EXPECT_TRUE(profile.has_drifted({0, 0.224, 0.776}, 0.1));
  EXPECT_TRUE(profile.has_drifted({0, 0.25, 0.74, 0.01}, 0.1));
}

TEST(Profile, ranks_the_known_types_from_short_to_long) {
  Profile profile;
  profile.of(7).service = Nanos(10);
  profile.of(3).service = Nanos(30);
  profile.of(5).service = Nanos(20);
  const Ranking ranking = profile.ranking();
  ASSERT_EQ(ranking.types, 3u);
  EXPECT_EQ(std::vector<int>(ranking.order.begin(), ranking.order.begin() + 3),
            (std::vector<int>{7, 5, 3}));
  EXPECT_EQ(ranking.queue_index_of(5), 5u);
  EXPECT_EQ(ranking.queue_index_of(4), 0u);
  EXPECT_EQ(ranking.queue_index_of(1'000'000), 0u);
}

TEST(FixedPriority, serves_the_shortest_type_first_and_unknown_ones_last) {
  const FixedPriority policy({.window = 1});
  ScriptHost<FixedPriority> host(2);
  teach(policy, host);
  TypedJob unknown(9), longer(1), shorter(2);
  None none;
  for (TypedJob* job : {&unknown, &longer, &shorter}) {
    host.push(policy.route(*job, WorkerId{0}, host), job);
  }
  EXPECT_EQ(policy.next(none, WorkerId{1}, host), &shorter);
  EXPECT_EQ(policy.next(none, WorkerId{1}, host), &longer);
  EXPECT_EQ(policy.next(none, WorkerId{1}, host), &unknown);
  EXPECT_EQ(policy.next(none, WorkerId{1}, host), nullptr);
}

TEST(Shinjuku, picks_the_type_that_waits_longest_in_relation_to_its_service_time) {
  const Shinjuku policy({.window = 1});
  ScriptHost<Shinjuku> host(1);
  teach(policy, host);
  TypedJob longer(1, Instant()), shorter(2, Instant(90'000));
  host.push(index(0, 1), &longer);
  host.push(index(0, 2), &shorter);
  None none;
  host.set_now(Instant(95'000));  // 9.5 against 5
  EXPECT_EQ(policy.next(none, WorkerId{0}, host), &longer);
  host.push(index(0, 1), &longer);
  host.set_now(Instant(110'000));  // 11 against 20
  EXPECT_EQ(policy.next(none, WorkerId{0}, host), &shorter);
}

TEST(Shinjuku, a_cut_request_comes_before_fresh_ones_of_its_type) {
  const Shinjuku policy({.window = 1});
  ScriptHost<Shinjuku> host(1);
  teach(policy, host);
  TypedJob fresh(1, Instant(50)), cut(1, Instant());
  EXPECT_EQ(policy.requeue(cut, RequeueReason::kPreempted, WorkerId{0}, host), index(1, 1));
  host.push(index(0, 1), &fresh);
  host.push(index(1, 1), &cut);
  None none;
  EXPECT_EQ(policy.next(none, WorkerId{0}, host), &cut);
  EXPECT_EQ(policy.next(none, WorkerId{0}, host), &fresh);
}

TEST(Shinjuku, cuts_only_if_somebody_waits) {
  const Shinjuku policy({.window = 1});
  ScriptHost<Shinjuku> host(1);
  EXPECT_EQ(policy.expired(Job(), WorkerId{0}, host), SliceDecision::kContinue);
  TypedJob unknown(3);
  host.push(index(0, 0), &unknown);
  EXPECT_EQ(policy.expired(Job(), WorkerId{0}, host), SliceDecision::kPreempt);
}

}  // namespace
}  // namespace rubato
