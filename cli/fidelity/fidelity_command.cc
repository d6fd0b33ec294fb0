// SPDX-License-Identifier: Apache-2.0
//
// `rubato fidelity`: the same requests through the live runtime and through the simulator, and the
// difference between the two. docs/FIDELITY.md has its results and explains them.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/name_list.h"
#include "cli/common/command_registry.h"
#include "cli/common/output_file.h"
#include "cli/common/value_flags.h"
#include "cli/fidelity/fidelity_live.h"
#include "metrics/run_report.h"
#include "policy/catalog.h"
#include "sim/cost_file.h"
#include "sim/simulation.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

struct Settings {
  std::string policies = "fcfs,cfcfs,steal,ps,synergy";
  std::string loads = "0.2,0.5,0.7";
  std::string workload = "high-bimodal";
  std::string costs = "ideal";
  std::string json_file;
  std::vector<std::string> set;
  uint32_t workers = 1;
  uint64_t requests = 100'000;
  uint64_t seed = 1;
};

// One policy at one load; the slowdowns of all types together.
struct Row {
  std::string policy;
  double load = 0;
  SlowdownSummary live, simulated;
  uint64_t late = 0, unanswered = 0;
  double untouched = 0;  // share of the live requests that no stall of the machine touched
  double worst_lag_us = 0;
  uint64_t live_preemptions = 0, simulated_preemptions = 0;
};

sim::Setup setup_of(const Settings& settings, const Mix& mix, const sim::Costs& costs,
                    double load) {
  sim::Setup setup;
  setup.workers = settings.workers;
  setup.costs = costs;
  setup.requests = settings.requests;
  setup.classify = Classify::kFeedback;
  setup.seed = settings.seed;
  setup.workload.mixes.push_back(mix);
  setup.workload.rate = load * settings.workers / mix.mean_service_ns() * 1e9;
  return setup;
}

std::vector<Offer> offers_of(const sim::Setup& setup) {
  RequestSource source(setup.workload, setup.seed);
  std::vector<Offer> offers;
  for (uint64_t i = 0; i < setup.requests; ++i) offers.push_back(source.next());
  return offers;
}

// Leaves out the same share at the begin as the simulation does, and the requests that the machine
// itself delayed.
void summarize(const LiveRun& run, const std::vector<Offer>& offers, double warmup, Row& row) {
  Histogram slowdowns;
  uint64_t measured = 0;
  const Nanos cut = Nanos::from_seconds((offers.back().at - Instant()).seconds() * warmup);
  for (size_t i = 0; i < offers.size(); ++i) {
    if (offers[i].at - Instant() < cut) continue;
    ++measured;
    if (run.latency[i] < Nanos()) {
      ++row.unanswered;
    } else if (!run.touched[i]) {
      record_slowdown(slowdowns, run.latency[i], offers[i].service);
    }
  }
  row.live = summarize_slowdown(slowdowns);
  row.untouched = static_cast<double>(slowdowns.count()) / static_cast<double>(measured);
}

Result<Row> compare(const Settings& settings, const std::string& policy,
                    const sim::Settings& policy_settings, const sim::Setup& setup, double load) {
  Row row;
  row.policy = policy;
  row.load = load;
  auto simulated = sim::simulate(policy, policy_settings, setup);
  if (!simulated.ok()) return Error{simulated.error()};
  Histogram slowdowns;
  for (const sim::TypeOutcome& type : simulated->types) slowdowns.merge(type.slowdown);
  row.simulated = summarize_slowdown(slowdowns);
  row.simulated_preemptions = simulated->counters.preemptions;

  LiveSetup live{policy, policy_settings, settings.workers, {}};
  for (const RequestType& type : types_of(setup.workload)) {
    live.is_long.push_back(type.service.mean >= setup.long_over);
  }
  const std::vector<Offer> offers = offers_of(setup);
  auto run = run_live(live, offers);
  if (!run.ok()) return Error{run.error()};
  summarize(*run, offers, setup.warmup, row);
  row.late = run->late;
  row.worst_lag_us = run->worst_lag.micros();
  row.live_preemptions = run->preemptions;
  return row;
}

nlohmann::json json_of(const SlowdownSummary& s) {
  return {{"mean", s.mean}, {"p50", s.p50}, {"p99", s.p99}, {"p999", s.p999}};
}

nlohmann::json json_of(const Row& row) {
  return {{"policy", row.policy},
          {"load", row.load},
          {"live", json_of(row.live)},
          {"simulated", json_of(row.simulated)},
          {"late", row.late},
          {"unanswered", row.unanswered},
          {"untouched_share", row.untouched},
          {"worst_lag_us", row.worst_lag_us},
          {"preemptions",
           {{"live", row.live_preemptions}, {"simulated", row.simulated_preemptions}}}};
}

