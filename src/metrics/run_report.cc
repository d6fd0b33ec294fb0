// SPDX-License-Identifier: Apache-2.0
#include "metrics/run_report.h"

#include <nlohmann/json.hpp>

#include "metrics/histogram_json.h"

namespace rubato {
namespace {

// Keeps the keys in the order they are written, which is the order readers expect.
using Json = nlohmann::ordered_json;

constexpr int kIndent = 1;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json latency_json(const LatencySummary& l) {
  return {{"mean", l.mean_us}, {"p50", l.p50_us},   {"p90", l.p90_us},
          {"p99", l.p99_us},   {"p999", l.p999_us}, {"max", l.max_us}};
}

Json slowdown_json(const std::optional<SlowdownSummary>& s) {
  if (!s) return nullptr;
  return {
      {"mean", s->mean}, {"p50", s->p50}, {"p90", s->p90}, {"p99", s->p99}, {"p999", s->p999}};
}

Json type_json(const TypeReport& t) {
  Json json = {{"name", t.name},
               {"service_us", or_null(t.service_us)},
               {"share", t.share},
               {"count", t.count},
               {"refused", t.refused},
               {"errors", t.errors},
               {"lost", t.lost},
               {"latency_us", latency_json(t.latency)},
               {"slowdown", slowdown_json(t.slowdown)}};
  if (!t.ccdf.empty()) json["ccdf"] = t.ccdf;
  if (!t.histograms.latency.empty()) {
    json["latency_histogram_ns"] = histogram_json(t.histograms.latency);
  }
  if (!t.histograms.slowdown.empty()) {
    json["slowdown_histogram_thousandths"] = histogram_json(t.histograms.slowdown);
  }
  return json;
}

Json counters_json(const std::optional<SchedulerCounters>& c) {
  if (!c) return nullptr;
  Json json = {{"preemptions", c->preemptions},
               {"preemptions_avoided", c->preemptions_avoided},
               {"steals", c->steals},
               {"stolen", c->stolen},
               {"wait_queue_max", c->wait_queue_max},
               {"migrations", c->migrations},
               {"parked", c->parked}};
  for (const auto& [name, value] : c->more) json[name] = value;
  return json;
}

Json machine_json(const MachineInfo& m) {
  return {{"cpu", m.cpu_model},
          {"cores", m.cores},
          {"kernel", m.kernel},
          {"virtualised", m.virtualised}};
}

Json noise_json(const NoiseReport& n) {
  return {{"gaps_over_50us_per_s", n.over_50us_per_s},
          {"gaps_over_100us_per_s", n.over_100us_per_s},
          {"gaps_over_1ms_per_s", n.over_1ms_per_s},
          {"max_gap_us", n.max_gap_us},
          {"steal_percent", or_null(n.steal_percent)},
          {"stalls", n.stalls},
          {"stalled_ms", n.stalled_ms}};
}

Json undisturbed_json(const UndisturbedReport& u) {
  Json types = Json::array();
  for (const UndisturbedReport::Type& t : u.types) {
    types.push_back({{"name", t.name},
                     {"count", t.count},
                     {"share", t.share},
                     {"latency_us", latency_json(t.latency)}});
    if (!t.histogram.empty()) types.back()["latency_histogram_ns"] = histogram_json(t.histogram);
  }
  return {{"share", u.share},
          {"stalls", u.stalls},
          {"stalled_ms", u.stalled_ms},
          {"server_threads", u.server_threads},
          {"rule", {{"floor_us", u.floor_us}, {"reach_us", u.reach_us},
                    {"aftermath", u.aftermath}}},
          {"latency_us", latency_json(u.latency)},
          {"types", std::move(types)}};
}

Json timeline_json(const RunReport& r) {
  Json slices = Json::array();
  for (const TimelineSlice& slice : r.timeline) {
    Json types = Json::object();
    for (size_t i = 0; i < slice.types.size() && i < r.types.size(); ++i) {
      const TimelineSlice::Type& t = slice.types[i];
      types[r.types[i].name] = {{"count", t.count},
                                {"p50", t.p50_us},
                                {"p99", t.p99_us},
                                {"p999", t.p999_us},
                                {"max", t.max_us}};
    }
    slices.push_back({{"start_s", slice.start_s}, {"latency_us", std::move(types)}});
  }
  return {{"slice_s", r.timeline_slice_s}, {"slices", std::move(slices)}};
}

void add_live_parts(Json& json, const RunReport& r) {
  if (!r.invalid_reason.empty()) json["invalid_reason"] = r.invalid_reason;
  if (!r.loop.empty()) json["loop"] = r.loop;
  if (!r.target.empty()) json["target"] = r.target;
  if (!r.arrivals.empty()) json["arrivals"] = r.arrivals;
  if (!r.command.empty()) json["command"] = r.command;
  if (r.send_lag) {
    json["send_lag_us"] = {
        {"p99", r.send_lag->p99_us}, {"max", r.send_lag->max_us}, {"unsent", r.send_lag->unsent}};
  }
  for (const ServerReplies& server : r.servers) {
    json["servers"].push_back({{"name", server.name}, {"count", server.count}});
  }
  if (r.unsent) {
    json["unsent"] = {{"expired", r.unsent->expired},
                      {"overflowed", r.unsent->overflowed},
                      {"withheld", r.unsent->withheld}};
  }
  if (r.noise) json["noise"] = noise_json(*r.noise);
  if (r.undisturbed) json["undisturbed"] = undisturbed_json(*r.undisturbed);
  if (!r.timeline.empty()) json["timeline"] = timeline_json(r);
  if (!r.settings.empty()) {
    Json settings = Json::object();
    for (const auto& [name, value] : r.settings) settings[name] = value;
    json["settings"] = std::move(settings);
  }
}

}  // namespace

LatencySummary summarize_latency(const Histogram& h) {
  return {h.mean_ns() / 1e3,         h.percentile(50).micros(),   h.percentile(90).micros(),
          h.percentile(99).micros(), h.percentile(99.9).micros(), h.max().micros()};
}

SlowdownSummary summarize_slowdown(const Histogram& h) {
  const auto at = [&](double percent) {
    return static_cast<double>(h.percentile(percent).count()) / kSlowdownUnit;
  };
  return {h.mean_ns() / kSlowdownUnit, at(50), at(90), at(99), at(99.9)};
}

std::vector<std::pair<double, double>> ccdf_of(const Histogram& latency) {
  std::vector<std::pair<double, double>> points;
  uint64_t left = latency.count();
  const double total = static_cast<double>(left);
  latency.for_each_bucket([&](Nanos low, Nanos high, uint64_t count) {
    left -= count;
    points.emplace_back((low.micros() + high.micros()) / 2, static_cast<double>(left) / total);
  });
  return points;
}

std::string to_json(const RunReport& r) {
  Json types = Json::array();
  for (const TypeReport& type : r.types) types.push_back(type_json(type));
  Json json = {{"schema", "rubato.run/1"},
               {"kind", r.kind},
               {"policy", r.policy},
               {"workers", r.workers},
               {"workload", r.workload},
               {"seed", r.seed},
               {"offered_rps", r.offered_rps},
               {"achieved_rps", r.achieved_rps},
               {"load", or_null(r.load)},
               {"requests", r.requests},
               {"refused", r.refused},
               {"lost", r.lost},
               {"errors", r.errors},
               {"timeouts", r.timeouts},
               {"valid", r.valid},
               {"latency_us", latency_json(r.latency)},
               {"slowdown", slowdown_json(r.slowdown)},
               {"types", std::move(types)},
               {"counters", counters_json(r.counters)},
               {"utilization", or_null(r.utilization)},
               {"wall_s", r.wall_s},
               {"cost_model", r.cost_model},
               {"machine", machine_json(r.machine)},
               {"version", r.version}};
  add_live_parts(json, r);
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rubato
