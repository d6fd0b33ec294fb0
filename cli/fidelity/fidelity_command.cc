// SPDX-License-Identifier: Apache-2.0
//
// `rubato fidelity`: the same requests through the live runtime and through the simulator, and the
// difference between the two. docs/FIDELITY.md has its results and explains them.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/limits.h"
#include "base/name_list.h"
#include "cli/common/command_registry.h"
#include "cli/common/output_file.h"
#include "cli/common/value_flags.h"
#include "cli/common/virtual_host.h"
#include "cli/fidelity/fidelity_live.h"
#include "cli/fidelity/paired.h"
#include "metrics/run_report.h"
#include "policy/catalog.h"
#include "sim/cost_file.h"
#include "sim/policy_names.h"
#include "sim/simulation.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

struct Settings {
  std::string policies = "fcfs,cfcfs,steal,ps,synergy";
  std::string loads = "0.2,0.5,0.7";
  std::string workload = "high-bimodal";
  std::string costs;  // empty = those of the host
  std::string json_file;
  std::string requests_file;
  std::vector<std::string> set;
  uint32_t workers = 1;
  uint64_t requests = 100'000;
  uint64_t seed = 1;
  uint32_t flows = LiveSetup{}.flows;
  bool live_only = false;
  HostOption host;
};

constexpr uint32_t kMaxFlows = 65536;

// Of the requests that were answered live.
struct TypeRow {
  std::string name;
  uint64_t count = 0;
  LatencySummary all, untouched;
  // Of those that no stall touched, on both hosts; by kPercents.
  std::vector<std::optional<PairedFigure>> paired;
  // Share of the requests whose fate was the same on both hosts: their latency to the nanosecond,
  // or no reply. None = there were no requests.
  std::optional<double> equal;
};

struct Percent {
  const char* name;
  double value;
};
constexpr Percent kPercents[] = {{"p50", 50}, {"p99", 99}, {"p999", 99.9}};
constexpr double kAim = 0.02;  // how near the hosts are to be

// One policy at one load; the slowdowns of all types together.
struct Row {
  std::string policy;
  double load = 0;
  double offered_rps = 0, achieved_rps = 0;
  SlowdownSummary live;
  std::optional<SlowdownSummary> simulated;
  std::vector<TypeRow> types;
  uint64_t late = 0, held_back = 0, refused = 0, unanswered = 0, stalls = 0;
  double stalled_ms = 0, wall_s = 0;
  double untouched = 0;  // share of the live requests that no stall of the machine touched
  double worst_lag_us = 0;
  double busy = 0;  // share of the simulated workers' time, overheads included
  uint64_t live_preemptions = 0, simulated_preemptions = 0;
  std::string requests;  // a line for each, where asked for
};

