// SPDX-License-Identifier: Apache-2.0
#include "policy/darc_static.h"

#include <gtest/gtest.h>

#include <vector>

#include "policy/testing/profiles.h"
#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::profile;
using testing::ScriptHost;

using Firsts = std::vector<uint32_t>;
Firsts firsts(const Darc::Plan& plan) {
  return Firsts(plan.first.begin(), plan.first.begin() + plan.ranking.types);
}
Firsts owned(const Darc::Plan& plan) {
  return Firsts(plan.reserved.begin(), plan.reserved.begin() + plan.ranking.types);
}

DarcStatic with_reserved(uint32_t workers) {
  return DarcStatic({.reserved = workers, .spillway = 1, .window = 1000});
}

TEST(DarcStatic, the_shortest_types_own_what_is_asked_and_the_others_share_the_rest) {
  const auto types = profile({{1, 50}, {1.1, 20}, {10, 20}, {100, 10}});
  const Darc::Plan plan = with_reserved(3).reserve(types, 14);
  EXPECT_EQ(firsts(plan), (Firsts{0, 0, 3, 3}));
  EXPECT_EQ(owned(plan), (Firsts{3, 3, 11, 11}));
}

// Persephone 5.3: "When the number of reserved workers is 0, DARC-static is equivalent to a simple
// Fixed Priority policy".
TEST(DarcStatic, with_none_reserved_it_is_fixed_priority) {
  const Darc::Plan plan = with_reserved(0).reserve(profile({{1, 50}, {100, 50}}), 4);
  EXPECT_EQ(firsts(plan), (Firsts{0, 0}));
  ScriptHost<DarcStatic> host(4, 1, plan);
  Job short_job, long_job;
  host.push(QueueRef{0, 2}, &long_job);
  host.push(QueueRef{0, 1}, &short_job);
  None none;
  EXPECT_EQ(with_reserved(0).next(none, WorkerId{0}, host), &short_job);
  EXPECT_EQ(with_reserved(0).next(none, WorkerId{0}, host), &long_job);
}

TEST(DarcStatic, with_all_reserved_long_types_are_left_with_the_spillway) {
  const Darc::Plan plan = with_reserved(14).reserve(profile({{1, 50}, {100, 50}}), 14);
  EXPECT_EQ(firsts(plan), (Firsts{0, 13}));
  EXPECT_EQ(firsts(with_reserved(99).reserve(profile({{1, 50}, {100, 50}}), 14)), (Firsts{0, 13}));
}

TEST(DarcStatic, demand_does_not_change_the_reservation_but_which_type_is_shortest_does) {
  const DarcStatic policy = with_reserved(2);
  Profile central;
  ScriptHost<DarcStatic> host(10);
  const auto serve = [&](Nanos first, Nanos second) {
    for (int i = 0; i < 500; ++i) host.note_served(1, first, Nanos(1));
    for (int i = 0; i < 500; ++i) host.note_served(2, second, Nanos(1));
    host.publish(policy.adapt(central, host));
  };
  serve(Nanos::micros(1), Nanos::micros(100));
  EXPECT_EQ(firsts(host.plan()), (Firsts{0, 2}));
  EXPECT_EQ(host.plan().ranking.order[0], 1);
  serve(Nanos::micros(1), Nanos::millis(10));
  EXPECT_EQ(firsts(host.plan()), (Firsts{0, 2}));
  for (int window = 0; window < 20; ++window) serve(Nanos::millis(10), Nanos::micros(1));
  EXPECT_EQ(firsts(host.plan()), (Firsts{0, 2}));
  EXPECT_EQ(host.plan().ranking.order[0], 2);
}

}  // namespace
}  // namespace rubato
