// SPDX-License-Identifier: Apache-2.0
#include "runtime/state_json.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "mechanism/clock/clock.h"
#include "mechanism/cpu/process_memory.h"
#include "metrics/histogram_json.h"
#include "runtime/overload_exposition.h"

namespace rubato {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<JobClass, const char*> kClasses[] = {{JobClass::kShort, "short"},
                                                         {JobClass::kLong, "long"}};

// The extremes of a snapshot may be newer than its counts (metrics/histogram.h), so those of its
// buckets are told.
Json settled(const Histogram& values) {
  Histogram counts;
  values.for_each_bucket([&counts](Nanos low, Nanos high, uint64_t count) {
    counts.record_many(low + (high - low - Nanos(1)) / 2, count);
  });
  Json json = histogram_json(counts);
  json["sum"] = values.sum_ns();
  json["overflow"] = values.overflow();
  return json;
}

Json types_json(const Runtime& runtime, const ExposedTypes& types) {
  Json all = Json::array();
  for (uint32_t type = 0; type < types.count; ++type) {
    const Histogram service = runtime.service(type);
    if (service.empty()) continue;
    const ServedFigures served = runtime.served(type);
    all.push_back({{"number", type},
                   {"name", types.name(type)},
                   {"finished", served.finished},
                   {"waited_us", served.waited.micros()},
                   {"service_us", served.service.micros()},
                   {"latency_ns", settled(runtime.latency(type))},
                   {"service_ns", settled(service)}});
  }
  return all;
}

Json workers_json(const std::vector<WorkerActivity>& workers, const ExposedTypes& types) {
  Json all = Json::array();
  for (const WorkerActivity& worker : workers) {
    all.push_back({{"state", worker.busy ? "runs" : worker.asleep ? "sleeps" : "awake"},
                   {"type", worker.busy ? types.name(worker.type) : ""},
                   {"for_us", worker.busy_for.micros()},
                   {"unpolled_us", worker.unpolled.micros()},
                   {"suspended", worker.suspended},
                   {"requests", worker.requests},
                   {"preemptions", worker.preemptions},
                   {"busy_us", worker.busy_total.micros()}});
  }
  return all;
}

// With that of the slices that run now.
int64_t busy_ns(const std::vector<WorkerActivity>& workers) {
  Nanos sum;
  for (const WorkerActivity& worker : workers) sum += worker.busy_total;
  return sum.count();
}

Json queues_json(const Runtime& runtime) {
  struct Depths {
    uint64_t queues = 0, sum = 0, deepest = 0;
  };
  std::map<std::string, Depths> by_name;
  for (const QueueDepth& queue : runtime.queue_depths()) {
    Depths& depths = by_name[queue.name];
    ++depths.queues;
    depths.sum += queue.depth;
    depths.deepest = std::max<uint64_t>(depths.deepest, queue.depth);
  }
  Json all = Json::array();
  for (const auto& [name, depths] : by_name) {
    all.push_back({{"name", name},
                   {"queues", depths.queues},
                   {"depth", depths.sum},
                   {"deepest", depths.deepest}});
  }
  return all;
}

Json refusals_json(const RuntimeStats& stats) {
  Json all = Json::array();
  for (uint32_t why = 0; why < kRefusals; ++why) {
    for (const auto& [job_class, name] : kClasses) {
      all.push_back({{"reason", name_of(static_cast<Refusal>(why))},
                     {"class", name},
                     {"requests", stats.refusals[why][static_cast<size_t>(job_class)]}});
    }
  }
  return all;
}

Json delays_json(const Runtime& runtime) {
  Json all = Json::array();
  for (const auto& [job_class, name] : kClasses) {
    all.push_back({{"class", name}, {"queue_delay_us", runtime.queue_delay(job_class).micros()}});
  }
  return all;
}

Json blocked_json(const Runtime& runtime, const ExposedTypes& types) {
  const auto name = [&types](uint32_t type) {
    return type == BlockedPair::kOther ? std::string("other") : types.name(type);
  };
  Json all = Json::array();
  for (const BlockedPair& pair : runtime.blocked()) {
    all.push_back({{"victim", name(pair.victim)},
                   {"blocker", name(pair.blocker)},
                   {"requests", pair.requests},
                   {"held_us", pair.held.micros()}});
  }
  return all;
}

Json credits_json(const RuntimeOptions& options) {
  if (options.credits == nullptr) return nullptr;
  const CreditReport report = options.credits->report();
  return {{"sessions", report.sessions},
          {"drained", report.drained},
          {"total", report.total},
          {"issued", report.issued},
          {"delay_us", report.delay.micros()}};
}

Json memory_json(const MemoryAccount* account) {
  Json memory = {{"resident_bytes", process_memory().resident_bytes}};
  if (account == nullptr) return memory;
  memory["limit_bytes"] = account->limit();
  memory["data_bytes"] = account->data();
  memory["buffers_bytes"] = account->buffers();
  memory["stacks_bytes"] = account->stacks();
  return memory;
}

}  // namespace

std::string state_json(const Runtime& runtime, const Datapath& datapath, const ExposedTypes& types,
                       const StateExtras& extras) {
  const RuntimeStats stats = runtime.stats();
  const DatapathStats flows = datapath.stats();
  const std::vector<WorkerActivity> workers = runtime.activity();
  Json counters = Json::object();
  for (const auto& [name, value] : counter_values(stats, flows)) counters[name] = value;
  counters["busy_ns"] = busy_ns(workers);
  counters["awake_ns"] = stats.awake_ns;
  const Json state = {{"schema", "rubato.state/1"},
                      {"time_us", Nanos(now().ns()).micros()},
                      {"pid", ::getpid()},
                      {"version", extras.version},
                      {"policy", runtime.options().policy},
                      {"serving", runtime.serving()},
                      {"counters", counters},
                      {"figures",
                       {{"flows_open", flows.flows_open},
                        {"cores_granted", stats.cores_granted},
                        {"fibers", stats.fibers},
                        {"overloaded_workers", stats.overloaded},
                        {"in_flight", datapath.in_flight()}}},
                      {"types", types_json(runtime, types)},
                      {"workers", workers_json(workers, types)},
                      {"queues", queues_json(runtime)},
                      {"refusals", refusals_json(stats)},
                      {"delays", delays_json(runtime)},
                      {"blocked", blocked_json(runtime, types)},
                      {"credits", credits_json(runtime.options())},
                      {"memory", memory_json(extras.memory)},
                      {"plan", runtime.explain_policy(types.name, types.count)}};
  return state.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rubato
