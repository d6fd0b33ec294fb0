// SPDX-License-Identifier: Apache-2.0
#include "fleet/measured.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/start_up.h"

namespace rubato::fleet {
namespace {

using sim::Batch;

// Does the same happen all the time?
bool is_stationary(const WorldSpec& spec) {
  const auto slows = [](const ServerGroup& group) { return !group.slow.empty(); };
  const auto changes = [](const ClientGroup& group) {
    return !group.surges.empty() || (group.users == 0 && !sim::is_stationary(group.workload));
  };
  return std::none_of(spec.servers.begin(), spec.servers.end(), slows) &&
         std::none_of(spec.clients.begin(), spec.clients.end(), changes);
}

void add(sim::Progress& sum, const sim::Progress& other) {
  sum.arrived += other.arrived;
  sum.done += other.done;
  sum.in_system += other.in_system;
  sum.work += other.work;
  sum.useful += other.useful;
}

// Of all groups of clients, without latencies.
std::vector<Batch> all_calls(const WorldOutcome& outcome) {
  std::vector<Batch> all;
  for (const GroupOutcome& group : outcome.clients) {
    all.resize(group.batches.size() - outcome.first_batch);
    for (size_t i = 0; i < all.size(); ++i) {
      const Batch& batch = group.batches[outcome.first_batch + i].times;
      all[i].begin.at = batch.begin.at;
      all[i].end.at = batch.end.at;
      add(all[i].begin, batch.begin);
      add(all[i].end, batch.end);
    }
  }
  return all;
}

// Calls f(group, index of its first server).
template <class F>
void for_each_group(const WorldSpec& spec, F&& f) {
  size_t next = 0;
  for (const ServerGroup& group : spec.servers) {
    f(group, next);
    next += group.count;
  }
}

uint64_t learning_of(const WorldOutcome& outcome, const ServerGroup& group, size_t first) {
  return outcome.servers[first].learning * group.count;
}

size_t start_up_of(const WorldSpec& spec, const WorldOutcome& outcome) {
  if (!is_stationary(spec)) return 0;
  size_t first = 0;
  for (const GroupOutcome& group : outcome.clients) {
    first = std::max(first, sim::start_up(times_of(group.batches), 0));
  }
  for_each_group(spec, [&](const ServerGroup& group, size_t server) {
    const std::vector<Batch> batches = server_batches(outcome, server, group.count);
    first = std::max(first, sim::start_up(batches, learning_of(outcome, group, server)));
  });
  return first;
}

void sum_clients(GroupOutcome& group, size_t first) {
  for (size_t i = 0; i < group.batches.size(); ++i) {
    const CallBatch& batch = group.batches[i];
    (i < first ? group.left_out : static_cast<CallCounts&>(group)) += batch.counts;
    if (i < first) continue;
    for (size_t type = 0; type < group.types.size(); ++type) {
      batch.times.types[type].latency.add_to(group.types[type].second);
      batch.times.types[type].latency.add_to(group.latency);
    }
  }
}

void sum_servers(const WorldSpec& spec, WorldOutcome& outcome) {
  for_each_group(spec, [&outcome](const ServerGroup& group, size_t first) {
    for (size_t i = first; i < first + group.count; ++i) {
      ServerOutcome& server = outcome.servers[i];
      const Nanos busy = server.marks.back().sums.useful -
                         server.marks[outcome.first_batch].sums.useful;
      server.busy_share = static_cast<double>(busy.count()) /
                          (static_cast<double>(outcome.measured.count()) * group.setup.workers);
    }
  });
}

// ---- The verdict --------------------------------------------------------------------------------

// Servers that are told to let requests go say nothing of overload by that.
bool refuses_by_plan(const WorldSpec& spec) {
  const auto servers = [](const ServerGroup& group) {
    return group.setup.refusal_rule.has_value() || group.setup.limiter.has_value();
  };
  const auto clients = [](const ClientGroup& group) { return group.deadlines || group.cancels; };
  return std::any_of(spec.servers.begin(), spec.servers.end(), servers) ||
         std::any_of(spec.clients.begin(), spec.clients.end(), clients);
}

// The share of the capacity that is offered by first attempts; 0 = it changes, or depends on the
// latencies. Where open clients alone ask for more than there is, closed ones change nothing.
double offered_load(const WorldSpec& spec) {
  if (!is_stationary(spec)) return 0;
  double work = 0;
  bool is_open = true;
  for (const ClientGroup& group : spec.clients) {
    is_open &= group.users == 0;
    if (group.users > 0) continue;
    work += mean_rate(group.workload) * group.fan_out * mean_service_ns(group.workload) / 1e9;
  }
  const double load = work / capacity_of(spec);
  return is_open || load >= 1 ? load : 0;
}

// Keeps the worst verdict with its reasons, each once.
void note(sim::Steadiness& worst, const sim::Steadiness& one, const std::string& of) {
  if (one.verdict < worst.verdict) return;
  if (one.verdict > worst.verdict) worst = {one.verdict, {}};
  for (const std::string& reason : one.reasons) {
    const std::string text = of + reason;
    if (std::find(worst.reasons.begin(), worst.reasons.end(), text) == worst.reasons.end()) {
      worst.reasons.push_back(text);
    }
  }
}

sim::Steadiness judge(const WorldSpec& spec, const WorldOutcome& outcome) {
  sim::Steadiness worst;
  sim::RunFacts facts;
  facts.refuses_by_plan = refuses_by_plan(spec);
  sim::RunFacts of_all = facts;
  of_all.workers = capacity_of(spec);
  of_all.load = offered_load(spec);
  note(worst, sim::judge_steadiness(all_calls(outcome), of_all), "");
  for (const GroupOutcome& group : outcome.clients) {
    const std::span<const CallBatch> batches(group.batches);
    note(worst, sim::judge_steadiness(times_of(batches.subspan(outcome.first_batch)), facts),
         outcome.clients.size() > 1 ? "clients " + group.name + ": " : "");
  }
  for_each_group(spec, [&](const ServerGroup& group, size_t first) {
    sim::RunFacts of_group = facts;
    of_group.learning = learning_of(outcome, group, first);
    for (size_t i = first; i < first + group.count; ++i) {
      of_group.busiest_worker = std::max(of_group.busiest_worker, outcome.servers[i].busy_share);
    }
    note(worst, sim::judge_steadiness(server_batches(outcome, first, group.count), of_group),
         "servers " + group.name + ": ");
  });
  return worst;
}

}  // namespace

std::vector<Batch> times_of(std::span<const CallBatch> batches) {
  std::vector<Batch> times;
  for (const CallBatch& batch : batches) times.push_back(batch.times);
  return times;
}

std::vector<Batch> server_batches(const WorldOutcome& outcome, size_t first, size_t count) {
  std::vector<Batch> batches(outcome.servers[first].marks.size() - 1 - outcome.first_batch);
  for (size_t i = 0; i < batches.size(); ++i) {
    Batch& batch = batches[i];
    batch.types.resize(1);
    for (size_t s = first; s < first + count; ++s) {
      const ServerMark& begin = outcome.servers[s].marks[outcome.first_batch + i];
      const ServerMark& end = outcome.servers[s].marks[outcome.first_batch + i + 1];
      batch.begin.at = begin.sums.at;
      batch.end.at = end.sums.at;
      add(batch.begin, begin.sums);
      add(batch.end, end.sums);
      batch.types[0].refused += end.refused - begin.refused;
      batch.types[0].lost += end.lost - begin.lost;
    }
  }
  return batches;
}

void sum_measured(const WorldSpec& spec, WorldOutcome& outcome) {
  if (outcome.servers.front().marks.size() < 2) return;  // stopped in the warm-up
  outcome.first_batch = start_up_of(spec, outcome);
  for (GroupOutcome& group : outcome.clients) sum_clients(group, outcome.first_batch);
  const std::vector<ServerMark>& marks = outcome.servers.front().marks;
  outcome.start_up = marks[outcome.first_batch].sums.at - Instant();
  outcome.measured = marks.back().sums.at - marks[outcome.first_batch].sums.at;
  sum_servers(spec, outcome);
  outcome.steadiness = judge(spec, outcome);
}

}  // namespace rubato::fleet
