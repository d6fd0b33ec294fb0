// SPDX-License-Identifier: Apache-2.0
#include "sim/simulation.h"

#include <cmath>
#include <string>

#include "base/limits.h"
#include "base/name_list.h"
#include "metrics/buckets.h"
#include "overload/cores/rule.h"
#include "policy/aliases.h"
#include "policy/unit.h"
#include "sim/cost_file.h"
#include "sim/critical_sections.h"
#include "sim/event_queue.h"
#include "sim/hosted_server.h"
#include "sim/hyperthreads.h"
#include "sim/piped_policy.h"
#include "sim/sim_policy.h"
#include "sim/stalls.h"

namespace rubato::sim {
namespace {

// Of a server's events, beside the workers (sim/event_sources.h).
constexpr uint32_t kMostOtherSources = limits::kMaxManagers + 8;

Status check_speeds(const Setup& setup) {
  if (setup.worker_speeds.empty()) return Done{};
  if (setup.worker_speeds.size() != setup.workers) {
    return Error{"worker_speeds: takes one for each worker"};
  }
  for (const double speed : setup.worker_speeds) {
    if (!(speed >= Setup::kLeastSpeed && speed <= 1)) {
      return Error{"worker_speeds: takes 0.1 to 1, the fastest worker's"};
    }
  }
  if (any(setup.costs.stalls) || setup.costs.hyperthreads.threads > 0 ||
      setup.costs.critical_sections.lock != Lock::kNone || setup.elastic) {
    return Error{"worker_speeds: goes with neither stalls, hyperthreads, locks nor sessions"};
  }
  return Done{};
}

// Longer services than a histogram holds would all count as the longest that it does.
Status check_services(const WorkloadSpec& workload) {
  constexpr Nanos kTop = Nanos(static_cast<int64_t>(buckets::kTop));
  for (const RequestType& type : types_of(workload)) {
    if (type.service.mean < kTop) continue;
    return Error{"workload: '" + type.name + "' takes " +
                 std::to_string(std::llround(type.service.mean.seconds())) +
                 " s on average; latencies are measured up to " +
                 std::to_string(kTop.count() / 1'000'000'000) + " s"};
  }
  return Done{};
}

Status check(const Setup& setup) {
  if (Status fit = validate(setup.workload); !fit) return fit;
  if (Status fit = check_services(setup.workload); !fit) return fit;
  if (setup.workers < 1 || setup.workers > limits::kSimulatedWorkers) {
    return Error{"workers: takes 1 to " + std::to_string(limits::kSimulatedWorkers)};
  }
  if (Status fit = check_stalls(setup.costs.stalls); !fit) return fit;
  for (const Status& fit :
       {check_hyperthreads(setup.costs), check_critical_sections(setup.costs),
        check_poll(setup.costs.worker)}) {
    if (!fit) return Error{"costs: " + fit.error()};
  }
  const uint32_t threads = setup.costs.hyperthreads.threads;
  if (threads > 0 && threads < setup.workers) {
    return Error{"costs: hyperthreads.threads: the machine has fewer than there are workers"};
  }
  if (Status fit = check_speeds(setup); !fit) return fit;
  if (setup.requests < 1) return Error{"requests: takes 1 or more"};
  if (!(setup.warmup >= 0 && setup.warmup < 1)) return Error{"warmup: takes a share below 1"};
  const double seconds = static_cast<double>(setup.requests) / mean_rate(setup.workload);
  // Half of what the events of such a server can express: overload takes longer than its arrivals.
  const Instant latest = EventQueue::latest(setup.workers + kMostOtherSources);
  const double longest = static_cast<double>(latest.ns()) / 2e9;
  if (seconds > longest) {
    return Error{"requests: more than " + std::to_string(static_cast<int64_t>(longest / 86'400)) +
                 " days of simulated time at this rate, too many for so many workers"};
  }
  return Done{};
}

Status check_elastic(const Setup& setup) {
  const ElasticSetup& elastic = *setup.elastic;
  const auto rule =
      overload::CoreRule::make(elastic.cores, elastic.cores_settings, setup.workers);
  if (!rule) return Error{rule.error()};
  if (elastic.clients.sessions < 1 || elastic.clients.sessions > ClientSettings::kMostSessions) {
    return Error{"sessions: takes 1 to " + std::to_string(ClientSettings::kMostSessions)};
  }
  if (elastic.guaranteed > setup.workers) return Error{"guaranteed: there are fewer workers"};
  if (setup.costs.critical_sections.lock == Lock::kYield) {
    return Error{"costs: critical_sections.lock = \"yield\" does not go with sessions and cores"};
  }
  if (has_dispatcher(setup.costs)) {
    return Error{"costs: sessions and cores do not go with a machine that has a dispatcher"};
  }
  return Done{};
}

auto sim_policies() {
  return of_each_policy_unit<RUBATO_POLICIES>(
      []<uint32_t kUnit>(PolicyUnit<kUnit>) { return &sim_policy<kUnit>(); });
}

std::string names_of_elastic_policies() {
  std::string names;
  for (const SimPolicy* policy : sim_policies()) {
    if (policy->simulate_elastic != nullptr) add_name(names, policy->name);
  }
  return names;
}

const SimPolicy* find_sim_policy(std::string_view name) {
  for (const SimPolicy* one : sim_policies()) {
    if (policy_called(name) == one->name) return one;
  }
  return nullptr;
}

Error no_policy(std::string_view name) {
  return Error{"policy: there is no '" + std::string(name) + "'"};
}

}  // namespace

Result<Outcome> simulate(std::string_view policy, const Settings& settings, const Setup& setup,
                         const Watch& watch) {
  if (Status fit = check(setup); !fit) return Error{fit.error()};
  if (setup.elastic) {
    if (Status fit = check_elastic(setup); !fit) return Error{fit.error()};
  }
  if (is_piped(policy)) {
    if (setup.elastic) return Error{"policy: sessions and cores do not go with one over a pipe"};
    return simulate_piped(policy, setup, watch);
  }
  const SimPolicy* const one = find_sim_policy(policy);
  if (one == nullptr) return no_policy(policy);
  if (!setup.elastic) return one->simulate(settings, setup, watch);
  if (one->simulate_elastic != nullptr) return one->simulate_elastic(settings, setup, watch);
  return Error{"policy: sessions and cores go with " + names_of_elastic_policies() + ", not '" +
               std::string(policy) + "'"};
}

Result<std::unique_ptr<HostedServer>> host_server(std::string_view policy, const Settings& settings,
                                                  const Setup& setup, ServerClient& client) {
  Setup hosted = setup;
  hosted.requests = 1;
  hosted.warmup = 0;
  if (Status fit = check(hosted); !fit) return Error{fit.error()};
  if (setup.elastic) return Error{"sessions: a hosted server has none"};
  const SimPolicy* const one = find_sim_policy(policy);
  if (one == nullptr) return no_policy(policy);
  hosted.requests = UINT64_MAX;  // the load ends when the world does
  return one->host(settings, hosted, client);
}

}  // namespace rubato::sim
