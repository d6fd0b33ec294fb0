// SPDX-License-Identifier: Apache-2.0
#include "fleet/world_spec.h"

#include <algorithm>
#include <numeric>

#include "overload/limiter_rules.h"
#include "sim/piped_policy.h"

namespace rubato::fleet {
namespace {

Status check_episodes(const std::string& of, const char* what, const std::vector<Episode>& all) {
  Nanos before;
  for (const Episode& one : all) {
    if (one.from < before || one.until <= one.from || !(one.factor > 0 && one.factor <= 1000)) {
      return Error{of + what + ": takes times that rise, and factors above 0, to 1000"};
    }
    before = one.until;
  }
  return Done{};
}

Status check_servers(const ServerGroup& group) {
  const std::string of = "servers '" + group.name + "': ";
  if (!(group.speed > 0 && group.speed <= 1000)) return Error{of + "speed: takes 0 to 1000"};
  if (group.count < 1) return Error{of + "count: takes 1 or more"};
  return check_episodes(of, "slow", group.slow);
}

Status check_retries(const ClientGroup& group, const std::string& of) {
  if (group.attempts < 1 || group.attempts > WorldSpec::kMostAttempts) {
    return Error{of + "attempts: takes 1 to 100"};
  }
  const auto share = [](double value) { return value >= 0 && value <= 10; };
  if (group.retry_budget && !share(*group.retry_budget)) {
    return Error{of + "retry_budget: takes 0 to 10 per request"};
  }
  if (!share(group.hedge_budget)) return Error{of + "hedge_budget: takes 0 to 10 per request"};
  if (!(group.hedge_percentile >= 0 && group.hedge_percentile < 100)) {
    return Error{of + "hedge: takes a percentile below 100"};
  }
  if (group.timeout <= Nanos() || group.hedge_after <= Nanos() || group.backoff < Nanos() ||
      group.longest_backoff < group.backoff || group.rtt < Nanos()) {
    return Error{of + "timeout, hedge, backoff, rtt: a time does not fit"};
  }
  if (group.deadlines && group.timeout == Nanos::max()) {
    return Error{of + "deadlines: needs a timeout"};
  }
  return Done{};
}

bool tells_levels(const ServerGroup& group) {
  return group.setup.limiter && !overload::goes_by_latency(*group.setup.limiter);
}

// Do its policy or its overload control look at Job::priority?
bool uses_priorities(const ServerGroup& group) {
  const auto has_levels = [](const auto& setting) {
    return setting.first == "levels" && setting.second != "1";
  };
  return std::any_of(group.settings.begin(), group.settings.end(), has_levels) ||
         tells_levels(group) || sim::is_piped(group.policy);
}

Status check_priorities(const ClientGroup& group, const WorldSpec& spec) {
  if (group.heeds_levels &&
      std::none_of(spec.servers.begin(), spec.servers.end(), tells_levels)) {
    return Error{"clients '" + group.name + "': heeds_levels: no server has levels: that needs "
                 "overload = \"cinnamon\" or \"dagor\""};
  }
  if (group.priorities.empty() ||
      std::any_of(spec.servers.begin(), spec.servers.end(), uses_priorities)) {
    return Done{};
  }
  return Error{"clients '" + group.name + "': priorities: no server looks at them: they need "
               "overload = \"cinnamon\" or \"dagor\", or `levels` above 1 of a policy"};
}

Status check_clients(const ClientGroup& group) {
  const std::string of = "clients '" + group.name + "': ";
  if (group.machines < 1 || group.machines > WorldSpec::kMostMachines) {
    return Error{of + "machines: takes 1 to 10000"};
  }
  if (group.users > WorldSpec::kMostUsers) return Error{of + "users: takes up to 1000000"};
  if (group.fan_out < 1 || group.fan_out > WorldSpec::kMostFanOut) {
    return Error{of + "fan_out: takes 1 to 1000"};
  }
  if (group.users > 0 && !group.surges.empty()) {
    return Error{of + "surge: is of open clients, which have a rate"};
  }
  if (group.workload.trace != nullptr && !group.surges.empty()) {
    return Error{of + "surge: a trace has its own times"};
  }
  if (group.workload.mixes.size() != 1) return Error{of + "workload: is required"};
  if (group.users == 0) {
    if (Status fits = rubato::validate(group.workload); !fits) return Error{of + fits.error()};
  }
  if (Status fits = check_episodes(of, "surge", group.surges); !fits) return fits;
  const auto& types = group.workload.mixes[0].types();
  for (const auto& [name, priority] : group.priorities) {
    const auto named = [&wanted = name](const RequestType& type) { return type.name == wanted; };
    if (std::none_of(types.begin(), types.end(), named)) {
      return Error{of + "priorities: the workload has no type '" + name + "'"};
    }
  }
  return check_retries(group, of);
}

}  // namespace

Status validate(const WorldSpec& spec) {
  if (spec.servers.empty()) return Error{"servers: needs one group or more"};
  if (spec.clients.empty()) return Error{"clients: needs one group or more"};
  if (spec.length <= Nanos() || spec.slice <= Nanos() ||
      spec.length.count() / spec.slice.count() > 100'000) {
    return Error{"length, slice: take times above 0, and up to 100000 slices"};
  }
  if (!(spec.warmup >= 0 && spec.warmup < 1)) return Error{"warmup: takes a share below 1"};
  for (const ServerGroup& group : spec.servers) {
    if (Status fits = check_servers(group); !fits) return fits;
  }
  if (servers_in(spec) > WorldSpec::kMostServers) return Error{"servers: takes up to 1000"};
  for (const ClientGroup& group : spec.clients) {
    if (Status fits = check_clients(group); !fits) return fits;
    if (Status fits = check_priorities(group, spec); !fits) return fits;
  }
  return Done{};
}

uint32_t servers_in(const WorldSpec& spec) {
  uint64_t sum = 0;
  for (const ServerGroup& group : spec.servers) sum += group.count;
  return static_cast<uint32_t>(std::min<uint64_t>(sum, UINT32_MAX));
}

double capacity_of(const WorldSpec& spec) {
  double sum = 0;
  for (const ServerGroup& group : spec.servers) {
    const std::vector<double>& speeds = group.setup.worker_speeds;
    const double workers = speeds.empty() ? group.setup.workers
                                          : std::accumulate(speeds.begin(), speeds.end(), 0.0);
    sum += group.count * workers * group.speed;
  }
  return sum;
}

}  // namespace rubato::fleet
