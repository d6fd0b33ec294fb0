// SPDX-License-Identifier: Apache-2.0
#include "cli/sim_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <thread>

#include "cli/options.h"
#include "cli/sim_workload.h"
#include "policy/all.h"
#include "policy/options.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

constexpr uint64_t kMostRequests = 1'000'000'000'000;
constexpr uint32_t kMostSeeds = 10'000;
constexpr uint32_t kMostThreads = 256;
constexpr uint64_t kMostTraceEvents = 1'000'000'000;
constexpr size_t kMostLoads = 1000;
constexpr double kLowestLoad = 0.001;
constexpr double kHighestLoad = 10;
constexpr double kMostWarmup = 0.9;

// A length of time; a bare number is microseconds.
void add_micros(CLI::App& app, const std::string& name, Nanos& value, const std::string& help,
                const std::string& default_text) {
  auto parse = [&value](const std::string& text) -> Status {
    const auto parsed = parse_duration(text);
    if (!parsed) return Error{"takes microseconds, or a time like 5us or 1ms, not '" + text + "'"};
    value = *parsed;
    return Done{};
  };
  CLI::Option* option = add_parsed(app, name, "T", parse, help);
  if (!default_text.empty()) option->default_str(default_text);
}

Status check_policy(const std::string& name) {
  if (with_policy(name, [](auto) {})) return Done{};
  std::string names;
  for_each_policy([&]<class P>(std::type_identity<P>) {
    names += names.empty() ? P::kName : std::string(", ") + P::kName;
  });
  return Error{"takes one of " + names + "; not '" + name + "'"};
}

Status check_settings(const SimOptions& o) {
  Status status = Done{};
  with_policy(o.policy, [&]<class P>(std::type_identity<P>) {
    typename P::Config config{};
    for (const auto& [name, value] : o.settings) {
      if (status) status = set_option<P>(config, name, value);
    }
  });
  return status;
}

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

void add_run_options(CLI::App& app, SimOptions& o) {
  add_parsed(
      app, "--policy", "NAME",
      [&o](const std::string& text) {
        o.policy = text;
        return check_policy(text);
      },
      "Scheduling policy, see `rubato policies`")
      ->required();
  add_parsed(
      app, "--set", "NAME=VALUE",
      [&o](const std::string& text) -> Status {
        const size_t equals = text.find('=');
        if (equals == std::string::npos || equals == 0) {
          return Error{"takes NAME=VALUE, not '" + text + "'"};
        }
        o.settings.emplace_back(text.substr(0, equals), text.substr(equals + 1));
        return Done{};
      },
      "Setting of the policy; may be repeated")
      ->take_all()
      ->trigger_on_parse();
  add_count(app, "--workers", o.setup.workers, 1, limits::kMaxWorkers, "a number of workers",
            "Simulated workers");
  add_count(app, "--requests", o.setup.requests, 1, kMostRequests, "a number of requests",
            "Requests of a run, warm-up included")
      ->each([&o](const std::string&) { o.requests_given = true; });
  add_count(app, "--seed", o.setup.seed, 0, UINT64_MAX, "a number",
            "The same seed gives the same figures, everywhere");
  add_number(app, "--warmup", o.setup.warmup, 0, kMostWarmup, "a share",
             "Share of the run's time that is left out of the figures at its start");
  app.add_option("--costs", o.costs, "What the machine's operations cost: a name or a cost file")
      ->type_name("NAME|FILE")
      ->capture_default_str();
  add_parsed(
      app, "--classify", "feedback|age",
      [&o](const std::string& text) -> Status {
        if (text != "feedback" && text != "age") {
          return Error{"takes feedback or age, not '" + text + "'"};
        }
        o.setup.classify = text == "age" ? sim::Classify::kAge : sim::Classify::kFeedback;
        return Done{};
      },
      "How a worker learns that a request is long: the application says so when it starts, or it "
      "has run for a whole slice")
      ->default_str("feedback");
  add_micros(app, "--long-over", o.setup.long_over,
             "Types whose mean service is this or more are long to --classify feedback", "10us");
}

