// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/fleet_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/sim/sim_text.h"
#include "metrics/histogram_json.h"
#include "metrics/run_report.h"

namespace rubato::cli {
namespace {

using namespace fleet;
using Json = nlohmann::ordered_json;

double per(uint64_t some, uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(some) / static_cast<double>(all);
}

// A cell, with half of its interval after a +- where there are several seeds.
std::string cell(const Replications& runs, const std::string& path, double figure,
                 std::string (*text)(double)) {
  const auto of_path = [&path](const sim::Confidence& one) { return one.path == path; };
  const auto found = std::find_if(runs.confidence.begin(), runs.confidence.end(), of_path);
  if (found == runs.confidence.end()) return text(figure);
  return text(figure) + "+-" + text(found->half_width);
}

int column(const Replications& runs) { return runs.seeds > 1 ? 18 : 10; }

std::string latency_row(const Replications& runs, const std::string& path, const std::string& name,
                        const Histogram& latency) {
  const int width = column(runs);
  const auto figure = [&](const char* what, double us) {
    return fmt::format("{:>{}}", cell(runs, path + "/latency_us/" + what, us, time_text), width);
  };
  const auto at = [&](const char* what, double percent) {
    return figure(what, latency.percentile(percent).micros());
  };
  return fmt::format("  {:<{}}{:>10}", name, kNameWidth, latency.count()) +
         figure("mean", latency.mean_ns() / 1e3) + at("p50", 50) + at("p90", 90) + at("p99", 99) +
         at("p999", 99.9) + fmt::format("{:>10}\n", time_text(latency.max().micros()));
}

std::string clients_text(const Replications& runs, size_t number) {
  const GroupOutcome& group = runs.pooled.clients[number];
  const std::string path = fmt::format("/clients/{}", number);
  const auto calls = [&](const char* what, uint64_t count) {
    return cell(runs, path + what, static_cast<double>(count) / runs.pooled.measured.seconds(),
                rate_text);
  };
  std::string text = fmt::format(
      "clients {}: made {}, served {} ({:.2f} %), failed {:.2f} %", group.name,
      calls("/offered_rps", group.calls), calls("/achieved_rps", group.served),
      percent(group.served, group.calls), percent(group.failed, group.calls));
  if (group.unfinished > 0) {
    text += fmt::format(", unfinished {:.2f} %", percent(group.unfinished, group.calls));
  }
  text += fmt::format("\n  {:<{}}{:>10}", "latency", kNameWidth, "served");
  for (const char* name : {"mean", "p50", "p90", "p99", "p99.9"}) {
    text += fmt::format("{:>{}}", name, column(runs));
  }
  text += fmt::format("{:>10}\n", "max");
  size_t shown = 0;
  for (const auto& [name, latency] : group.types) {
    if (latency.empty()) continue;
    const std::string of_type = fmt::format("{}/types/{}", path, shown++);
    if (group.types.size() > 1) text += latency_row(runs, of_type, name, latency);
  }
  text += latency_row(runs, path, "all", group.latency);
  return text + fmt::format(
                    "  attempts per request {:.3f}: retries {:.3f}, hedges {:.3f}; timeouts {}, "
                    "refusals {}, over budget {}, cancelled {}, answers too late {}\n",
                    per(group.attempts, group.requests), per(group.retries, group.requests),
                    per(group.hedges, group.requests), group.timeouts, group.refusals,
                    group.over_budget, group.cancelled, group.wasted);
}

// Of groups of servers, whose outcomes follow each other.
std::string servers_text(const WorldSpec& spec, const std::vector<ServerOutcome>& all) {
  std::string text;
  size_t next = 0;
  for (const ServerGroup& group : spec.servers) {
    uint64_t served = 0, refused = 0, lost = 0;
    double least = 1e9, most = 0, sum = 0;
    for (uint32_t i = 0; i < group.count; ++i) {
      const ServerOutcome& server = all[next++];
      served += server.served;
      refused += server.refused;
      lost += server.lost;
      least = std::min(least, server.busy_share);
      most = std::max(most, server.busy_share);
      sum += server.busy_share;
    }
    text += fmt::format(
        "servers {} x {}: {} with {} workers, busy {:.1f} % ({:.1f} to {:.1f}), served {}, "
        "refused {}, lost {}\n",
        group.name, group.count, group.policy, group.setup.workers, 100 * sum / group.count,
        100 * least, 100 * most, served, refused, lost);
  }
  return text;
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

Json clients_json(const WorldSpec& spec, const GroupOutcome& group, double measured_s) {
  Json types = Json::array();
  for (const auto& [name, latency] : group.types) {
    if (latency.empty()) continue;
    types.push_back({{"name", name}, {"count", latency.count()},
                     {"latency_us", latency_json(latency)},
                     {"latency_histogram_ns", histogram_json(latency)}});
  }
  return {{"name", group.name},
          {"offered_rps", static_cast<double>(group.calls) / measured_s},
          {"achieved_rps", static_cast<double>(group.served) / measured_s},
          {"calls", group.calls},
          {"served", group.served},
          {"failed", group.failed},
          {"unfinished", group.unfinished},
          {"latency_us", latency_json(group.latency)},
          {"latency_histogram_ns", histogram_json(group.latency)},
          {"types", std::move(types)},
          {"requests", group.requests},
          {"attempts", group.attempts},
          {"retries", group.retries},
          {"hedges", group.hedges},
          {"timeouts", group.timeouts},
          {"refusals", group.refusals},
          {"over_budget", group.over_budget},
          {"wasted", group.wasted},
          {"cancelled", group.cancelled},
          {"timeline", timeline_json(spec, group)}};
}

}  // namespace

std::string fleet_table(const WorldSpec& spec, const Replications& runs, bool timeline) {
  const WorldOutcome& outcome = runs.pooled;
  std::string text;
  if (runs.seeds > 1) {
    text = fmt::format("seeds {} to {}, 95 % intervals\n", spec.seed, spec.seed + runs.seeds - 1);
  }
  for (size_t i = 0; i < outcome.clients.size(); ++i) text += clients_text(runs, i);
  text += servers_text(spec, outcome.servers);
  for (const GroupOutcome& group : outcome.clients) {
    if (timeline) text += timeline_text(spec, group, runs.seeds);
  }
  return text;
}

std::string fleet_json(const WorldSpec& spec, const Replications& runs, const std::string& world,
                       const std::string& version) {
  const WorldOutcome& outcome = runs.pooled;
  Json clients = Json::array(), servers = Json::array();
  for (const GroupOutcome& group : outcome.clients) {
    clients.push_back(clients_json(spec, group, outcome.measured.seconds()));
  }
  for (const ServerOutcome& server : outcome.servers) {
    servers.push_back({{"group", server.name},
                       {"utilization", server.busy_share},
                       {"served", server.served},
                       {"refused", server.refused},
                       {"lost", server.lost}});
  }
  Json json = {{"schema", "rubato.fleet/1"},
               {"world", world},
               {"seed", spec.seed},
               {"seeds", runs.seeds},
               {"length_s", spec.length.seconds()},
               {"warmup", spec.warmup},
               {"slice_s", spec.slice.seconds()},
               {"valid", !outcome.stopped},
               {"clients", std::move(clients)},
               {"servers", std::move(servers)},
               {"version", version}};
  if (!runs.confidence.empty()) {
    Json confidence = {{"level", 0.95}};
    for (const sim::Confidence& one : runs.confidence) {
      confidence[Json::json_pointer(one.path)] = one.half_width;
    }
    json["confidence"] = std::move(confidence);
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rubato::cli