sim::Setup setup_of(const Settings& settings, const Mix& mix, const sim::Costs& costs,
                    double load) {
  sim::Setup setup;
  setup.workers = settings.workers;
  setup.costs = costs;
  setup.requests = settings.requests;
  setup.classify = Classify::kFeedback;
  setup.tells_sizes = true;  // as the spin server does
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

// Replies per second from `cut` until all was sent: what is still served then comes to fewer and
// fewer workers.
double achieved_rps(const LiveRun& run, const std::vector<Offer>& offers, Nanos cut) {
  uint64_t replies = 0;
  for (size_t i = 0; i < offers.size(); ++i) {
    const Nanos replied = offers[i].at - Instant() + run.latency[i];
    const bool answered = run.latency[i] >= Nanos();
    if (answered && replied >= cut && replied <= run.sent_after) ++replies;
  }
  return static_cast<double>(replies) / (run.sent_after - cut).seconds();
}

std::vector<TypeRow> rows_of_types(const LiveRun& run, const std::vector<Offer>& offers, Nanos cut,
                                   const std::vector<RequestType>& types) {
  std::vector<Histogram> all(types.size()), untouched(types.size());
  for (size_t i = 0; i < offers.size(); ++i) {
    if (offers[i].at - Instant() < cut || run.latency[i] < Nanos()) continue;
    all[offers[i].type].record(run.latency[i]);
    if (!run.touched[i]) untouched[offers[i].type].record(run.latency[i]);
  }
  std::vector<TypeRow> rows;
  for (size_t t = 0; t < types.size(); ++t) {
    rows.push_back({types[t].name, all[t].count(), summarize_latency(all[t]),
                    summarize_latency(untouched[t]), {}, 0});
  }
  return rows;
}

// Leaves out the requests due before `cut`, and those that the machine itself delayed.
void summarize(const LiveRun& run, const std::vector<Offer>& offers, Nanos cut, Row& row) {
  Histogram slowdowns;
  uint64_t measured = 0;
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

// `latencies` of all requests; negative = not measured, or refused.
Status simulate_into(Row& row, const sim::Settings& policy_settings, const sim::Setup& setup,
                     std::vector<Nanos>& latencies) {
  latencies.assign(setup.requests, Nanos(-1));
  sim::Watch watch;
  watch.done = [&](const sim::Watch::Done& done) { latencies[done.id] = done.latency; };
  auto simulated = sim::simulate(row.policy, policy_settings, setup, watch);
  if (!simulated.ok()) return Error{simulated.error()};
  Histogram slowdowns;
  for (const sim::TypeOutcome& type : simulated->types) slowdowns.merge(type.slowdown);
  row.simulated = summarize_slowdown(slowdowns);
  row.simulated_preemptions = simulated->counters.preemptions;
  row.busy = simulated->busy_share;
  return Done{};
}

// From the first request on that the simulator measured.
void pair_up(const LiveRun& run, const std::vector<Nanos>& simulated,
             const std::vector<Offer>& offers, std::vector<TypeRow>& types) {
  std::vector<uint64_t> compared(types.size()), equal(types.size());
  std::vector<std::vector<Pair>> pairs(types.size());
  const auto measured = std::ranges::find_if(simulated, [](Nanos n) { return n >= Nanos(); });
  for (auto i = static_cast<size_t>(measured - simulated.begin()); i < offers.size(); ++i) {
    if (run.touched[i]) continue;
    const Pair pair{run.latency[i], simulated[i]};
    const bool replies = pair.live >= Nanos();
    ++compared[offers[i].type];
    if (replies == (pair.simulated >= Nanos())) {
      if (!replies || pair.live == pair.simulated) ++equal[offers[i].type];
      if (replies) pairs[offers[i].type].push_back(pair);
    }
  }
  for (size_t t = 0; t < types.size(); ++t) {
    if (compared[t] > 0) {
      types[t].equal = static_cast<double>(equal[t]) / static_cast<double>(compared[t]);
    }
    for (const Percent& percent : kPercents) {
      types[t].paired.push_back(compare_percentile(pairs[t], percent.value));
    }
  }
}

// In the order in which they were due; negative = no answer, or not measured.
std::string lines_of(const Row& row, const LiveRun& run, const std::vector<Nanos>& simulated,
                     const std::vector<Offer>& offers) {
  std::string lines;
  for (size_t i = 0; i < offers.size(); ++i) {
    lines += fmt::format("{},{},{},{},{},{},{}\n", row.policy, row.load, i,
                         row.types[offers[i].type].name, offers[i].at.ns(), run.latency[i].count(),
                         simulated[i].count());
  }
  return lines;
}

// Leaves out the same share at the begin as the simulation does.
Status serve_into(Row& row, const sim::Settings& policy_settings, const sim::Setup& setup,
                  const Settings& settings, const std::vector<Nanos>& simulated) {
  LiveSetup live{row.policy, policy_settings, setup.workers, {}, settings.flows,
                 settings.host.get(), setup.seed, world_prices(setup.costs)};
  const std::vector<RequestType> types = types_of(setup.workload);
  for (const RequestType& type : types) {
    live.is_long.push_back(type.service.mean >= setup.long_over);
  }
  const std::vector<Offer> offers = offers_of(setup);
  auto run = run_live(live, offers);
  if (!run.ok()) return Error{run.error()};
  const Nanos cut = Nanos::from_seconds((offers.back().at - Instant()).seconds() * setup.warmup);
  summarize(*run, offers, cut, row);
  row.types = rows_of_types(*run, offers, cut, types);
  if (!simulated.empty()) pair_up(*run, simulated, offers, row.types);
  if (!simulated.empty() && !settings.requests_file.empty()) {
    row.requests = lines_of(row, *run, simulated, offers);
  }
  row.achieved_rps = achieved_rps(*run, offers, cut);
  row.late = run->late;
  row.held_back = run->held_back;
  row.refused = run->refused;
  row.stalls = run->stalls;
  row.stalled_ms = run->stalled.micros() / 1e3;
  row.wall_s = run->lasted.seconds();
  row.worst_lag_us = run->worst_lag.micros();
  row.live_preemptions = run->preemptions;
  return Done{};
}

Result<Row> compare(const Settings& settings, const std::string& policy,
                    const sim::Settings& policy_settings, const sim::Setup& setup, double load) {
  Row row;
  row.policy = policy;
  row.load = load;
  row.offered_rps = setup.workload.rate;
  std::vector<Nanos> latencies;
  if (!settings.live_only) {
    const Status simulated = simulate_into(row, policy_settings, setup, latencies);
    if (!simulated.ok()) return Error{simulated.error()};
  }
  const Status live = serve_into(row, policy_settings, setup, settings, latencies);
  if (!live.ok()) return Error{live.error()};
  return row;
}

nlohmann::json json_of(const SlowdownSummary& s) {
  return {{"mean", s.mean}, {"p50", s.p50}, {"p99", s.p99}, {"p999", s.p999}};
}

nlohmann::json json_of(const LatencySummary& l) {
  return {{"mean", l.mean_us}, {"p50", l.p50_us}, {"p99", l.p99_us}, {"p999", l.p999_us}};
}

nlohmann::json json_of(const std::vector<std::optional<PairedFigure>>& figures) {
  nlohmann::json object = nlohmann::json::object();
  for (size_t i = 0; i < figures.size(); ++i) {
    if (!figures[i]) continue;
    object[kPercents[i].name] = {{"live_us", figures[i]->live.micros()},
                                 {"simulated_us", figures[i]->simulated.micros()},
                                 {"ratio", figures[i]->ratio},
                                 {"within", figures[i]->within},
                                 {"agrees", figures[i]->agrees(kAim)}};
  }
  return object;
}

nlohmann::json json_of(const std::vector<TypeRow>& types) {
  nlohmann::json array = nlohmann::json::array();
  for (const TypeRow& type : types) {
    array.push_back({{"name", type.name},
                     {"count", type.count},
                     {"latency_us", json_of(type.all)},
                     {"untouched_us", json_of(type.untouched)},
                     {"paired", json_of(type.paired)},
                     {"equal_share", type.equal ? nlohmann::json(*type.equal) : nlohmann::json()}});
  }
  return array;
}

nlohmann::json json_of(const Row& row) {
  nlohmann::json json = {{"policy", row.policy},
                         {"load", row.load},
                         {"offered_rps", row.offered_rps},
                         {"achieved_rps", row.achieved_rps},
                         {"live", json_of(row.live)},
                         {"types", json_of(row.types)},
                         {"late", row.late},
                         {"held_back", row.held_back},
                         {"refused", row.refused},
                         {"unanswered", row.unanswered},
                         {"untouched_share", row.untouched},
                         {"stalls", row.stalls},
                         {"stalled_ms", row.stalled_ms},
                         {"wall_s", row.wall_s},
                         {"worst_lag_us", row.worst_lag_us},
                         {"preemptions", {{"live", row.live_preemptions}}}};
  if (row.simulated) {
    json["simulated"] = json_of(*row.simulated);
    json["preemptions"]["simulated"] = row.simulated_preemptions;
    json["simulated_busy_share"] = row.busy;
  }
  return json;
}

void print_paired_head(std::FILE* to) {
  fmt::print(to,
             "latency in us by type, live in virtual time / simulated = ratio +- its 95 % "
             "confidence;\n! where they differ by more than that and {:g} %\n\n", kAim * 100);
  fmt::print(to, "{:<14} {:>4}  {:<10} {:^34} {:^34} {:^34} equal\n", "policy", "load", "type",
             "p50", "p99", "p99.9");
}

void print_paired(const Row& row, std::FILE* to) {
  for (const TypeRow& type : row.types) {
    fmt::print(to, "{:<14} {:4.2f}  {:<10}", row.policy, row.load, type.name);
    for (const std::optional<PairedFigure>& figure : type.paired) {
      if (!figure) {
        fmt::print(to, " {:^34}", "too few");
        continue;
      }
      fmt::print(to, " {:8.5g} / {:8.5g} = {:5.3f} +-{:5.3f}{}", figure->live.micros(),
                 figure->simulated.micros(), figure->ratio, figure->within,
                 figure->agrees(kAim) ? ' ' : '!');
    }
    fmt::print(to, " {:>3} %\n", type.equal ? fmt::format("{:.0f}", 100 * *type.equal) : "-");
  }
  std::fflush(to);
}

// What the latencies of a row leave out, or have less of than a server without such a limit.
void tell_limits(const Row& row, const Settings& settings) {
  if (row.unanswered > 0) {
    fmt::print(stderr, "rubato fidelity: {} at {:g}: {} live requests have no reply, {} refused\n",
               row.policy, row.load, row.unanswered, row.refused);
  }
  if (row.held_back > 0) {
    fmt::print(stderr,
               "rubato fidelity: {} at {:g}: {} live requests waited for one of {} --flows\n",
               row.policy, row.load, row.held_back, settings.flows);
  }
}

void print_head(bool live_only, std::FILE* to) {
  fmt::print(to,
             "slowdown, {}; of the live requests those that no stall of this\n"
             "machine touched (their share is in the last column)\n\n",
             live_only ? "live" : "live / simulated = ratio");
  fmt::print(to,
             "| policy         | load |           p50           |           p99           |"
             "          p99.9          | quiet |\n");
  fmt::print(to,
             "|----------------|------|-------------------------|-------------------------|"
             "-------------------------|-------|\n");
}

// No comparison is made where the machine left less than this share of the requests undisturbed.
constexpr double kEnough = 0.2;

std::string cell(const Row& row, double SlowdownSummary::* figure) {
  if (row.untouched < kEnough) return fmt::format("{:^23}", "too disturbed");
  const double live = row.live.*figure;
  if (!row.simulated) return fmt::format("{:^23.4g}", live);
  const double simulated = (*row.simulated).*figure;
  return fmt::format("{:7.4g} / {:7.4g} = {:4.2f}", live, simulated, live / simulated);
}

void print(const Row& row, std::FILE* to) {
  fmt::print(to, "| {:<14} | {:4.2f} | {} | {} | {} | {:3.0f} % |\n", row.policy, row.load,
             cell(row, &SlowdownSummary::p50), cell(row, &SlowdownSummary::p99),
             cell(row, &SlowdownSummary::p999), 100 * row.untouched);
  std::fflush(to);
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
  const std::vector<std::string> parts = split(text, ',');
  if (parts.empty()) bad_value("--loads", "takes shares above 0, up to 2, joined by commas");
  for (const std::string& part : parts) {
    const std::optional<double> load = parse_number(part);
    if (!load || *load <= 0 || *load > 2) {
      bad_value("--loads", "takes shares above 0, up to 2, not '" + part + "'");
    }
    loads.push_back(*load);
  }
  return loads;
}

std::string costs_of(const Settings& settings) {
  if (!settings.costs.empty()) return settings.costs;
  return settings.host.is_virtual() ? "virtual" : "ideal";
}

std::string json_text(const nlohmann::json& rows, const Settings& settings) {
  const nlohmann::json all = {{"schema", "rubato.fidelity/1"}, {"workload", settings.workload},
                              {"workers", settings.workers},   {"requests", settings.requests},
                              {"seed", settings.seed},         {"cost_model", costs_of(settings)},
                              {"flows", settings.flows},       {"set", settings.set},
                              {"host", settings.host.is_virtual() ? "virtual" : "live"},
                              {"version", version()},          {"rows", rows}};
  return all.dump(2) + '\n';
}

// The policies of `list` that the live runtime serves; the others cannot be compared.
std::vector<std::string> live_policies(const std::string& list) {
  std::vector<std::string> policies;
  const Status parsed = sim::parse_policies(list, policies);
  if (!parsed.ok()) bad_value("--policies", parsed.error());
  std::erase_if(policies, [](const std::string& name) {
    const PolicyInfo* info = find_policy(name);
    if (info != nullptr && info->serves_live) return false;
    fmt::print(stderr, "rubato fidelity: left out {}, which is simulated only\n", name);
    return true;
  });
  if (policies.empty()) bad_value("--policies", "takes policies that serve live, got " + list);
  return policies;
}

// The two halves of the requests' file, and who writes to stdout.
void check_outputs(const Settings& settings) {
  if (settings.requests_file.empty()) return;
  if (settings.live_only) {
    bad_value("--requests-csv", "has the latencies on both hosts; not with --live-only");
  }
  if (settings.requests_file == "-" && settings.json_file == "-") {
    bad_value("--requests-csv", "takes the name of a file where --json has stdout");
  }
}

int run(const Settings& settings) {
  check_outputs(settings);
  const std::vector<double> loads = parse_loads(settings.loads);
  const sim::Settings policy_settings = parse_set(settings.set);
  auto mix = parse_mix(settings.workload);
  if (!mix.ok()) bad_value("--workload", mix.error());
  settings.host.get();
  auto costs = sim::load_costs(costs_of(settings));
  if (!costs.ok()) bad_value("--costs", costs.error());
  nlohmann::json rows = nlohmann::json::array();
  std::string requests = "policy,load,request,type,due_ns,live_ns,simulated_ns\n";
  const std::vector<std::string> policies = live_policies(settings.policies);
  for (const std::string& policy : policies) {
    const Status fits = find_policy(policy)->check_settings(policy_settings);
    if (!fits.ok()) bad_value("--set", fits.error());
  }
  const bool paired = settings.host.is_virtual() && !settings.live_only;
  const bool to_stdout = settings.json_file == "-" || settings.requests_file == "-";
  std::FILE* const table = to_stdout ? stderr : stdout;
  paired ? print_paired_head(table) : print_head(settings.live_only, table);
  for (const std::string& policy : policies) {
    for (const double load : loads) {
      const sim::Setup setup = setup_of(settings, *mix, *costs, load);
      auto row = compare(settings, policy, policy_settings, setup, load);
      if (!row.ok()) return fail(row.error().c_str());
      paired ? print_paired(*row, table) : print(*row, table);
      tell_limits(*row, settings);
      rows.push_back(json_of(*row));
      requests += row->requests;
    }
  }
  if (!settings.requests_file.empty()) {
    const Status written = write_text(settings.requests_file, requests);
    if (!written.ok()) return fail(written.error().c_str());
  }
  if (settings.json_file.empty()) return kDone;
  const Status written = write_text(settings.json_file, json_text(rows, settings));
  return written.ok() ? kDone : fail(written.error().c_str());
}

void add_fidelity(CommandLine& command) {
  auto settings = std::make_shared<Settings>();
  command.add_text("--policies", settings->policies, "Policies, joined by commas");
  command.add_text("--loads", settings->loads, "Shares of the workers' capacity");
  command.add_text("--workload", settings->workload, "Name or NAME:SERVICE:SHARE,...");
  command.add_text("--costs", settings->costs,
                   "Cost file: what `rubato calibrate` wrote here; [world] is for --host virtual");
  command.add_texts("--set", settings->set, "NAME=VALUE, a setting of the policies");
  command.add_output("--json", settings->json_file, "Also write the figures as JSON; - is stdout");
  command.add_output("--requests-csv", settings->requests_file,
                   "Also write each request's latency on both hosts to this file; - is stdout");
  settings->host.add_to(command);
  command.add_flag("--live-only", settings->live_only, "Leave the simulation out");
  add_count(command, "--workers", settings->workers, 1, limits::kMaxWorkers, "workers",
            "Workers, a CPU each");
  add_count(command, "--flows", settings->flows, 1, kMaxFlows, "flows",
            "Live requests in flight at most; others wait in the sender");
  add_count(command, "--requests", settings->requests, 100, 100'000'000, "requests",
            "Requests per run");
  add_count(command, "--seed", settings->seed, 0, UINT64_MAX, "a seed", "Seed of the requests");
  command.action([settings] { return run(*settings); });
}

const Command kFidelity({"", "fidelity",
                         "Compare the slowdowns of the same requests, live and simulated",
                         add_fidelity});

}  // namespace
}  // namespace rubato::cli
