// SPDX-License-Identifier: Apache-2.0
//
// The figures of a world that differ from run to run, and how well one run knows them, by the
// pointer of each in the JSON report. Pure functions over plain values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fleet/call_tally.h"
#include "fleet/world.h"
#include "sim/report.h"

namespace rubato::fleet {

// A figure of a group of clients that is a ratio of sums.
struct CallRatio {
  const char* name;
  uint64_t CallCounts::* sum;
  uint64_t CallCounts::* per;  // null = a second
};
inline constexpr CallRatio kCallRatios[] = {
    {"offered_rps", &CallCounts::calls, nullptr},
    {"achieved_rps", &CallCounts::served, nullptr},
    {"served_share", &CallCounts::served, &CallCounts::calls},
    {"failed_share", &CallCounts::failed, &CallCounts::calls},
    {"unfinished_share", &CallCounts::unfinished, &CallCounts::calls},
    {"attempts_per_request", &CallCounts::attempts, &CallCounts::requests},
    {"retries_per_request", &CallCounts::retries, &CallCounts::requests},
    {"hedges_per_request", &CallCounts::hedges, &CallCounts::requests},
};
// 0 of nothing.
double figure_of(const CallRatio& ratio, const CallCounts& counts, Nanos time);

// Of several servers, over the measured time.
struct ServerGroupOutcome {
  std::string name;
  double busy_share = 0;  // the mean of its servers
};
std::vector<ServerGroupOutcome> server_groups(const WorldSpec& spec, const WorldOutcome& outcome);

// Calls f(path, figure). A latency of nobody is NaN.
void for_each_figure(const WorldSpec& spec, const WorldOutcome& run,
                     const std::function<void(const std::string&, double)>& f);

// Half of the 95 % intervals from the batches of one run; infinite where it does not tell.
std::vector<sim::Confidence> intervals_of(const WorldSpec& spec, const WorldOutcome& run);

}  // namespace rubato::fleet
