// SPDX-License-Identifier: Apache-2.0
#include "cli/knobs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/option_text.h"
#include "policy/all.h"

namespace rubato::cli {
namespace {

using Values = std::vector<std::string>;

const Knob* find(const std::vector<Knob>& knobs, const std::string& name) {
  const auto found =
      std::find_if(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.name == name; });
  return found == knobs.end() ? nullptr : &*found;
}

TEST(Knobs, times_and_numbers_are_tried_around_their_default) {
  const std::vector<Knob> ps = knobs_of("ps");
  ASSERT_EQ(ps.size(), 1u);
  EXPECT_EQ(ps[0].standard, "10us");
  EXPECT_EQ(ps[0].alternatives, (Values{"2.5us", "5us", "20us", "40us"}));
  const std::vector<Knob> darc = knobs_of("darc");
  ASSERT_NE(find(darc, "slowdown"), nullptr);
  EXPECT_EQ(find(darc, "slowdown")->alternatives, (Values{"2.5", "5", "20", "40"}));
}

TEST(Knobs, what_is_out_of_range_or_the_same_is_left_out) {
  const std::vector<Knob> jbsq = knobs_of("jbsq");  // k of 2, at least 1
  EXPECT_EQ(find(jbsq, "k")->alternatives, (Values{"1", "4", "8"}));
  const std::vector<Knob> darc = knobs_of("darc");  // delta of 1.2, at least 1
  EXPECT_EQ(find(darc, "delta")->alternatives, (Values{"2.4", "4.8"}));
}

TEST(Knobs, flags_are_tried_the_other_way_and_zeros_left_alone) {
  const std::vector<Knob> synergy = knobs_of("synergy");
  EXPECT_EQ(find(synergy, "stealing")->alternatives, Values{"off"});
  EXPECT_EQ(find(synergy, "fixed_quantum"), nullptr);
  EXPECT_TRUE(knobs_of("fcfs").empty());
}

TEST(Knobs, every_value_of_every_policy_is_one_that_it_takes) {
  for_each_policy([]<class P>(std::type_identity<P>) {
    for (const Knob& knob : knobs_of(P::kName)) {
      typename P::Config config{};
      EXPECT_TRUE(set_option<P>(config, knob.name, knob.standard).ok()) << knob.name;
      for (const std::string& value : knob.alternatives) {
        EXPECT_NE(value, knob.standard);
        EXPECT_TRUE(set_option<P>(config, knob.name, value).ok()) << knob.name << "=" << value;
      }
    }
  });
}

TEST(Knobs, a_default_is_not_a_setting) {
  const Knob knob = knobs_of("ps").front();
  const sim::Settings set = with_knob({}, knob, "5us");
  EXPECT_EQ(set, (sim::Settings{{"quantum", "5us"}}));
  EXPECT_EQ(value_of(set, knob), "5us");
  EXPECT_EQ(with_knob(set, knob, "20us"), (sim::Settings{{"quantum", "20us"}}));
  EXPECT_EQ(with_knob(set, knob, knob.standard), sim::Settings{});
  EXPECT_EQ(value_of({}, knob), "10us");
}

}  // namespace
}  // namespace rubato::cli
