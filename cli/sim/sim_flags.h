// SPDX-License-Identifier: Apache-2.0
//
// The options of `rubato sim`, and the simulated runs that they describe; other commands also have
// the options of the model. Main thread, at start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "cli/common/command_line.h"
#include "metrics/trace.h"
#include "planning/experiment.h"
#include "sched/options.h"
#include "sim/setup.h"
#include "sim/simulation.h"

namespace rubato::cli {

// Candidates, setup, loads and notes are complete after finish_sim_options.
struct SimOptions : planning::Experiment {
  SimOptions() {
    seeds = 0;  // not given
    scheduler.workers = setup.workers;
  }

  std::vector<std::string> policies;
  bool compare = false;  // a table of all policies, even if there is one
  std::vector<planning::Setting> settings;
  SchedulerOptions scheduler;  // as `rubato serve` has them; but for policies and their settings
  bool requests_given = false;
  planning::Precision wanted;              // --until; empty = not given
  uint64_t most_requests = 20'000'000;     // of a run that ends when it knows enough
  std::string workload = "extreme-bimodal";
  std::string arrivals = "poisson";  // of a profile "profile", unless they are given
  bool arrivals_given = false;
  bool flows_given = false;
  std::vector<std::string> phases;  // as written, for the report
  std::string misclassify;          // likewise
  std::string recording;            // file; "" = none
  std::string costs = "ideal";

  // Without a load or rate, requests with recorded times or from a profile keep their own rate.
  bool load_given = false;
  bool sweep = false;  // --loads: one row per load, even if there is one
  bool find_max = false;  // instead of `loads`: the highest that meets the SLO
  sim::ElasticSetup elastic;  // its clients, see cli/sim/elastic_flags.h
  bool with_sessions = false;

  std::string json_file;  // "" = none, "-" = stdout
  std::string hdr_file;   // likewise
  bool no_wall = false;
  bool explain = false;
  std::string trace_file;
  Trace::Limits trace_limits;
  Nanos trace_for = Nanos::max();
};

// Adds options to `command`; `options` must outlive the parse, here and below.
// The options of the model, the number of runs and threads; not policy, workload and load.
void add_model_options(CommandLine& command, SimOptions& options);
Option add_rate_option(CommandLine& command, SimOptions& options);
Option add_slo_option(CommandLine& command, planning::Slo& slo, const std::string& help);

// All options of `rubato sim`.
void add_sim_options(CommandLine& command, SimOptions& options);

// After the parse: checks that workload and SLO fit each other, and fills the setup. Throws for
// options that do not fit.
void finish_model(SimOptions& options);

// After the parse: the checks that need several options. Throws for options that do not fit.
void finish_sim_options(SimOptions& options);

}  // namespace rubato::cli
