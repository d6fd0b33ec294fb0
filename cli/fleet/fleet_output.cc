// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/fleet_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/sim/sim_text.h"
#include "fleet/figures.h"
#include "metrics/histogram_json.h"
#include "metrics/run_report.h"

namespace rubato::cli {
namespace {

using namespace fleet;
using Json = nlohmann::ordered_json;

constexpr int kColumn = 18;

double half_width(const Replications& runs, const std::string& path) {
  const auto of_path = [&path](const sim::Confidence& one) { return one.path == path; };
  const auto found = std::find_if(runs.confidence.begin(), runs.confidence.end(), of_path);
  return found == runs.confidence.end() ? std::numeric_limits<double>::infinity()
                                        : found->half_width;
}

// A cell, with half of its interval.
std::string cell(const Replications& runs, const std::string& path, double figure,
                 std::string (*text)(double)) {
  return with_interval(figure, half_width(runs, path), text);
}

std::string percent_text(double share) { return fmt::format("{:.2f}", 100 * share); }
std::string busy_text(double share) { return fmt::format("{:.1f}", 100 * share); }
std::string per_request_text(double number) { return fmt::format("{:.3f}", number); }

std::string latency_row(const Replications& runs, const std::string& path, const std::string& name,
                        const Histogram& latency) {
  const auto figure = [&](const char* what, double us) {
    return fmt::format("{:>{}}", cell(runs, path + "/latency_us/" + what, us, time_text), kColumn);
  };
  const auto at = [&](const char* what, double percent) {
    return figure(what, latency.percentile(percent).micros());
  };
  return fmt::format("  {:<{}}{:>10}", name, kNameWidth, latency.count()) +
         figure("mean", latency.mean_ns() / 1e3) + at("p50", 50) + at("p90", 90) + at("p99", 99) +
         at("p999", 99.9) + fmt::format("{:>10}\n", time_text(latency.max().micros()));
}

// The figures that are known too little for an interval; empty = none is.
std::string unknown_of(const Replications& runs, const std::string& path, const std::string& name) {
  std::string text;
  for (const auto& [key, shown] : {std::pair{"mean", "mean"}, {"p50", "p50"}, {"p90", "p90"},
                                   {"p99", "p99"}, {"p999", "p99.9"}}) {
    if (std::isinf(half_width(runs, path + "/latency_us/" + key))) {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", shown);
    }
  }
  if (text.empty() || runs.pooled.steadiness.verdict == sim::RunState::kOverloaded) return "";
  return fmt::format("  too few calls to know {} of {}: give a longer --length\n", text, name);
}

std::string latency_text(const Replications& runs, const GroupOutcome& group,
                         const std::string& path) {
  std::string text = fmt::format("  {:<{}}{:>10}", "latency", kNameWidth, "served");
  for (const char* name : {"mean", "p50", "p90", "p99", "p99.9"}) {
    text += fmt::format("{:>{}}", name, kColumn);
  }
  text += fmt::format("{:>10}\n", "max");
  std::string unknown;
  for (size_t i = 0; i < group.types.size() && group.types.size() > 1; ++i) {
    const auto& [name, latency] = group.types[i];
    if (latency.empty()) continue;
    const std::string of_type = fmt::format("{}/types/{}", path, i);
    text += latency_row(runs, of_type, name, latency);
    unknown += unknown_of(runs, of_type, name);
  }
  return text + latency_row(runs, path, "all", group.latency) + unknown +
         unknown_of(runs, path, "all");
}

std::string clients_text(const Replications& runs, size_t number) {
  const GroupOutcome& group = runs.pooled.clients[number];
  const std::string path = fmt::format("/clients/{}", number);
  const auto figure = [&](std::string_view name, std::string (*text)(double)) {
    const auto named = [name](const CallRatio& ratio) { return ratio.name == name; };
    const auto* const ratio = std::find_if(std::begin(kCallRatios), std::end(kCallRatios), named);
    return cell(runs, fmt::format("{}/{}", path, name),
                figure_of(*ratio, group, runs.pooled.measured), text);
  };
  std::string text = fmt::format("clients {}: made {}, served {} ({} %), failed {} %", group.name,
                                 figure("offered_rps", rate_text),
                                 figure("achieved_rps", rate_text),
                                 figure("served_share", percent_text),
                                 figure("failed_share", percent_text));
  if (group.unfinished > 0) {
    text += fmt::format(", unfinished {} %", figure("unfinished_share", percent_text));
  }
  text += "\n" + latency_text(runs, group, path);
  return text + fmt::format("  attempts per request {}: retries {}, hedges {}; timeouts {}, "
                            "refusals {}, withheld {}, over budget {}, cancelled {}, answers too "
                            "late {}\n",
                            figure("attempts_per_request", per_request_text),
                            figure("retries_per_request", per_request_text),
                            figure("hedges_per_request", per_request_text), group.timeouts,
                            group.refusals, group.withheld, group.over_budget, group.cancelled,
                            group.wasted);
}

// Of the servers from `first` on, which are those of one group.
std::string group_text(const Replications& runs, const ServerGroup& group, double busy_share,
                       size_t number, size_t first) {
  const std::vector<ServerOutcome>& all = runs.pooled.servers;
  uint64_t served = 0, refused = 0, lost = 0;
  size_t least = first, most = first;
  for (size_t i = first; i < first + group.count; ++i) {
    served += all[i].served;
    refused += all[i].refused;
    lost += all[i].lost;
    if (all[i].busy_share < all[least].busy_share) least = i;
    if (all[i].busy_share > all[most].busy_share) most = i;
  }
  const auto busy = [&](size_t server) {
    return cell(runs, fmt::format("/servers/{}/utilization", server), all[server].busy_share,
                busy_text);
  };
  return fmt::format(
      "servers {} x {}: {} with {} workers, busy {} % ({} to {}), served {}, refused {}, lost {}\n",
      group.name, group.count, group.policy, group.setup.workers,
      cell(runs, fmt::format("/server_groups/{}/utilization", number), busy_share, busy_text),
      busy(least), busy(most), served, refused, lost);
}

std::string servers_text(const WorldSpec& spec, const Replications& runs) {
  const std::vector<ServerGroupOutcome> groups = server_groups(spec, runs.pooled);
  std::string text;
  size_t next = 0;
  for (size_t number = 0; number < groups.size(); ++number) {
    text += group_text(runs, spec.servers[number], groups[number].busy_share, number, next);
    next += spec.servers[number].count;
  }
  return text;
}

// Why the figures are not to be used; empty = they are.
const char* invalid_reason(const WorldOutcome& outcome) {
  if (outcome.stopped) return sim::kStoppedEarly;
  return outcome.steadiness.verdict == sim::RunState::kOverloaded ? sim::kOverloaded : "";
}

std::string verdict_lines(const WorldOutcome& outcome) {
  uint64_t left_out = 0;
  for (const GroupOutcome& group : outcome.clients) left_out += group.left_out.calls;
  std::string text = fmt::format("{}\nstart-up of {} left out: {} calls\n",
                                 verdict_text(outcome.steadiness),
                                 time_text(outcome.start_up.micros()), left_out);
  const std::string reason = invalid_reason(outcome);
  return reason.empty() ? text : text + invalid_text(reason);
}

std::string timeline_text(const WorldSpec& spec, const GroupOutcome& group, uint32_t seeds) {
  std::string text = fmt::format("timeline of {}\n{:>10}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
                                 group.name, "from", "calls/s", "served/s", "failed/s",
                                 "attempts/s", "latency");
  const double slice_s = spec.slice.seconds();
  const double of_all_s = slice_s * seeds;
  for (size_t i = 0; i < group.slices.size(); ++i) {
    const FleetSlice& slice = group.slices[i];
    const auto rate = [of_all_s](uint64_t count) {
      return fmt::format("{:.4g}", static_cast<double>(count) / of_all_s);
    };
    const double mean_us =
        slice.served == 0 ? 0 : slice.latency_ns / static_cast<double>(slice.served) / 1e3;
    text += fmt::format("{:>10}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
                        fmt::format("{:g}s", static_cast<double>(i) * slice_s), rate(slice.calls),
                        rate(slice.served), rate(slice.failed), rate(slice.attempts),
                        slice.served == 0 ? "-" : time_text(mean_us));
  }
  return text;
}

Json latency_json(const Histogram& h) {
  const auto at = [&h](double percent) { return h.percentile(percent).micros(); };
  return {{"mean", h.mean_ns() / 1e3}, {"p50", at(50)},      {"p90", at(90)}, {"p99", at(99)},
          {"p999", at(99.9)},          {"p9999", at(99.99)}, {"max", at(100)}};
}

Json timeline_json(const WorldSpec& spec, const GroupOutcome& group) {
  Json slices = Json::array();
  for (size_t i = 0; i < group.slices.size(); ++i) {
    const FleetSlice& slice = group.slices[i];
    const auto served = static_cast<double>(std::max<uint64_t>(slice.served, 1));
    slices.push_back({{"start_s", static_cast<double>(i) * spec.slice.seconds()},
                      {"calls", slice.calls},
                      {"served", slice.served},
                      {"failed", slice.failed},
                      {"attempts", slice.attempts},
                      {"mean_latency_us", slice.latency_ns / served / 1e3}});
  }
  return slices;
}

Json clients_json(const WorldSpec& spec, const GroupOutcome& group, Nanos measured) {
  Json types = Json::array();
  for (const auto& [name, latency] : group.types) {
    types.push_back({{"name", name}, {"count", latency.count()},
                     {"latency_us", latency_json(latency)},
                     {"latency_histogram_ns", histogram_json(latency)}});
  }
  Json json = {{"name", group.name}};
  for (const CallRatio& ratio : kCallRatios) json[ratio.name] = figure_of(ratio, group, measured);
  const std::pair<const char*, uint64_t> counts[] = {
      {"calls", group.calls},           {"served", group.served},
      {"failed", group.failed},         {"unfinished", group.unfinished},
      {"requests", group.requests},     {"attempts", group.attempts},
      {"retries", group.retries},       {"hedges", group.hedges},
      {"timeouts", group.timeouts},     {"refusals", group.refusals},
      {"over_budget", group.over_budget}, {"wasted", group.wasted},
      {"cancelled", group.cancelled},   {"withheld", group.withheld}};
  for (const auto& [name, count] : counts) json[name] = count;
  json["latency_us"] = latency_json(group.latency);
  json["latency_histogram_ns"] = histogram_json(group.latency);
  json["types"] = std::move(types);
  json["timeline"] = timeline_json(spec, group);
  return json;
}

Json servers_json(const std::vector<ServerOutcome>& all) {
  Json servers = Json::array();
  for (const ServerOutcome& server : all) {
    servers.push_back({{"group", server.name},
                       {"utilization", server.busy_share},
                       {"served", server.served},
                       {"refused", server.refused},
                       {"lost", server.lost}});
  }
  return servers;
}

Json server_groups_json(const WorldSpec& spec, const WorldOutcome& outcome) {
  Json groups = Json::array();
  for (const ServerGroupOutcome& group : server_groups(spec, outcome)) {
    groups.push_back({{"name", group.name}, {"utilization", group.busy_share}});
  }
  return groups;
}

// JSON has no infinity.
Json confidence_json(const Replications& runs) {
  Json confidence = {{"level", 0.95}};
  for (const sim::Confidence& one : runs.confidence) {
    confidence[Json::json_pointer(one.path)] =
        std::isinf(one.half_width) ? Json(nullptr) : Json(one.half_width);
  }
  return confidence;
}

}  // namespace

std::string fleet_table(const WorldSpec& spec, const Replications& runs, bool timeline) {
  const WorldOutcome& outcome = runs.pooled;
  std::string text;
  if (runs.seeds > 1) {
    text = fmt::format("seeds {} to {}\n", spec.seed, spec.seed + runs.seeds - 1);
  }
  for (size_t i = 0; i < outcome.clients.size(); ++i) text += clients_text(runs, i);
  text += servers_text(spec, runs);
  for (const GroupOutcome& group : outcome.clients) {
    if (timeline) text += timeline_text(spec, group, runs.seeds);
  }
  return text + verdict_lines(outcome);
}

std::string fleet_json(const WorldSpec& spec, const Replications& runs, const std::string& world,
                       const std::string& version) {
  const WorldOutcome& outcome = runs.pooled;
  const std::string reason = invalid_reason(outcome);
  Json clients = Json::array();
  for (const GroupOutcome& group : outcome.clients) {
    clients.push_back(clients_json(spec, group, outcome.measured));
  }
  Json json = {{"schema", "rubato.fleet/1"},
               {"world", world},
               {"seed", spec.seed},
               {"seeds", runs.seeds},
               {"length_s", spec.length.seconds()},
               {"warmup", spec.warmup},
               {"slice_s", spec.slice.seconds()},
               {"valid", reason.empty()},
               {"verdict", sim::verdict_name(outcome.steadiness.verdict)},
               {"verdict_reasons", outcome.steadiness.reasons},
               {"start_up_s", outcome.start_up.seconds()},
               {"measured_s", outcome.measured.seconds()},
               {"clients", std::move(clients)},
               {"servers", servers_json(outcome.servers)},
               {"server_groups", server_groups_json(spec, outcome)},
               {"version", version}};
  if (!reason.empty()) json["invalid_reason"] = reason;
  if (!runs.confidence.empty()) json["confidence"] = confidence_json(runs);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rubato::cli
