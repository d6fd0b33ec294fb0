// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/sim_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "base/name_list.h"
#include "cli/common/scheduler_flags.h"
#include "cli/common/value_flags.h"
#include "cli/sim/elastic_flags.h"
#include "cli/sim/outcomes_flag.h"
#include "cli/sim/timeline_flag.h"
#include "cli/sim/workload_flags.h"
#include "planning/parallel.h"
#include "policy/aliases.h"
#include "sim/piped_policy.h"
#include "sim/policy_names.h"
#include "workload/duration.h"

namespace rubato::cli {

using namespace planning;

namespace {

constexpr uint64_t kMostRequests = 1'000'000'000'000;
constexpr uint32_t kMostSeeds = 10'000;
constexpr uint32_t kFindMaxSeeds = 5;
constexpr uint32_t kMostThreads = 256;
constexpr uint64_t kTraceEvents = 100'000;  // some 9 MB
constexpr uint64_t kMostTraceEvents = 1'000'000'000;
constexpr size_t kMostLoads = 1000;
constexpr double kLowestLoad = 0.001;
constexpr double kHighestLoad = 10;
constexpr double kMostWarmup = 0.9;

Status parse_load(const std::string& text, double& load) {
  const auto parsed = parse_number(text);
  if (!parsed || *parsed < kLowestLoad || *parsed > kHighestLoad) {
    return Error{fmt::format("takes shares of the capacity of {:g} to {:g}, not '{}'", kLowestLoad,
                             kHighestLoad, text)};
  }
  load = *parsed;
  return Done{};
}

// FROM:TO:STEP with both ends, or a list.
Status parse_loads(const std::string& text, std::vector<double>& loads) {
  const bool range = text.find(':') != std::string::npos;
  std::vector<double> numbers;
  for (const std::string& part : split(text, range ? ':' : ',')) {
    double load = 0;
    if (Status parsed = parse_load(part, load); !parsed) return parsed;
    numbers.push_back(load);
  }
  if (range) {
    if (numbers.size() != 3 || numbers[1] < numbers[0]) {
      return Error{"takes FROM:TO:STEP, as 0.1:0.9:0.1, or F,F,...; not '" + text + "'"};
    }
    const double from = numbers[0], step = numbers[2];
    const double count = std::floor((numbers[1] - from) / step + 1e-6) + 1;
    if (count > static_cast<double>(kMostLoads)) {
      return Error{fmt::format("takes at most {} loads, not {:.0f}", kMostLoads, count)};
    }
    numbers.clear();
    // Rounded, so that the third step of 0.1 from 0.1 is 0.3.
    for (int i = 0; i < static_cast<int>(count); ++i) {
      numbers.push_back(std::round((from + i * step) * 1e9) / 1e9);
    }
  }
  if (numbers.empty() || numbers.size() > kMostLoads) {
    return Error{fmt::format("takes 1 to {} loads", kMostLoads)};
  }
  loads = numbers;
  return Done{};
}

void add_policy_options(CommandLine& command, SimOptions& o) {
  Option policy = command.add_parsed(
      "--policy", "NAME",
      [&o](const std::string& text) {
        o.policies = {std::string(policy_called(text))};
        return sim::check_policy(text);
      },
      "Scheduling policy, see `rubato policies`");
  command.add_parsed(
      "--compare", "P1,P2,...",
      [&o](const std::string& text) {
        o.compare = true;
        return sim::parse_policies(text, o.policies);
      },
      "Several policies instead, or all: the same requests for each, one table")
      .excludes(policy);
  command.add_parsed(
      "--set", "NAME=VALUE",
      [&o](const std::string& text) -> Status {
        Result<Setting> setting = parse_setting(text);
        if (!setting) return Error{setting.error()};
        o.settings.push_back(std::move(*setting));
        return Done{};
      },
      "Setting of every policy that has it, or POLICY.NAME=VALUE; may be repeated")
      .repeatable();
}

void add_load_options(CommandLine& command, SimOptions& o) {
  Option load = command.add_parsed(
      "--load", "F",
      [&o](const std::string& text) {
        o.load_given = true;
        return parse_load(text, o.loads.front());
      },
      "Offered load as a share of the capacity, workers / mean service");
  load.default_text("0.7");
  Option rate = add_rate_option(command, o);
  Option loads = command.add_parsed(
      "--loads", "A:B:STEP",
      [&o](const std::string& text) {
        o.sweep = o.load_given = true;
        return parse_loads(text, o.loads);
      },
      "One run per load from A to B, or of the list F,F,...; on all --threads");
  rate.excludes(load);
  loads.excludes(load).excludes(rate);
  Option find_max =
      command
          .add_flag("--find-max", o.find_max,
                    "Find the highest load that meets the --slo, for each of 5 --seeds by "
                    "bisection")
          .excludes(load)
          .excludes(rate)
          .excludes(loads);
  command.add_parsed(
      "--max-load", "F",
      [&o](const std::string& text) { return parse_load(text, o.max_load); },
      "Highest load that --find-max tries; beyond 1 queues grow for as long as a run lasts")
      .default_text("1")
      .needs(find_max);
  add_number(command, "--precision", o.precision, kLowestLoad, 0.5, "a share of the capacity",
             "Step of --find-max")
      .needs(find_max);
}

void add_precision_options(CommandLine& command, SimOptions& o) {
  Option requests = command.option("--requests");
  requests.description("Requests of a run, warm-up included, instead of --until")
      .default_text("as --until needs");
  command.add_parsed(
      "--until", "METRIC=SHARE,...",
      [&o](const std::string& text) { return parse_precision(text, o.wanted); },
      "Run until half of the 95 % interval of these figures is at most that share of them")
      .default_text("5% of the --slo's, or p99=5%")
      .repeatable()
      .excludes(requests);
  add_count(command, "--max-requests", o.most_requests, 1, kMostRequests, "a number of requests",
            "Requests of a run at most, if it is not precise or steady before")
      .excludes(requests);
}

void add_report_options(CommandLine& command, SimOptions& o) {
  command.add_output("--json", o.json_file, "Write the report as JSON; - is stdout");
  command.add_output("--hdr", o.hdr_file,
                   "Write latencies as an HdrHistogram log, a tag for each type; - is stdout");
  command.add_flag("--no-wall", o.no_wall,
                   "Leave out of the JSON what the simulating machine decides (wall_s is 0, "
                   "machine is blank), so that equal runs give equal bytes");
  command.add_flag("--explain", o.explain,
                   "First print every modelling assumption in force, last what the policy has "
                   "decided of types and workers");
  command.add_output("--trace", o.trace_file,
                   "Write what every worker did, for ui.perfetto.dev or chrome://tracing; one run");
  o.trace_limits.events = kTraceEvents;
  add_count(command, "--trace-events", o.trace_limits.events, 1, kMostTraceEvents,
            "a number of events", "Events in the trace at most; the first are kept");
  auto from = [&o](const std::string& text) -> Status {
    const auto parsed = parse_duration(text);
    if (!parsed) return Error{"takes microseconds, or a time like 10ms, not '" + text + "'"};
    o.trace_limits.from = Instant() + *parsed;
    return Done{};
  };
  command.add_parsed("--trace-from", "T", from, "Start of the traced part of the run")
      .default_text("0");
  add_micros(command, "--trace-for", o.trace_for,
             "Length of the traced part; default: to the end", "");
}

void check_trace(SimOptions& o) {
  if (o.trace_file.empty()) return;
  if (o.loads.size() > 1 || o.seeds > 1 || o.candidates.size() > 1) {
    bad_value("--trace", "takes one run: no --loads, --seeds, --compare");
  }
  if (o.trace_file == "-") bad_value("--trace", "takes the name of a file");
  if (o.trace_for < Nanos::max()) o.trace_limits.until = o.trace_limits.from + o.trace_for;
}

void check_find_max(SimOptions& o) {
  if (!o.find_max) return;
  if (!o.slo.given()) bad_value("--find-max", "needs an --slo that the load is to meet");
  if (o.precision > o.max_load) bad_value("--precision", "takes less than --max-load");
  if (!o.trace_file.empty()) bad_value("--trace", "takes one run: no --find-max");
  if (o.seeds == 0) o.seeds = kFindMaxSeeds;
  o.load_given = true;  // recorded requests are replayed at the rate that is asked for
  o.loads = {o.max_load};
}

// What keeps a run from ending when it knows enough, or "".
std::string fixed_by(const SimOptions& o) {
  const WorkloadSpec& workload = o.setup.workload;
  if (o.find_max) return "--find-max";
  if (workload.trace != nullptr) return o.recording.empty() ? "--workload trace:" : "--recording";
  if (!workload.phases.empty()) return "--phase";
  if (workload.arrivals.shape == ArrivalShape::kTrace) return "--arrivals trace";
  if (o.setup.elastic) return "--sessions or --cores";
  if (o.outcomes.given()) return "--outcomes";
  return o.trace_file.empty() ? "" : "--trace";
}

void finish_precision(SimOptions& o) {
  if (o.requests_given) return;
  if (const std::string fixed = fixed_by(o); !fixed.empty()) {
    if (o.wanted.given()) bad_value("--until", "does not go with " + fixed + ": give --requests");
    return;
  }
  o.until = o.wanted.given() ? o.wanted : precision_for(o.slo);
  o.setup.requests = o.most_requests;
}

void check_rates(const SimOptions& o) {
  const double highest = *std::max_element(o.loads.begin(), o.loads.end()) * capacity_rps(o);
  if (highest <= Arrivals::kMaxRate * (1 + 1e-9)) return;
  bad_value(o.find_max ? "--max-load" : o.sweep ? "--loads" : "--load",
            fmt::format("gives {:.3g} requests per second; {:.3g} at most", highest,
                        Arrivals::kMaxRate));
}

}  // namespace

void add_model_options(CommandLine& command, SimOptions& o) {
  add_count(command, "--requests", o.setup.requests, 1, kMostRequests, "a number of requests",
            "Requests of a run, warm-up included")
      .marks(o.requests_given);
  add_count(command, "--seed", o.setup.seed, 0, UINT64_MAX, "a number",
            "The same seed gives the same figures, everywhere");
  add_number(command, "--warmup", o.setup.warmup, 0, kMostWarmup, "a share",
             "Share of the run's time that is left out of the figures at its start");
  command.add_text("--costs", o.costs, "What the machine's operations cost: a name or a cost file")
      .placeholder("NAME|FILE");
  add_micros(command, "--long-over", o.setup.long_over,
             "Types whose mean service is this or more are long to --classify feedback", "10us");
  add_count(command, "--seeds", o.seeds, 1, kMostSeeds, "a number of seeds",
            "Runs of each, from --seed on; figures are their means with 95 % confidence")
      .default_text(std::to_string(std::max(1u, o.seeds)));
  o.threads = processors();
  add_count(command, "--threads", o.threads, 1, kMostThreads, "a number of threads",
            "Runs at the same time; the figures do not depend on it");
}

Option add_rate_option(CommandLine& command, SimOptions& o) {
  return add_number(command, "--rate", o.rate, 1e-3, Arrivals::kMaxRate, "requests per second",
                    "Offered requests per second instead")
      .default_text("");
}

Option add_slo_option(CommandLine& command, Slo& slo, const std::string& help) {
  return command.add_parsed(
             "--slo", "METRIC=LIMIT,...",
             [&slo](const std::string& text) { return parse_slo(text, slo); }, help)
      .repeatable();
}

void add_sim_options(CommandLine& command, SimOptions& o) {
  add_policy_options(command, o);
  add_count(command, "--workers", o.scheduler.workers, 1, limits::kSimulatedWorkers,
            "a number of workers", "Workers of the server");
  add_flags(command, o.scheduler, kSim);
  add_model_options(command, o);
  add_load_options(command, o);
  add_slo_option(command, o.slo, "Say whether these limits were met, see below; may be repeated");
  add_precision_options(command, o);
  add_outcomes_option(command, o);
  add_timeline_option(command, o);
  add_elastic_options(command, o);
  add_workload_options(command, o);
  add_report_options(command, o);
}

void finish_model(SimOptions& o) {
  o.setup.workers = o.scheduler.workers;
  o.setup.classify = o.scheduler.classify;
  finish_workload(o);
  std::vector<std::string> types;
  for (const RequestType& type : types_of(o.setup.workload)) types.push_back(type.name);
  if (Status fit = check_types(o.slo, types); !fit) bad_value("--slo", fit.error());
  const Slo wanted{o.wanted.targets, 0, false};
  if (Status fit = check_types(wanted, types); !fit) bad_value("--until", fit.error());
  if (o.rate > 0) o.loads = {o.rate / capacity_rps(o)};
  check_rates(o);
  const Status fits = validate(setup_at(o, o.loads.front(), 0).workload);
  if (!fits) bad_value("--" + fits.error().substr(0, fits.error().find(':')), fits.error());
}

void finish_sim_options(SimOptions& o) {
  if (o.policies.empty()) bad_value("--policy", "is required, or --compare");
  finish_elastic(o);
  Result<std::vector<Candidate>> candidates = candidates_of(o.policies, o.settings);
  if (!candidates) bad_value("--set", candidates.error());
  o.candidates = std::move(*candidates);
  check_find_max(o);
  check_outcomes(o);
  check_timeline(o);
  if (o.seeds == 0) o.seeds = 1;
  if (sim::is_piped(o.policies.front())) o.threads = 1;
  finish_model(o);
  check_trace(o);
  finish_precision(o);
}

}  // namespace rubato::cli
