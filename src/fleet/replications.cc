// SPDX-License-Identifier: Apache-2.0
#include "fleet/replications.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"

namespace rubato::fleet {
namespace {

// Calls f(path, figure) for every figure that differs from run to run. Latencies of nobody are left
// out.
template <class F>
void for_each_figure(const WorldOutcome& run, F&& f) {
  const auto latency = [&](const std::string& at, const Histogram& h) {
    if (h.empty()) return;
    f(at + "/latency_us/mean", h.mean_ns() / 1e3);
    for (const auto& [name, percent] :
         {std::pair{"p50", 50.0}, {"p90", 90.0}, {"p99", 99.0}, {"p999", 99.9}}) {
      f(at + "/latency_us/" + name, h.percentile(percent).micros());
    }
  };
  const double seconds = run.measured.seconds();
  for (size_t i = 0; i < run.clients.size(); ++i) {
    const GroupOutcome& group = run.clients[i];
    const std::string at = "/clients/" + std::to_string(i);
    const auto rate = [&](const char* name, uint64_t count) {
      f(at + name, static_cast<double>(count) / seconds);
    };
    rate("/offered_rps", group.calls);
    rate("/achieved_rps", group.served);
    latency(at, group.latency);
    size_t shown = 0;  // as in the report, which leaves out types of which none was served
    for (const auto& [name, of_type] : group.types) {
      if (of_type.empty()) continue;
      latency(at + "/types/" + std::to_string(shown++), of_type);
    }
  }
  for (size_t i = 0; i < run.servers.size(); ++i) {
    f("/servers/" + std::to_string(i) + "/utilization", run.servers[i].busy_share);
  }
}

void add(GroupOutcome& sum, const GroupOutcome& other) {
  for (uint64_t GroupOutcome::* count :
       {&GroupOutcome::calls, &GroupOutcome::served, &GroupOutcome::failed,
        &GroupOutcome::unfinished, &GroupOutcome::requests, &GroupOutcome::attempts,
        &GroupOutcome::retries, &GroupOutcome::hedges, &GroupOutcome::timeouts,
        &GroupOutcome::refusals, &GroupOutcome::over_budget, &GroupOutcome::wasted,
        &GroupOutcome::cancelled}) {
    sum.*count += other.*count;
  }
  sum.latency.merge(other.latency);
  for (size_t i = 0; i < sum.types.size(); ++i) sum.types[i].second.merge(other.types[i].second);
  sum.slices.resize(std::max(sum.slices.size(), other.slices.size()));
  for (size_t i = 0; i < other.slices.size(); ++i) {
    FleetSlice& slice = sum.slices[i];
    slice.calls += other.slices[i].calls;
    slice.served += other.slices[i].served;
    slice.failed += other.slices[i].failed;
    slice.attempts += other.slices[i].attempts;
    slice.latency_ns += other.slices[i].latency_ns;
  }
}

void add(WorldOutcome& sum, const WorldOutcome& other) {
  for (size_t i = 0; i < sum.clients.size(); ++i) add(sum.clients[i], other.clients[i]);
  for (size_t i = 0; i < sum.servers.size(); ++i) {
    sum.servers[i].busy_share += other.servers[i].busy_share;
    sum.servers[i].served += other.servers[i].served;
    sum.servers[i].refused += other.servers[i].refused;
    sum.servers[i].lost += other.servers[i].lost;
  }
  sum.measured += other.measured;
  sum.simulated += other.simulated;
  sum.stopped |= other.stopped;
}

}  // namespace

Replications replications(std::vector<WorldOutcome> runs) {
  RUBATO_CHECK(!runs.empty());
  std::map<std::string, std::vector<double>> samples;
  for (const WorldOutcome& run : runs) {
    for_each_figure(run, [&](const std::string& path, double figure) {
      samples[path].push_back(figure);
    });
  }
  Replications all;
  all.seeds = static_cast<uint32_t>(runs.size());
  all.pooled = std::move(runs.front());
  for (size_t i = 1; i < runs.size(); ++i) add(all.pooled, runs[i]);
  for (ServerOutcome& server : all.pooled.servers) server.busy_share /= all.seeds;
  for (const auto& [path, figures] : samples) {
    if (figures.size() < 2) continue;
    all.confidence.push_back({path, sim::estimate(figures).half_width});
  }
  return all;
}

}  // namespace rubato::fleet
