// SPDX-License-Identifier: Apache-2.0
//
// States of a server as it would tell them, for tests of what is made of them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "metrics/histogram.h"
#include "metrics/histogram_json.h"

namespace rubato::cli::testing {

struct SampleType {
  std::string name;
  std::vector<std::pair<Nanos, uint64_t>> latencies;  // since the start: each with how many
  double waited_us = 0, service_us = 0;
};

struct Sample {
  double time_s = 0;
  int64_t pid = 7;
  std::vector<SampleType> types = {};
  uint64_t refused = 0;
  uint64_t blocked = 0;  // requests "get" behind a "scan", 500 us each
};

inline Histogram histogram_of(const SampleType& type) {
  Histogram values;
  for (const auto& [value, times] : type.latencies) values.record_many(value, times);
  return values;
}

inline nlohmann::ordered_json type_json(size_t number, const SampleType& type) {
  const Histogram values = histogram_of(type);
  return {{"number", number},
          {"name", type.name},
          {"finished", values.count()},
          {"waited_us", type.waited_us},
          {"service_us", type.service_us},
          {"latency_ns", histogram_json(values)},
          {"service_ns", histogram_json(values)}};
}

inline std::string state_text(const Sample& sample) {
  using Json = nlohmann::ordered_json;
  uint64_t requests = 0;
  Json types = Json::array();
  for (const SampleType& type : sample.types) {
    types.push_back(type_json(types.size(), type));
    requests += histogram_of(type).count();
  }
  const auto worker = [&](const char* state, const char* type, double for_us) {
    return Json{{"state", state}, {"type", type},    {"for_us", for_us}, {"suspended", 1},
                {"requests", 1},  {"preemptions", 2}, {"busy_us", sample.time_s * 4e5}};
  };
  const Json json = {
      {"schema", "rubato.state/1"},
      {"time_us", sample.time_s * 1e6},
      {"pid", sample.pid},
      {"version", "0.2.0"},
      {"policy", "synergy"},
      {"serving", true},
      {"counters",
       {{"requests", requests},
        {"refused", sample.refused},
        {"preemptions", static_cast<uint64_t>(sample.time_s * 10)},
        {"stolen", 0},
        {"busy_ns", static_cast<uint64_t>(sample.time_s * 8e8)},
        {"awake_ns", static_cast<uint64_t>(sample.time_s * 15e8)}}},
      {"figures", {{"flows_open", 4}, {"in_flight", 3}, {"fibers", 12}}},
      {"types", types},
      {"workers", {worker("runs", "scan", 1250), worker("sleeps", "", 0)}},
      {"queues", {{{"name", "inbox"}, {"queues", 2}, {"depth", 5}, {"deepest", 3}}}},
      {"refusals", {{{"reason", "delay"}, {"class", "short"}, {"requests", sample.refused}}}},
      {"delays", {{{"class", "short"}, {"queue_delay_us", 12}}}},
      {"blocked",
       {{{"victim", "get"},
         {"blocker", "scan"},
         {"requests", sample.blocked},
         {"held_us", static_cast<double>(sample.blocked) * 500}}}},
      {"credits", {{"sessions", 2}, {"drained", 1}, {"total", 64}, {"issued", 10}}},
      {"memory",
       {{"resident_bytes", 33'554'432}, {"limit_bytes", 67'108'864}, {"data_bytes", 1'048'576}}},
      {"plan", {"workers look at their own inbox first"}}};
  return json.dump();
}

}  // namespace rubato::cli::testing