void add_load_options(CLI::App& app, SimOptions& o) {
  CLI::Option* load = add_parsed(
      app, "--load", "F",
      [&o](const std::string& text) {
        o.load_given = true;
        return parse_load(text, o.loads.front());
      },
      "Offered load as a share of the capacity, workers / mean service");
  load->default_str("0.7");
  CLI::Option* rate = add_number(app, "--rate", o.rate, 1e-3, Arrivals::kMaxRate,
                                 "requests per second", "Offered requests per second instead")
                          ->default_str("");
  CLI::Option* loads = add_parsed(
      app, "--loads", "A:B:STEP",
      [&o](const std::string& text) {
        o.sweep = o.load_given = true;
        return parse_loads(text, o.loads);
      },
      "One run per load from A to B, or of the list F,F,...; on all --threads");
  rate->excludes(load);
  loads->excludes(load)->excludes(rate);
  add_count(app, "--seeds", o.seeds, 1, kMostSeeds, "a number of seeds",
            "Runs per load, from --seed on; figures are their means with 95 % confidence");
  o.threads = std::max(1u, std::thread::hardware_concurrency());
  add_count(app, "--threads", o.threads, 1, kMostThreads, "a number of threads",
            "Runs at the same time; the figures do not depend on it");
}

void add_report_options(CLI::App& app, SimOptions& o) {
  app.add_option("--json", o.json_file, "Write the report as JSON; - is stdout")->type_name("FILE");
  app.add_flag("--no-wall", o.no_wall,
               "Leave out of the JSON what the simulating machine decides (wall_s is 0, machine is "
               "blank), so that equal runs give equal bytes");
  app.add_flag("--explain", o.explain, "First print every modelling assumption in force");
  app.add_option("--trace", o.trace_file,
                 "Write what every worker did, for ui.perfetto.dev or chrome://tracing; one run")
      ->type_name("FILE");
  add_count(app, "--trace-events", o.trace_limits.events, 1, kMostTraceEvents,
            "a number of events", "Events in the trace at most; the first are kept");
  auto from = [&o](const std::string& text) -> Status {
    const auto parsed = parse_duration(text);
    if (!parsed) return Error{"takes microseconds, or a time like 10ms, not '" + text + "'"};
    o.trace_limits.from = Instant() + *parsed;
    return Done{};
  };
  add_parsed(app, "--trace-from", "T", from, "Start of the traced part of the run")
      ->default_str("0");
  add_micros(app, "--trace-for", o.trace_for, "Length of the traced part; default: to the end", "");
}

void check_trace(SimOptions& o) {
  if (o.trace_file.empty()) return;
  if (o.loads.size() > 1 || o.seeds > 1) bad_value("--trace", "takes one run: no --loads, --seeds");
  if (o.trace_file == "-") bad_value("--trace", "takes the name of a file");
  if (o.trace_for < Nanos::max()) o.trace_limits.until = o.trace_limits.from + o.trace_for;
}

}  // namespace

void add_sim_options(CLI::App& app, SimOptions& o) {
  add_run_options(app, o);
  add_load_options(app, o);
  add_workload_options(app, o);
  add_report_options(app, o);
}

void finish_sim_options(SimOptions& o) {
  if (Status fit = check_settings(o); !fit) bad_value("--set", fit.error());
  finish_workload(o);
  const double capacity = o.setup.workers * 1e9 / mean_service_ns(o.setup.workload);
  if (o.rate > 0) o.loads = {o.rate / capacity};
  const double highest = *std::max_element(o.loads.begin(), o.loads.end()) * capacity;
  if (highest > Arrivals::kMaxRate * (1 + 1e-9)) {
    bad_value(o.sweep ? "--loads" : "--load",
              fmt::format("gives {:.3g} requests per second; {:.3g} at most", highest,
                          Arrivals::kMaxRate));
  }
  const Status fits = validate(setup_at(o, o.loads.front(), 0).workload);
  if (!fits) bad_value("--" + fits.error().substr(0, fits.error().find(':')), fits.error());
  check_trace(o);
}

sim::Setup setup_at(const SimOptions& o, double load, uint32_t seed_index) {
  sim::Setup setup = o.setup;
  const double capacity = setup.workers * 1e9 / mean_service_ns(setup.workload);
  setup.workload.rate = o.rate > 0 ? o.rate : load * capacity;
  setup.seed += seed_index;
  return setup;
}

}  // namespace rubato::cli
