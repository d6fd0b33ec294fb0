// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/max_load_output.h"

#include <gtest/gtest.h>

namespace rubato::cli {
namespace {

using planning::MaxLoad;

// Three seeds of one candidate.
std::vector<MaxLoad> results_of(const std::vector<double>& loads, uint32_t at_most) {
  MaxLoad max;
  max.candidate = {"cfcfs", {}};
  max.loads = loads;
  max.load = sim::estimate(loads);
  max.at_most = at_most;
  return {max};
}

SimOptions options() {
  SimOptions options;
  options.setup.workers = 1;
  options.setup.workload.mixes = {parse_mix("fixed-1").value()};
  options.seeds = 3;
  return options;
}

TEST(MaxTable, a_slo_that_nothing_meets_is_said_to_be_missed_at_the_least_load) {
  const std::string table = max_table(options(), results_of({0, 0, 0}, 0));
  EXPECT_NE(table.find("missed even at load 0.01"), std::string::npos) << table;
}

TEST(MaxTable, a_slo_that_is_met_at_the_greatest_load_is_said_to_be_a_bound) {
  SimOptions asked = options();
  asked.max_load = 0.75;
  const std::string table = max_table(asked, results_of({0.75, 0.75, 0.75}, 3));
  EXPECT_NE(table.find(">= 0.750"), std::string::npos) << table;
}

}  // namespace
}  // namespace rubato::cli
