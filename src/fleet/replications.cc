// SPDX-License-Identifier: Apache-2.0
#include "fleet/replications.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "fleet/figures.h"

namespace rubato::fleet {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

void add(GroupOutcome& sum, const GroupOutcome& other) {
  sum += static_cast<const CallCounts&>(other);
  sum.left_out += other.left_out;
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
  if (other.steadiness.verdict > sum.steadiness.verdict) sum.steadiness = other.steadiness;
}

// How the figures of several runs differ.
std::vector<sim::Confidence> differences(const WorldSpec& spec,
                                         const std::vector<WorldOutcome>& runs) {
  std::map<std::string, std::vector<double>> samples;
  for (const WorldOutcome& run : runs) {
    for_each_figure(spec, run, [&](const std::string& path, double figure) {
      std::vector<double>& known = samples[path];
      if (!std::isnan(figure)) known.push_back(figure);
    });
  }
  std::vector<sim::Confidence> all;
  for (const auto& [path, figures] : samples) {
    all.push_back({path, figures.size() < 2 ? kUnknown : sim::estimate(figures).half_width});
  }
  return all;
}

}  // namespace

Replications replications(const WorldSpec& spec, std::vector<WorldOutcome> runs) {
  RUBATO_CHECK(!runs.empty());
  Replications all;
  all.seeds = static_cast<uint32_t>(runs.size());
  all.confidence =
      all.seeds == 1 ? intervals_of(spec, runs.front()) : differences(spec, runs);
  all.pooled = std::move(runs.front());
  for (size_t i = 1; i < runs.size(); ++i) add(all.pooled, runs[i]);
  for (ServerOutcome& server : all.pooled.servers) server.busy_share /= all.seeds;
  if (all.pooled.steadiness.verdict != sim::RunState::kOverloaded) return all;
  for (sim::Confidence& one : all.confidence) {
    if (one.path.find("/latency_us/") != std::string::npos) one.half_width = kUnknown;
  }
  return all;
}

}  // namespace rubato::fleet
