// SPDX-License-Identifier: Apache-2.0
#include "cli/load/combine_reports.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "metrics/histogram_json.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

// A histogram is left out where nothing was recorded.
Status add_histogram(const Json& type, const char* key, Histogram& sum) {
  const auto found = type.find(key);
  if (found == type.end()) return Done{};
  Result<Histogram> more = parse_histogram(*found);
  if (!more) return Error{more.error()};
  sum.merge(*more);
  return Done{};
}

Status add_type(const Json& from, TypeReport& into) {
  into.count += from.at("count").get<uint64_t>();
  into.refused += from.at("refused").get<uint64_t>();
  into.errors += from.at("errors").get<uint64_t>();
  into.lost += from.at("lost").get<uint64_t>();
  if (Status done = add_histogram(from, "latency_histogram_ns", into.histograms.latency); !done) {
    return done;
  }
  return add_histogram(from, "slowdown_histogram_thousandths", into.histograms.slowdown);
}

Status add_types(const Json& from, std::vector<TypeReport>& into) {
  if (into.empty()) {
    for (const Json& type : from) {
      TypeReport first;
      first.name = type.at("name").get<std::string>();
      first.share = type.at("share").get<double>();
      const Json& service = type.at("service_us");
      if (!service.is_null()) first.service_us = service.get<double>();
      into.push_back(std::move(first));
    }
  }
  if (from.size() != into.size()) return Error{"has other types"};
  for (size_t i = 0; i < into.size(); ++i) {
    if (from[i].at("name") != into[i].name) return Error{"has other types"};
    if (Status done = add_type(from[i], into[i]); !done) return done;
  }
  return Done{};
}

void add_own_troubles(const Json& from, RunReport& into) {
  if (const auto lag = from.find("send_lag_us"); lag != from.end()) {
    if (!into.send_lag) into.send_lag.emplace();
    into.send_lag->p99_us = std::max(into.send_lag->p99_us, lag->at("p99").get<double>());
    into.send_lag->max_us = std::max(into.send_lag->max_us, lag->at("max").get<double>());
    into.send_lag->unsent += lag->at("unsent").get<uint64_t>();
  }
  if (const auto unsent = from.find("unsent"); unsent != from.end()) {
    if (!into.unsent) into.unsent.emplace();
    into.unsent->expired += unsent->at("expired").get<uint64_t>();
    into.unsent->overflowed += unsent->at("overflowed").get<uint64_t>();
    into.unsent->withheld += unsent->at("withheld").get<uint64_t>();
  }
  if (const auto servers = from.find("servers"); servers != from.end()) {
    into.servers.resize(servers->size());
    for (size_t i = 0; i < servers->size(); ++i) {
      into.servers[i].name = servers->at(i).at("name").get<std::string>();
      into.servers[i].count += servers->at(i).at("count").get<uint64_t>();
    }
  }
  const auto noise = from.find("noise");
  if (noise == from.end()) return;
  if (!into.noise) into.noise.emplace();
  const auto raise = [&noise](const char* key, double& value) {
    value = std::max(value, noise->at(key).get<double>());
  };
  raise("gaps_over_50us_per_s", into.noise->over_50us_per_s);
  raise("gaps_over_100us_per_s", into.noise->over_100us_per_s);
  raise("gaps_over_1ms_per_s", into.noise->over_1ms_per_s);
  raise("max_gap_us", into.noise->max_gap_us);
  into.noise->stalls += noise->at("stalls").get<uint64_t>();
  into.noise->stalled_ms += noise->at("stalled_ms").get<double>();
  if (const Json& steal = noise->at("steal_percent"); !steal.is_null()) {
    into.noise->steal_percent =
        std::max(into.noise->steal_percent.value_or(0), steal.get<double>());
  }
}

