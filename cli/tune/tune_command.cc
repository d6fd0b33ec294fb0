// SPDX-License-Identifier: Apache-2.0
//
// `rubato tune`: the cheapest configuration that meets an SLO in the simulator, as a file that
// `rubato serve --config` reads. docs/PLANNING.md shows it at work.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/check.h"
#include "base/limits.h"
#include "cli/common/command_registry.h"
#include "cli/common/output_file.h"
#include "cli/common/progress.h"
#include "cli/common/scheduler_flags.h"
#include "cli/common/value_flags.h"
#include "cli/sim/sim_flags.h"
#include "cli/sim/workload_flags.h"
#include "cli/tune/tune_output.h"
#include "planning/tune_search.h"
#include "planning/tune_trials.h"
#include "policy/catalog.h"
#include "sim/policy_names.h"

namespace rubato::cli {
namespace {

using namespace planning;

constexpr uint32_t kSeeds = 5;
// The default bounds on the requests of a run. The warm-up is long enough for the policies to learn
// service times (the default window of darc is 50 000 requests), since a server runs longer than
// that; where percentiles need more requests than the upper bound, a warning says so.
constexpr uint64_t kLeastRequests = 300'000;
constexpr uint64_t kMostRequests = 2'000'000;
constexpr double kWarmup = 0.2;
constexpr uint64_t kMostRuns = 1'000'000;

struct TuneOptions {
  SimOptions sim;
  std::string profile;
  uint32_t most_workers = 16;
  double most_load = 0.9;
  uint64_t most_runs = 20'000;
  std::vector<std::string> policies;
  std::string output = "-";
};

std::atomic<bool> stop_requested{false};
void request_stop(int) { stop_requested.store(true, std::memory_order_relaxed); }

bool serves_live(const std::string& policy) {
  const PolicyInfo* info = find_policy(policy);
  return info != nullptr && info->serves_live;
}

Status take_policies(const std::string& text, std::vector<std::string>& policies) {
  if (Status parsed = sim::parse_policies(text, policies); !parsed) return parsed;
  if (text == "all") std::erase_if(policies, [](const auto& name) { return !serves_live(name); });
  for (const std::string& policy : policies) {
    if (!serves_live(policy)) return Error{policy + " is simulated only: no server can run it"};
  }
  return Done{};
}

// The checks that need several options together.
void finish_options(const CommandLine& command, TuneOptions& o) {
  if (!o.profile.empty()) {
    const Result<TrafficProfile> profile = read_profile(o.profile);
    if (!profile) bad_value("--from-profile", profile.error());
    o.sim.workload = "profile:" + o.profile;
  } else if (!command.given("--workload")) {
    bad_value("--workload", "is required, or --from-profile");
  }
  if (!o.sim.slo.given()) bad_value("--slo", "is required: what the servers are to meet");
  if (o.policies.empty()) RUBATO_CHECK(take_policies("all", o.policies).ok());
  finish_model(o.sim);
  if (o.sim.rate <= 0) bad_value("--rate", "is required: the requests per second to serve");
  const sim::Setup& setup = o.sim.setup;
  if (o.sim.requests_given || recorded_requests(setup.workload) > 0) return;
  const uint64_t wanted = requests_for(o.sim.slo, types_of(setup.workload), setup.warmup);
  o.sim.setup.requests = std::clamp(wanted, kLeastRequests, kMostRequests);
}

// The number of workers at which the load of the requests not refused is at most --max-load.
uint32_t least_workers(const TuneOptions& o) {
  const SimOptions& sim = o.sim;
  const double busy = sim.rate * mean_service_ns(sim.setup.workload) / 1e9 * (1 - sim.slo.refused);
  return static_cast<uint32_t>(std::clamp(std::ceil(busy / o.most_load - 1e-9), 1.0, 1e9));
}

int write_result(const TuneOptions& o, const TuneSummary& summary) {
  if (!summary.result.met) return fail(tune_failure(o.sim, summary).c_str());
  const std::string thin = thin_evidence(o.sim.slo, *summary.predicted, o.sim.setup.requests);
  if (!thin.empty()) fmt::print(stderr, "rubato: --slo: {}\n", thin);
  if (const std::string warning = learning_warning(summary); !warning.empty()) {
    fmt::print(stderr, "rubato: {}\n", warning);
  }
  if (summary.exhausted) {
    fmt::print(stderr, "rubato: --max-runs ended the search: fewer workers may do\n");
  }
  const Status written = write_text(o.output, tune_config(o.sim, summary));
  return written.ok() ? kDone : fail(written.error().c_str());
}

int run_tune(const CommandLine& command, TuneOptions& o) {
  finish_options(command, o);
  TuneSummary summary;
  summary.least_workers = least_workers(o);
  summary.most_load = o.most_load;
  summary.most_workers = o.most_workers;
  summary.policies = o.policies;
  summary.version = version();
  if (summary.least_workers > o.most_workers) {
    return fail(fmt::format("the work alone takes {} workers at --max-load {:g}; --max-workers is "
                            "{}",
                            summary.least_workers, o.most_load, o.most_workers)
                    .c_str());
  }
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  std::optional<Progress> line(std::in_place, ::isatty(STDERR_FILENO) != 0);
  SimulatedTrials trials(o.sim, o.most_runs, stop_requested, [&line](double runs, uint32_t tried) {
    line->draw(fmt::format("{:.1f} runs; trying {} workers", runs, tried));
  });
  summary.result = tune(trials, {o.policies, times_of(setup_at(o.sim, 0, 0)),
                                 summary.least_workers, o.most_workers});
  line.reset();  // wiped before anything is printed
  if (stop_requested.load()) return fail(sim::kStoppedEarly);
  summary.runs = trials.runs();
  summary.exhausted = trials.exhausted();
  const sim::SimReport* best = trials.report(summary.result.ranking.front().configuration);
  if (best != nullptr) summary.predicted = *best;
  if (best == nullptr && !trials.error().empty()) return fail(trials.error().c_str());
  return write_result(o, summary);
}

constexpr const char* kNotes =
    "\nThe file has policy, settings and number of workers; as comments, what was assumed, what\n"
    "is predicted and the command that gives the prediction again. The SLO is met if the upper\n"
    "end of the 95 % interval meets it. Fewest workers win, then the greatest distance to the\n"
    "limits. Times are tried from a quarter of the shortest service to four times the longest.\n"
    "Exit status: 0 done, 1 nothing meets the SLO, or stopped, or the file could not be written,\n"
    "2 bad arguments.\n";

void add_tune_options(CommandLine& command, TuneOptions& o) {
  o.sim.seeds = kSeeds;
  o.sim.setup.warmup = kWarmup;
  add_slo_option(command, o.sim.slo, "Limits to meet, see below; may be repeated");
  add_rate_option(command, o.sim).description("Requests per second to serve");
  Option profile =
      command.add_text("--from-profile", o.profile,
                       "The workload and its rate, as `rubato serve --profile FILE` wrote them")
          .placeholder("FILE");
  add_count(command, "--max-workers", o.most_workers, 1, limits::kMaxWorkers, "a number of workers",
            "Workers at most");
  add_number(command, "--max-load", o.most_load, 0.01, 1, "a share",
             "Share of the workers' time that the work alone may take: close to 1 a run says "
             "little of the next one");
  command.add_parsed(
      "--policies", "P1,P2,...",
      [&o](const std::string& text) { return take_policies(text, o.policies); },
      "Policies to try; all that a server can run by default")
      .default_text("all");
  add_count(command, "--max-runs", o.most_runs, 1, kMostRuns, "a number of runs",
            "Simulated runs at most");
  command.add_output("--output", o.output, "Where the configuration goes; - is stdout");
  add_flags(command, o.sim.scheduler, kTune);
  add_model_options(command, o.sim);
  command.option("--requests").default_text("as the SLO's percentiles need");
  command.option("--seeds").description(
      "Seeds that give the verdict, after --seed, which chooses the settings; figures are their "
      "means with 95 % confidence");
  add_workload_options(command, o.sim);
  command.option("--workload").default_text("").excludes(profile);
}

void add_tune(CommandLine& command) {
  auto options = std::make_shared<TuneOptions>();
  command.footer(workload_help() + slo_help() + kNotes);
  add_tune_options(command, *options);
  command.action([command, options] { return run_tune(command, *options); });
}

const Command kTune({"", "tune",
                     "Find the cheapest configuration that meets an SLO, in the simulator",
                     add_tune});

}  // namespace
}  // namespace rubato::cli
