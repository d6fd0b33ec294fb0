// SPDX-License-Identifier: Apache-2.0
#include "sched/group_shares.h"

#include <gtest/gtest.h>

#include <array>

namespace rubato::sched {
namespace {

constexpr Nanos kSlice = Nanos::micros(10);

// Serves slices of groups that always wait, as a core does, and counts their service.
class GroupSharesTest : public ::testing::Test {
 protected:
  using Service = std::array<int64_t, limits::kGroups>;

  // `among`: the groups that have work; one that gets no `slice` of its own gets kSlice.
  void serve(GroupShares& shares, uint32_t among, uint32_t times) {
    for (uint32_t group = 1; group < shares.count(); ++group) {
      if ((among & GroupShares::bit(group)) != 0) shares.waits(group);
    }
    for (uint32_t i = 0; i < times; ++i) {
      const uint32_t group = shares.first(among);
      shares.begins(group);
      const Nanos slice = slices_[group] == Nanos() ? kSlice : slices_[group];
      shares.charge(group, slice);
      service_[group] += slice.count();
      total_ += slice.count();
    }
    for (uint32_t group = 1; group < shares.count(); ++group) shares.is_empty(group);
  }
  double share(uint32_t group) const {
    return static_cast<double>(service_[group]) / static_cast<double>(total_);
  }
  void forget() {
    service_ = {};
    total_ = 0;
  }

  static constexpr uint32_t kA = kFirstOwnGroup;
  static constexpr uint32_t kB = kFirstOwnGroup + 1;
  static constexpr uint32_t kPolicyBit = GroupShares::bit(kPolicyGroup);
  static constexpr uint32_t kABit = GroupShares::bit(kA);
  static constexpr uint32_t kBBit = GroupShares::bit(kB);

  std::array<Nanos, limits::kGroups> slices_{};
  Service service_{};
  int64_t total_ = 0;
};

TEST_F(GroupSharesTest, groups_that_have_work_share_by_weight) {
  GroupShares shares({.policy = 100, .own = {300, 600}});
  serve(shares, kPolicyBit | kABit | kBBit, 1000);
  EXPECT_NEAR(share(kPolicyGroup), 0.1, 0.002);
  EXPECT_NEAR(share(kA), 0.3, 0.002);
  EXPECT_NEAR(share(kB), 0.6, 0.002);
}

TEST_F(GroupSharesTest, the_time_counts_and_not_the_turns) {
  GroupShares shares({.policy = 100, .own = {100}});
  slices_[kA] = Nanos::millis(5);
  serve(shares, kPolicyBit | kABit, 50'000);
  EXPECT_NEAR(share(kA), 0.5, 0.02);
}

TEST_F(GroupSharesTest, idle_shares_are_lent_and_not_saved_up) {
  GroupShares shares({.policy = 100, .own = {100, 200}});
  serve(shares, kABit, 1000);
  EXPECT_DOUBLE_EQ(share(kA), 1.0);
  forget();
  serve(shares, kABit | kBBit, 3);
  EXPECT_EQ(service_[kA], kSlice.count()) << "the group that comes back has no debt to be paid";
  forget();
  serve(shares, kABit | kBBit, 3000);
  EXPECT_NEAR(share(kB), 2.0 / 3, 0.002);
}

TEST_F(GroupSharesTest, a_group_runs_empty_once_after_each_time_it_was_served) {
  GroupShares shares({.own = {100, 100}});
  EXPECT_FALSE(shares.ran_empty(kA));
  serve(shares, kPolicyBit | kABit, 2);
  EXPECT_TRUE(shares.ran_empty(kA));
  EXPECT_FALSE(shares.ran_empty(kA));
  EXPECT_TRUE(shares.ran_empty(kPolicyGroup));
  EXPECT_FALSE(shares.ran_empty(kB));
}

TEST_F(GroupSharesTest, a_group_that_has_just_come_is_next) {
  GroupShares shares({.policy = 10'000, .own = {1}});
  serve(shares, kPolicyBit, 1000);
  EXPECT_EQ(shares.first(kPolicyBit | kABit), kA);
}

TEST_F(GroupSharesTest, the_control_plane_has_an_eighth_whatever_the_others_weigh) {
  GroupShares shares({.policy = 10'000, .own = {10'000, 700, 3}});
  const uint32_t all = shares.all_but_policy() | kPolicyBit;
  serve(shares, all, 100'000);
  EXPECT_NEAR(share(kControlGroup), 0.125, 0.002);
}

TEST_F(GroupSharesTest, one_that_runs_gives_way_once_it_has_had_its_share) {
  GroupShares shares({.policy = 100, .own = {300}});
  serve(shares, kPolicyBit, 1);
  shares.waits(kA);
  shares.begins(kPolicyGroup);
  shares.charge(kPolicyGroup, kSlice);
  shares.begins(kA);
  EXPECT_FALSE(shares.is_due(kPolicyGroup, kA, kSlice * int64_t{3} - Nanos(1)));
  EXPECT_TRUE(shares.is_due(kPolicyGroup, kA, kSlice * int64_t{3} + Nanos(100)));
}

TEST_F(GroupSharesTest, no_service_is_too_long_and_no_weight_too_small) {
  GroupShares shares({.policy = 1, .own = {1, kMostWeight}});
  slices_[kPolicyGroup] = slices_[kA] = Nanos::seconds(100'000);
  serve(shares, kPolicyBit | kABit | kBBit, 1000);
  slices_ = {};
  forget();
  serve(shares, kPolicyBit | kABit, 1000);
  EXPECT_NEAR(share(kA), 0.5, 0.002);
}

}  // namespace
}  // namespace rubato::sched
