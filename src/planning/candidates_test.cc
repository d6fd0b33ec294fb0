// SPDX-License-Identifier: Apache-2.0
#include "planning/candidates.h"

#include <gtest/gtest.h>

namespace rubato::planning {
namespace {

using Names = std::vector<std::string>;

std::vector<Setting> settings(const Names& texts) {
  std::vector<Setting> parsed;
  for (const std::string& text : texts) parsed.push_back(parse_setting(text).value());
  return parsed;
}

std::string error_of(const Names& policies, const Names& texts) {
  const auto candidates = candidates_of(policies, settings(texts));
  return candidates.ok() ? "" : candidates.error();
}

TEST(Candidates, a_setting_for_an_alias_is_one_for_the_policy_itself) {
  EXPECT_EQ(parse_setting("rss.quantum=1us").value().policy, "fcfs");
}

TEST(Candidates, a_setting_goes_to_those_that_have_it) {
  const auto candidates =
      candidates_of({"ps", "fcfs", "shinjuku"}, settings({"quantum=7us", "window=500"})).value();
  EXPECT_EQ(candidates[0].settings, (sim::Settings{{"quantum", "7us"}}));
  EXPECT_EQ(candidates[1].settings, sim::Settings{});
  EXPECT_EQ(candidates[2].settings, (sim::Settings{{"quantum", "7us"}, {"window", "500"}}));
}

TEST(Candidates, a_policy_behind_a_pipe_has_no_settings) {
  EXPECT_EQ(error_of({"pipe:3,4"}, {"quantum=7us"}),
            "pipe:3,4 has no options: the program behind the pipe has its own");
  EXPECT_EQ(error_of({"pipe:3,4"}, {"pipe:3,4.quantum=7us"}),
            "pipe:3,4 has no options: the program behind the pipe has its own");
}

TEST(Candidates, a_setting_of_one_policy_wins_over_that_of_all_wherever_it_stands) {
  const auto candidates =
      candidates_of({"ps", "shinjuku"}, settings({"ps.quantum=3us", "quantum=7us"})).value();
  EXPECT_EQ(candidates[0].settings, (sim::Settings{{"quantum", "3us"}}));
  EXPECT_EQ(candidates[1].settings, (sim::Settings{{"quantum", "7us"}}));
  const auto repeated = candidates_of({"ps"}, settings({"quantum=1us", "quantum=2us"})).value();
  EXPECT_EQ(repeated[0].settings, (sim::Settings{{"quantum", "2us"}}));
}

TEST(Candidates, a_setting_that_another_one_voids_is_refused) {
  EXPECT_EQ(error_of({"synergy"}, {"reserve=on", "wait_queue=off"}),
            "reserve has no effect with wait_queue=off");
  EXPECT_EQ(error_of({"ps", "synergy"}, {"reserve=on", "synergy.wait_queue=off"}),
            "of synergy: reserve has no effect with wait_queue=off");
  EXPECT_EQ(error_of({"darc"}, {"literal=on", "hold=0.5"}), "hold has no effect with literal=on");
}

TEST(Candidates, settings_that_fit_nobody_are_refused) {
  EXPECT_EQ(error_of({"ps", "fcfs"}, {"quantm=1us"}),
            "none of ps, fcfs has an option 'quantm'; did you mean quantum?");
  EXPECT_EQ(error_of({"ps", "fcfs"}, {"synergy.levels=2"}),
            "synergy.levels: synergy is not among ps, fcfs");
  EXPECT_NE(error_of({"ps", "fcfs"}, {"fcfs.quantum=1us"}).find("fcfs has no option 'quantum'"),
            std::string::npos);
  EXPECT_NE(error_of({"ps", "fcfs"}, {"quantum=0"}).find("of ps: quantum takes a time"),
            std::string::npos);
  EXPECT_NE(error_of({"fcfs"}, {"levels=1"}).find("fcfs has no option 'levels'"),
            std::string::npos);
}

TEST(Candidates, a_setting_is_a_name_and_a_value) {
  EXPECT_FALSE(parse_setting("quantum").ok());
  EXPECT_FALSE(parse_setting("=1us").ok());
  EXPECT_FALSE(parse_setting("nonsense.quantum=1us").ok());
  EXPECT_EQ(parse_setting("darc.drift=0.5").value().value, "0.5");
}

}  // namespace
}  // namespace rubato::planning
