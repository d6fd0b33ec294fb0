// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "overload/cores/all.h"

namespace rubato::overload {
namespace {

CoreSignals quiet(uint32_t cores) {
  CoreSignals signals;
  signals.cores = cores;
  signals.limit = 16;
  signals.busy = 0.8;
  signals.mean_delay = Nanos(700);
  return signals;
}

CoreSignals with_delay(Nanos delay) {
  CoreSignals signals = quiet(4);
  signals.max_delay = delay;
  return signals;
}

template <class A>
CoreChange once(const CoreSignals& signals) {
  typename A::Controller controller{};
  return A(typename A::Config{}).change(controller, signals);
}

template <class A>
IdleAction after(Nanos polled) {
  internal::NoCredits host;
  typename A::Idle idle{};
  return A(typename A::Config{}).idle(idle, polled, host);
}

TEST(CoreAllocators, each_has_a_name_of_its_own_by_which_it_is_found) {
  std::set<std::string> names;
  for_each_allocator([&]<class A>(std::type_identity<A>) {
    names.insert(A::kName);
    EXPECT_TRUE(with_allocator(A::kName, []<class B>(std::type_identity<B>) {
      EXPECT_STREQ(A::kName, B::kName);
    }));
  });
  EXPECT_EQ(names.size(), std::variant_size_v<AnyCores>);
  EXPECT_FALSE(with_allocator("none", [](auto) { FAIL(); }));
}

TEST(CoreAllocators, all_but_static_grant_a_core_when_a_request_waits_for_5_us) {
  for_each_allocator([]<class A>(std::type_identity<A>) {
    if constexpr (std::is_same_v<A, StaticCores>) return;
    EXPECT_EQ(once<A>(with_delay(Nanos(4999))), CoreChange::kKeep) << A::kName;
    EXPECT_EQ(once<A>(with_delay(Nanos(5000))), CoreChange::kGrant) << A::kName;
  });
}

TEST(CoreAllocators, all_grant_a_core_when_only_a_parked_one_would_find_a_request) {
  for_each_allocator([]<class A>(std::type_identity<A>) {
    CoreSignals signals = quiet(4);
    signals.parked_has_work = true;
    EXPECT_EQ(once<A>(signals), CoreChange::kGrant) << A::kName;
  });
}

TEST(CoreAllocators, none_grants_more_than_there_are) {
  for_each_allocator([]<class A>(std::type_identity<A>) {
    CoreSignals signals = with_delay(Nanos::micros(100));
    signals.cores = signals.limit;
    signals.busy = 1;
    EXPECT_EQ(once<A>(signals), CoreChange::kKeep) << A::kName;
  });
}

TEST(StaticCores, takes_all_and_keeps_them) {
  EXPECT_EQ(once<StaticCores>(quiet(15)), CoreChange::kGrant);
  EXPECT_EQ(once<StaticCores>(quiet(16)), CoreChange::kKeep);
  EXPECT_EQ(after<StaticCores>(Nanos::seconds(1)), IdleAction::kPoll);
}

TEST(ReactiveCores, after_a_grant_it_waits_for_an_interval) {
  const ReactiveCores cores({});
  ReactiveCores::Controller controller;
  const CoreSignals signals = with_delay(Nanos::micros(9));
  EXPECT_EQ(cores.change(controller, signals), CoreChange::kGrant);
  EXPECT_EQ(cores.change(controller, signals), CoreChange::kKeep);
  EXPECT_EQ(cores.change(controller, signals), CoreChange::kGrant);
}

TEST(ReactiveCores, an_idle_core_parks_after_2_us) {
  EXPECT_EQ(after<ReactiveCores>(Nanos(1999)), IdleAction::kPoll);
  EXPECT_EQ(after<ReactiveCores>(Nanos(2000)), IdleAction::kPark);
}

TEST(CaladanCores, grants_in_every_interval) {
  const CaladanCores cores({});
  CaladanCores::Controller controller;
  const CoreSignals signals = with_delay(Nanos::micros(9));
  EXPECT_EQ(cores.change(controller, signals), CoreChange::kGrant);
  EXPECT_EQ(cores.change(controller, signals), CoreChange::kGrant);
  EXPECT_EQ(after<CaladanCores>(Nanos(2000)), IdleAction::kPark);
}

TEST(UtilRangeCores, keeps_the_utilisation_in_its_range) {
  CoreSignals signals = quiet(4);
  signals.busy = 0.74;
  EXPECT_EQ(once<UtilRangeCores>(signals), CoreChange::kRelease);
  signals.busy = 0.75;
  EXPECT_EQ(once<UtilRangeCores>(signals), CoreChange::kKeep);
  signals.busy = 0.95;
  EXPECT_EQ(once<UtilRangeCores>(signals), CoreChange::kKeep);
  signals.busy = 0.96;
  EXPECT_EQ(once<UtilRangeCores>(signals), CoreChange::kGrant);
}

TEST(DelayRangeCores, keeps_the_mean_delay_in_its_range) {
  CoreSignals signals = quiet(4);
  signals.mean_delay = Nanos(499);
  EXPECT_EQ(once<DelayRangeCores>(signals), CoreChange::kRelease);
  signals.mean_delay = Nanos(500);
  EXPECT_EQ(once<DelayRangeCores>(signals), CoreChange::kKeep);
  signals.mean_delay = Nanos(1000);
  EXPECT_EQ(once<DelayRangeCores>(signals), CoreChange::kKeep);
  signals.mean_delay = Nanos(1001);
  EXPECT_EQ(once<DelayRangeCores>(signals), CoreChange::kGrant);
}

TEST(RangeCores, with_pause_they_let_an_interval_pass_after_a_grant_and_after_a_release) {
  const UtilRangeCores cores({.pause = true});
  UtilRangeCores::Controller controller;
  CoreSignals signals = quiet(4);
  signals.busy = 0.96;
  EXPECT_EQ(cores.change(controller, signals), CoreChange::kGrant);
  EXPECT_EQ(cores.change(controller, signals), CoreChange::kKeep);
  EXPECT_EQ(cores.change(controller, signals), CoreChange::kGrant);
  signals.busy = 0.74;
  EXPECT_EQ(cores.change(controller, signals), CoreChange::kRelease);
  EXPECT_EQ(cores.change(controller, signals), CoreChange::kKeep);
  EXPECT_EQ(cores.change(controller, signals), CoreChange::kRelease);
}

TEST(RangeCores, without_a_threshold_no_request_that_waits_calls_for_a_core) {
  CoreSignals signals = with_delay(Nanos::micros(100));
  signals.busy = 0.9;
  UtilRangeCores::Controller controller;
  EXPECT_EQ(UtilRangeCores({}).change(controller, signals), CoreChange::kGrant);
  EXPECT_EQ(UtilRangeCores({.threshold = Nanos()}).change(controller, signals),
            CoreChange::kKeep);
  signals.parked_has_work = true;
  EXPECT_EQ(UtilRangeCores({.threshold = Nanos()}).change(controller, signals),
            CoreChange::kGrant);
}

TEST(RangeCores, their_cores_do_not_park_by_themselves_and_one_is_left) {
  EXPECT_EQ(after<UtilRangeCores>(Nanos::seconds(1)), IdleAction::kPoll);
  EXPECT_EQ(after<DelayRangeCores>(Nanos::seconds(1)), IdleAction::kPoll);
  CoreSignals signals = quiet(1);
  signals.busy = 0;
  signals.mean_delay = Nanos();
  EXPECT_EQ(once<UtilRangeCores>(signals), CoreChange::kKeep);
  EXPECT_EQ(once<DelayRangeCores>(signals), CoreChange::kKeep);
}

}  // namespace
}  // namespace rubato::overload