// What the parts saw of stalls, each on its own machine. Counts and shares follow from the sums.
Status add_undisturbed(const Json& from, RunReport& into) {
  const auto found = from.find("undisturbed");
  if (found == from.end()) return Done{};
  if (!into.undisturbed) into.undisturbed.emplace();
  UndisturbedReport& sum = *into.undisturbed;
  sum.stalls += found->at("stalls").get<uint64_t>();
  sum.stalled_ms += found->at("stalled_ms").get<double>();
  sum.server_threads = std::max(sum.server_threads, found->at("server_threads").get<uint64_t>());
  const Json& rule = found->at("rule");
  sum.floor_us = rule.at("floor_us").get<double>();
  sum.reach_us = rule.at("reach_us").get<double>();
  sum.aftermath = rule.at("aftermath").get<int64_t>();
  const Json& types = found->at("types");
  if (sum.types.empty()) sum.types.resize(types.size());
  if (types.size() != sum.types.size()) return Error{"has other types"};
  for (size_t i = 0; i < types.size(); ++i) {
    sum.types[i].name = types[i].at("name").get<std::string>();
    Histogram& histogram = sum.types[i].histogram;
    if (Status done = add_histogram(types[i], "latency_histogram_ns", histogram); !done) {
      return done;
    }
  }
  return Done{};
}

Status add_part(const Json& from, const std::string& name, RunReport& into) {
  if (from.value("schema", "") != "rubato.run/1") return Error{"is no rubato.run/1"};
  for (const auto& [key, sum] : {std::pair{"requests", &into.requests},
                                 {"refused", &into.refused},
                                 {"errors", &into.errors},
                                 {"lost", &into.lost},
                                 {"timeouts", &into.timeouts}}) {
    *sum += from.at(key).get<uint64_t>();
  }
  into.offered_rps += from.at("offered_rps").get<double>();
  into.achieved_rps += from.at("achieved_rps").get<double>();
  into.wall_s = std::max(into.wall_s, from.at("wall_s").get<double>());
  into.loop = from.at("loop").get<std::string>();
  if (!from.at("valid").get<bool>()) {
    into.valid = false;
    if (into.invalid_reason.empty()) {
      into.invalid_reason = name + ": " + from.at("invalid_reason").get<std::string>();
    }
  }
  add_own_troubles(from, into);
  if (Status done = add_undisturbed(from, into); !done) return done;
  return add_types(from.at("types"), into.types);
}

double share_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void summarize_undisturbed(RunReport& report, uint64_t replies) {
  UndisturbedReport& sum = *report.undisturbed;
  Histogram all;
  for (size_t i = 0; i < sum.types.size(); ++i) {
    UndisturbedReport::Type& type = sum.types[i];
    type.count = type.histogram.count();
    type.share = share_of(type.count, report.types[i].histograms.latency.count());
    type.latency = summarize_latency(type.histogram);
    all.merge(type.histogram);
  }
  sum.share = share_of(all.count(), replies);
  sum.latency = summarize_latency(all);
}

void summarize(RunReport& report) {
  Histogram latency, slowdown;
  for (TypeReport& type : report.types) {
    const auto& [of_type, ratio] = type.histograms;
    type.latency = summarize_latency(of_type);
    if (!ratio.empty()) type.slowdown = summarize_slowdown(ratio);
    latency.merge(of_type);
    slowdown.merge(ratio);
  }
  report.latency = summarize_latency(latency);
  if (report.undisturbed && report.undisturbed->types.size() == report.types.size()) {
    summarize_undisturbed(report, latency.count());
  }
  if (!slowdown.empty()) report.slowdown = summarize_slowdown(slowdown);
}

}  // namespace

Result<RunReport> combine_reports(const std::vector<PartReport>& parts) {
  RunReport report;
  for (const PartReport& part : parts) {
    try {
      const Json json = Json::parse(part.json);
      if (Status done = add_part(json, part.name, report); !done) {
        return Error{"the report of " + part.name + " " + done.error()};
      }
    } catch (const Json::exception& problem) {
      return Error{"the report of " + part.name + " is none of this version: " + problem.what()};
    }
  }
  summarize(report);
  return report;
}

}  // namespace rubato::cli
