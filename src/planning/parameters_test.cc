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

constexpr TimeRange kTimes = {Nanos::micros(25), Nanos::micros(400)};

std::vector<Parameter> parameters_of(const std::string& policy) {
  return planning::parameters_of(policy, kTimes);
}

TEST(Parameters, times_are_tried_over_those_of_the_workload_and_numbers_around_their_default) {
  const std::vector<Parameter> ps = parameters_of("ps");
  ASSERT_EQ(ps.size(), 1u);
  EXPECT_EQ(ps[0].default_value, "10us");
  EXPECT_EQ(ps[0].alternatives,
            (Values{"25us", "50us", "100us", "200us", "400us"}));
  const std::vector<Parameter> darc = parameters_of("darc");
  ASSERT_NE(find(darc, "slowdown"), nullptr);
  EXPECT_EQ(find(darc, "slowdown")->alternatives,
            (Values{"1.25", "2.5", "5", "20", "40", "80"}));
}

TEST(Parameters, a_quantum_begins_within_the_times_of_the_workload) {
  EXPECT_EQ(start_of("ps", kTimes), (sim::Settings{{"quantum", "25us"}}));
  EXPECT_EQ(start_of("ps", {Nanos::micros(2), Nanos::micros(400)}), sim::Settings{});
  EXPECT_EQ(start_of("synergy", kTimes), sim::Settings{});
}

TEST(Parameters, the_times_of_a_workload_reach_beyond_its_services_but_not_below_a_preemption) {
  sim::Setup setup;
  setup.workload.rate = 1000;
  setup.workload.mixes.push_back(parse_mix("short:100us:90,long:10ms:10").value());
  EXPECT_EQ(times_of(setup).least, Nanos::micros(25));
  EXPECT_EQ(times_of(setup).most, Nanos::millis(40));
  setup.costs.preemption.receive = {Nanos::micros(70), Nanos::micros(70)};
  setup.costs.preemption.done = {Nanos::micros(10), Nanos::micros(10)};
  EXPECT_EQ(times_of(setup).least, Nanos::micros(80));
}

TEST(Parameters, what_is_out_of_range_or_the_same_is_left_out) {
  const std::vector<Parameter> jbsq = parameters_of("jbsq");  // k of 2, at least 1
  EXPECT_EQ(find(jbsq, "k")->alternatives, (Values{"1", "4", "8", "16"}));
  const std::vector<Parameter> darc = parameters_of("darc");  // delta of 1.2, at least 1
  EXPECT_EQ(find(darc, "delta")->alternatives, (Values{"2.4", "4.8", "9.6"}));
}

TEST(Parameters, flags_are_tried_the_other_way_and_zeros_are_times_or_left_alone) {
  const std::vector<Parameter> synergy = parameters_of("synergy");
  EXPECT_EQ(find(synergy, "stealing")->alternatives, Values{"off"});
  ASSERT_NE(find(synergy, "fixed_quantum"), nullptr);
  EXPECT_EQ(find(synergy, "fixed_quantum")->alternatives.front(), "25us");
  EXPECT_EQ(find(parameters_of("sbb"), "victims"), nullptr);
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
