// SPDX-License-Identifier: Apache-2.0
//
// The output of `rubato tune`: a configuration file for `rubato serve`, with the assumptions and
// the predictions as comments. Pure functions; safe on every thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/sim/sim_flags.h"
#include "planning/tune_search.h"
#include "sim/report.h"

namespace rubato::cli {

struct TuneSummary {
  planning::TuneResult result;
  std::optional<sim::SimReport> predicted;  // of the first of the ranking
  std::vector<std::string> policies;
  uint32_t least_workers = 1, most_workers = 1;
  double most_load = 1;  // gave the least workers
  uint64_t runs = 0;
  bool exhausted = false;
  std::string version;
};

// The file. Requires a result that meets the SLO.
std::string tune_config(const SimOptions& options, const TuneSummary& summary);

// One line if the policy learns for longer than the runs leave out; else "". Requires a result that
// meets the SLO.
std::string learning_warning(const TuneSummary& summary);

// One line for a result that does not.
std::string tune_failure(const SimOptions& options, const TuneSummary& summary);

// The command that gives the predicted figures again.
std::string sim_command(const SimOptions& options, const planning::Configuration& configuration,
                        uint32_t seeds);

}  // namespace rubato::cli
