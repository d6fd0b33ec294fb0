// SPDX-License-Identifier: Apache-2.0
#include "planning/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/option_text.h"
#include "policy/all.h"

namespace rubato::planning {
namespace {

using Values = std::vector<std::string>;

const Parameter* find(const std::vector<Parameter>& parameters, const std::string& name) {
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const Parameter& p) { return p.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

TEST(Parameters, times_and_numbers_are_tried_around_their_default) {
  const std::vector<Parameter> ps = parameters_of("ps");
  ASSERT_EQ(ps.size(), 1u);
  EXPECT_EQ(ps[0].default_value, "10us");
  EXPECT_EQ(ps[0].alternatives, (Values{"2.5us", "5us", "20us", "40us"}));
  const std::vector<Parameter> darc = parameters_of("darc");
  ASSERT_NE(find(darc, "slowdown"), nullptr);
  EXPECT_EQ(find(darc, "slowdown")->alternatives, (Values{"2.5", "5", "20", "40"}));
}

TEST(Parameters, what_is_out_of_range_or_the_same_is_left_out) {
  const std::vector<Parameter> jbsq = parameters_of("jbsq");  // k of 2, at least 1
  EXPECT_EQ(find(jbsq, "k")->alternatives, (Values{"1", "4", "8"}));
  const std::vector<Parameter> darc = parameters_of("darc");  // delta of 1.2, at least 1
  EXPECT_EQ(find(darc, "delta")->alternatives, (Values{"2.4", "4.8"}));
}

TEST(Parameters, flags_are_tried_the_other_way_and_zeros_left_alone) {
  const std::vector<Parameter> synergy = parameters_of("synergy");
  EXPECT_EQ(find(synergy, "stealing")->alternatives, Values{"off"});
  EXPECT_EQ(find(synergy, "fixed_quantum"), nullptr);
  EXPECT_TRUE(parameters_of("fcfs").empty());
}

TEST(Parameters, every_value_of_every_policy_is_one_that_it_takes) {
  for_each_policy([]<class P>(std::type_identity<P>) {
    for (const Parameter& parameter : parameters_of(P::kName)) {
      typename P::Config config{};
      EXPECT_TRUE(set_option<P>(config, parameter.name, parameter.default_value).ok())
          << parameter.name;
      for (const std::string& value : parameter.alternatives) {
        EXPECT_NE(value, parameter.default_value);
        EXPECT_TRUE(set_option<P>(config, parameter.name, value).ok())
            << parameter.name << "=" << value;
      }
    }
  });
}

TEST(Parameters, a_default_is_not_a_setting) {
  const Parameter parameter = parameters_of("ps").front();
  const sim::Settings set = with_parameter({}, parameter, "5us");
  EXPECT_EQ(set, (sim::Settings{{"quantum", "5us"}}));
  EXPECT_EQ(value_of(set, parameter), "5us");
  EXPECT_EQ(with_parameter(set, parameter, "20us"), (sim::Settings{{"quantum", "20us"}}));
  EXPECT_EQ(with_parameter(set, parameter, parameter.default_value), sim::Settings{});
  EXPECT_EQ(value_of({}, parameter), "10us");
}

}  // namespace
}  // namespace rubato::planning
