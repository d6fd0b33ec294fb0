// SPDX-License-Identifier: Apache-2.0
//
// The options of `rubato sim`, and the simulated runs that they stand for. Main thread, at start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "sim/setup.h"
#include "sim/simulation.h"
#include "sim/trace.h"

namespace CLI {
class App;
}

namespace rubato::cli {

struct SimOptions {
  static constexpr double kDefaultLoad = 0.7;

  std::string policy;
  sim::Settings settings;
  sim::Setup setup;  // of the first run: complete after finish_sim_options
  bool requests_given = false;
  std::string workload = "extreme-bimodal";
  std::string arrivals = "poisson";
  std::vector<std::string> phases;  // as written, for the report
  std::string misclassify;          // likewise
  std::string recording;            // file; "" = none
  std::string costs = "ideal";

  // One run per load and seed. A rate, when positive, replaces the loads. Without either, what
  // comes with recorded times keeps its own rate.
  std::vector<double> loads = {kDefaultLoad};
  double rate = 0;
  bool load_given = false;
  bool sweep = false;  // --loads: one row per load, even if there is one
  uint32_t seeds = 1;
  uint32_t threads = 1;

  std::string json_file;  // "" = none, "-" = stdout
  bool no_wall = false;
  bool explain = false;
  std::string trace_file;
  sim::Trace::Limits trace_limits;
  Nanos trace_for = Nanos::max();

  std::vector<std::pair<std::string, std::string>> notes;  // for the report's settings
};

// Adds the options to `app`; `options` must outlive the parse.
void add_sim_options(CLI::App& app, SimOptions& options);

// After the parse: what only the options together can tell. Throws for options that do not fit.
void finish_sim_options(SimOptions& options);

// Requires finished options.
sim::Setup setup_at(const SimOptions& options, double load, uint32_t seed_index);

}  // namespace rubato::cli
