// SPDX-License-Identifier: Apache-2.0
//
// The options of `rubato sim`, and the simulated runs that they stand for; those that say what is
// simulated are also of other commands. Main thread, at start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "cli/contenders.h"
#include "cli/slo.h"
#include "sched/options.h"
#include "sim/setup.h"
#include "sim/simulation.h"
#include "sim/trace.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rubato::cli {

// When a request is late: after so many mean services, or else after a time.
struct OutcomesLimit {
  double services = 0;
  Nanos time;
  bool given() const { return services > 0 || time > Nanos(); }
};

struct SimOptions {
  static constexpr double kDefaultLoad = 0.7;

  SimOptions() { scheduler.workers = setup.workers; }

  std::vector<std::string> policies;
  bool compare = false;  // a table of all policies, even if there is one
  std::vector<Setting> settings;
  std::vector<Contender> contenders;  // both together, after finish_sim_options
  SchedulerOptions scheduler;  // as `rubato serve` has them; but for policies and their settings
  sim::Setup setup;  // of the first run: complete after finish_sim_options
  bool requests_given = false;
  std::string workload = "extreme-bimodal";
  std::string arrivals = "poisson";  // of a profile "profile", unless they are given
  bool arrivals_given = false;
  bool flows_given = false;
  std::vector<std::string> phases;  // as written, for the report
  std::string misclassify;          // likewise
  std::string recording;            // file; "" = none
  std::string costs = "ideal";

  // One run per load, policy and seed. A rate, when positive, replaces the loads. Without either,
  // what comes with recorded times or from a profile keeps its own rate.
  std::vector<double> loads = {kDefaultLoad};
  double rate = 0;
  bool load_given = false;
  bool sweep = false;  // --loads: one row per load, even if there is one
  uint32_t seeds = 0;  // 0 = not given; at least 1 after finish_sim_options
  uint32_t threads = 1;

  Slo slo;
  bool find_max = false;  // instead of `loads`: the highest that meets the SLO
  double max_load = 1;
  double precision = 0.01;
  OutcomesLimit outcomes;  // cli/sim_outcomes.h
  sim::ElasticSetup elastic;  // its clients, see cli/sim_elastic.h
  bool with_sessions = false;

  std::string json_file;  // "" = none, "-" = stdout
  bool no_wall = false;
  bool explain = false;
  std::string trace_file;
  sim::Trace::Limits trace_limits;
  Nanos trace_for = Nanos::max();

  std::vector<std::pair<std::string, std::string>> notes;  // for the report's settings
};

// Adds options to `app`; `options` must outlive the parse, here and below.
// What is simulated, how often and on how many threads, but for policy, workload and load.
void add_model_options(CLI::App& app, SimOptions& options);
CLI::Option* add_rate_option(CLI::App& app, SimOptions& options);
CLI::Option* add_slo_option(CLI::App& app, Slo& slo, const std::string& help);

// All options of `rubato sim`.
void add_sim_options(CLI::App& app, SimOptions& options);

// After the parse: checks that workload and SLO fit each other, and fills the setup. Throws for
// options that do not fit.
void finish_model(SimOptions& options);

// After the parse: what only the options together can tell. Throws for options that do not fit.
void finish_sim_options(SimOptions& options);

// Requires finished options.
double capacity_rps(const SimOptions& options);  // of all workers, in requests per second
sim::Setup setup_at(const SimOptions& options, double load, uint32_t seed_index);

}  // namespace rubato::cli