void print_head() {
  fmt::print(
      "slowdown, live / simulated = ratio; of the live requests those that no stall of this\n"
      "machine touched (their share is in the last column)\n\n");
  fmt::print("| policy         | load |           p50           |           p99           |"
             "          p99.9          | quiet |\n");
  fmt::print("|----------------|------|-------------------------|-------------------------|"
             "-------------------------|-------|\n");
}

// No comparison is made where the machine left less than this share of the requests undisturbed.
constexpr double kEnough = 0.2;

std::string cell(const Row& row, double live, double simulated) {
  if (row.untouched < kEnough) return fmt::format("{:^23}", "too disturbed");
  return fmt::format("{:7.4g} / {:7.4g} = {:4.2f}", live, simulated, live / simulated);
}

void print(const Row& row) {
  fmt::print("| {:<14} | {:4.2f} | {} | {} | {} | {:3.0f} % |\n", row.policy, row.load,
             cell(row, row.live.p50, row.simulated.p50),
             cell(row, row.live.p99, row.simulated.p99),
             cell(row, row.live.p999, row.simulated.p999), 100 * row.untouched);
  std::fflush(stdout);
}

sim::Settings parse_set(const std::vector<std::string>& texts) {
  sim::Settings settings;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) bad_value("--set", "takes name=value, got '" + text + "'");
    settings.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return settings;
}

std::vector<double> parse_loads(const std::string& text) {
  std::vector<double> loads;
  for (const std::string& part : split(text, ',')) {
    const std::optional<double> load = parse_number(part);
    if (!load || *load <= 0 || *load > 2) {
      bad_value("--loads", "takes shares of 0 to 2, got " + part);
    }
    loads.push_back(*load);
  }
  return loads;
}

std::string json_text(const nlohmann::json& rows, const Settings& settings) {
  const nlohmann::json all = {{"schema", "rubato.fidelity/1"}, {"workload", settings.workload},
                              {"workers", settings.workers},   {"requests", settings.requests},
                              {"seed", settings.seed},         {"cost_model", settings.costs},
                              {"version", version()},          {"rows", rows}};
  return all.dump(2) + '\n';
}

// The policies of `list` that the live runtime serves; the others cannot be compared.
std::vector<std::string> live_policies(const std::string& list) {
  std::vector<std::string> policies;
  for (const std::string& name : split(list, ',')) {
    const PolicyInfo* info = find_policy(name);
    if (info == nullptr || info->serves_live) {
      policies.push_back(info != nullptr ? info->name : name);
    } else {
      fmt::print(stderr, "rubato fidelity: left out {}, which is simulated only\n", name);
    }
  }
  if (policies.empty()) bad_value("--policies", "takes policies that serve live, got " + list);
  return policies;
}

int run(const Settings& settings) {
  const std::vector<double> loads = parse_loads(settings.loads);
  const sim::Settings policy_settings = parse_set(settings.set);
  auto mix = parse_mix(settings.workload);
  if (!mix.ok()) bad_value("--workload", mix.error());
  auto costs = sim::load_costs(settings.costs);
  if (!costs.ok()) bad_value("--costs", costs.error());
  nlohmann::json rows = nlohmann::json::array();
  const std::vector<std::string> policies = live_policies(settings.policies);
  print_head();
  for (const std::string& policy : policies) {
    for (const double load : loads) {
      const sim::Setup setup = setup_of(settings, *mix, *costs, load);
      auto row = compare(settings, policy, policy_settings, setup, load);
      if (!row.ok()) return fail(row.error().c_str());
      print(*row);
      rows.push_back(json_of(*row));
    }
  }
  if (settings.json_file.empty()) return kDone;
  const Status written = write_file(settings.json_file, json_text(rows, settings));
  return written.ok() ? kDone : fail(written.error().c_str());
}

void add_fidelity(CommandLine& command) {
  auto settings = std::make_shared<Settings>();
  command.add_text("--policies", settings->policies, "Policies, joined by commas");
  command.add_text("--loads", settings->loads, "Shares of the workers' capacity");
  command.add_text("--workload", settings->workload, "Name or NAME:SERVICE:SHARE,...");
  command.add_text("--costs", settings->costs, "Cost file: what `rubato calibrate` wrote here");
  command.add_texts("--set", settings->set, "NAME=VALUE, a setting of the policies");
  command.add_text("--json", settings->json_file, "Also write the figures to this file");
  add_count(command, "--workers", settings->workers, 1, 64, "workers", "Workers, a CPU each");
  add_count(command, "--requests", settings->requests, 100, 100'000'000, "requests",
            "Requests per run");
  add_count(command, "--seed", settings->seed, 0, UINT64_MAX, "a seed", "Seed of the requests");
  command.action([settings] { return run(*settings); });
}

const Command kFidelity({"", "fidelity",
                         "The same requests live and simulated: how far apart are the slowdowns?",
                         add_fidelity});

}  // namespace
}  // namespace rubato::cli
