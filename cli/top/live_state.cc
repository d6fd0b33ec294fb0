// SPDX-License-Identifier: Apache-2.0
#include "cli/top/live_state.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "metrics/histogram_json.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "rubato.state/1";

// What does not fit. Thrown and caught in this file, as the library's own errors are.
struct Misfit {
  std::string message;
};

Histogram histogram_at(const Json& json, const char* key) {
  Result<Histogram> parsed = parse_histogram(json.at(key));
  if (!parsed) throw Misfit{std::string(key) + ": " + parsed.error()};
  return std::move(*parsed);
}

TypeState type_of(const Json& json) {
  return {json.at("number"),
          json.at("name"),
          json.at("finished"),
          json.at("waited_us"),
          json.at("service_us"),
          histogram_at(json, "latency_ns"),
          histogram_at(json, "service_ns")};
}

WorkerState worker_of(const Json& json) {
  return {json.at("state"),     json.at("type"),        json.at("for_us"),
          json.at("suspended"), json.at("preemptions"), json.at("busy_us")};
}

QueueState queue_of(const Json& json) {
  return {json.at("name"), json.at("queues"), json.at("depth"), json.at("deepest")};
}

RefusalState refusal_of(const Json& json) {
  return {json.at("reason"), json.at("class"), json.at("requests")};
}

BlockedState blocked_of(const Json& json) {
  return {json.at("victim"), json.at("blocker"), json.at("requests"), json.at("held_us")};
}

template <class T>
std::vector<T> all_of(const Json& json, const char* key, T (*one)(const Json&)) {
  std::vector<T> all;
  for (const Json& entry : json.at(key)) all.push_back(one(entry));
  return all;
}

template <class T>
std::map<std::string, T> values_of(const Json& json, const char* key) {
  std::map<std::string, T> values;
  for (const auto& entry : json.at(key).items()) values[entry.key()] = entry.value().get<T>();
  return values;
}

LiveState state_of(const Json& json) {
  if (json.at("schema") != kSchema) throw Misfit{std::string("the schema is not ") + kSchema};
  LiveState state;
  state.time_us = json.at("time_us");
  state.pid = json.at("pid");
  state.version = json.at("version");
  state.policy = json.at("policy");
  state.serving = json.at("serving");
  state.counters = values_of<uint64_t>(json, "counters");
  state.figures = values_of<double>(json, "figures");
  for (const Json& delay : json.at("delays")) {
    state.queue_delays_us[delay.at("class")] = delay.at("queue_delay_us");
  }
  state.memory = values_of<uint64_t>(json, "memory");
  state.types = all_of(json, "types", type_of);
  state.workers = all_of(json, "workers", worker_of);
  state.queues = all_of(json, "queues", queue_of);
  state.refusals = all_of(json, "refusals", refusal_of);
  state.blocked = all_of(json, "blocked", blocked_of);
  const Json& credits = json.at("credits");
  if (!credits.is_null()) {
    state.credits = CreditState{credits.at("sessions"), credits.at("drained"), credits.at("total"),
                                credits.at("issued")};
  }
  state.plan = json.at("plan").get<std::vector<std::string>>();
  return state;
}

}  // namespace

Result<LiveState> parse_live_state(std::string_view text) {
  try {
    return state_of(Json::parse(text));
  } catch (const Misfit& misfit) {
    return Error{"no state of a server: " + misfit.message};
  } catch (const Json::exception& error) {
    return Error{std::string("no state of a server: ") + error.what()};
  }
}

}  // namespace rubato::cli
