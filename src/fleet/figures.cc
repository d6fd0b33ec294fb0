// SPDX-License-Identifier: Apache-2.0
#include "fleet/figures.h"

#include <cmath>
#include <span>
#include <utility>

#include "fleet/measured.h"
#include "sim/steady_state.h"

namespace rubato::fleet {
namespace {

std::string clients_at(size_t number) { return "/clients/" + std::to_string(number); }
std::string servers_at(size_t number) { return "/servers/" + std::to_string(number); }
std::string groups_at(size_t number) { return "/server_groups/" + std::to_string(number); }
std::string type_at(size_t number) { return "/types/" + std::to_string(number); }

// The intervals of one run, figure by figure.
class Intervals {
 public:
  explicit Intervals(const WorldOutcome& run) : run_(run) {}

  void add_clients(size_t number) {
    const GroupOutcome& group = run_.clients[number];
    const std::string at = clients_at(number);
    const auto kept = std::span<const CallBatch>(group.batches).subspan(run_.first_batch);
    for (const CallRatio& ratio : kCallRatios) {
      std::vector<sim::RatioPart> parts;
      for (const CallBatch& batch : kept) parts.push_back(part_of(ratio, batch));
      put(at + "/" + ratio.name, sim::estimate_ratio(std::move(parts)).half_width);
    }
    const std::vector<sim::Batch> times = times_of(kept);
    add_latency(at, times, sim::kAllTypes, group.latency);
    for (size_t i = 0; i < group.types.size(); ++i) {
      add_latency(at + type_at(i), times, i, group.types[i].second);
    }
  }

  void add_servers(const std::string& at, size_t first, size_t count, uint32_t workers) {
    std::vector<sim::RatioPart> parts;
    for (const sim::Batch& batch : server_batches(run_, first, count)) {
      const Nanos busy = batch.end.useful - batch.begin.useful;
      const Nanos time = batch.end.at - batch.begin.at;
      parts.push_back({static_cast<double>(busy.count()),
                       static_cast<double>(time.count()) * static_cast<double>(count) * workers});
    }
    put(at + "/utilization", sim::estimate_ratio(std::move(parts)).half_width);
  }

  std::vector<sim::Confidence> take() { return std::move(all_); }

 private:
  static sim::RatioPart part_of(const CallRatio& ratio, const CallBatch& batch) {
    const auto sum = static_cast<double>(batch.counts.*ratio.sum);
    if (ratio.per != nullptr) return {sum, static_cast<double>(batch.counts.*ratio.per)};
    return {sum, (batch.times.end.at - batch.times.begin.at).seconds()};
  }

  void add_latency(const std::string& at, std::span<const sim::Batch> batches, size_t type,
                   const Histogram& pooled) {
    const auto add = [&](const char* name, double figure, const sim::Interval& interval) {
      put(at + "/latency_us/" + name, interval.half_width(figure) / 1e3);
    };
    constexpr auto kLatency = sim::Measure::kLatency;
    add("mean", pooled.mean_ns(), sim::mean_interval(batches, type, kLatency));
    const auto intervals = sim::percentile_intervals(batches, type, kLatency, pooled);
    for (size_t i = 0; i < intervals.size(); ++i) {
      const auto& [key, percent] = sim::kReportedPercentiles[i];
      add(key, static_cast<double>(pooled.percentile(percent).count()), intervals[i]);
    }
  }

  void put(std::string path, double half_width) { all_.push_back({std::move(path), half_width}); }

  const WorldOutcome& run_;
  std::vector<sim::Confidence> all_;
};

}  // namespace

double figure_of(const CallRatio& ratio, const CallCounts& counts, Nanos time) {
  const double per =
      ratio.per != nullptr ? static_cast<double>(counts.*ratio.per) : time.seconds();
  return per > 0 ? static_cast<double>(counts.*ratio.sum) / per : 0;
}

std::vector<ServerGroupOutcome> server_groups(const WorldSpec& spec, const WorldOutcome& outcome) {
  std::vector<ServerGroupOutcome> groups;
  size_t next = 0;
  for (const ServerGroup& group : spec.servers) {
    ServerGroupOutcome& sum = groups.emplace_back(group.name);
    for (uint32_t i = 0; i < group.count; ++i) sum.busy_share += outcome.servers[next++].busy_share;
    sum.busy_share /= group.count;
  }
  return groups;
}

void for_each_figure(const WorldSpec& spec, const WorldOutcome& run,
                     const std::function<void(const std::string&, double)>& f) {
  const auto latency = [&f](const std::string& at, const Histogram& h) {
    const auto figure = [&h](double us) { return h.empty() ? std::nan("") : us; };
    f(at + "/latency_us/mean", figure(h.mean_ns() / 1e3));
    for (const auto& [name, percent] : sim::kReportedPercentiles) {
      f(at + "/latency_us/" + name, figure(h.percentile(percent).micros()));
    }
  };
  for (size_t i = 0; i < run.clients.size(); ++i) {
    const GroupOutcome& group = run.clients[i];
    for (const CallRatio& ratio : kCallRatios) {
      f(clients_at(i) + "/" + ratio.name, figure_of(ratio, group, run.measured));
    }
    latency(clients_at(i), group.latency);
    for (size_t t = 0; t < group.types.size(); ++t) {
      latency(clients_at(i) + type_at(t), group.types[t].second);
    }
  }
  const std::vector<ServerGroupOutcome> groups = server_groups(spec, run);
  for (size_t i = 0; i < groups.size(); ++i) {
    f(groups_at(i) + "/utilization", groups[i].busy_share);
  }
  for (size_t i = 0; i < run.servers.size(); ++i) {
    f(servers_at(i) + "/utilization", run.servers[i].busy_share);
  }
}

std::vector<sim::Confidence> intervals_of(const WorldSpec& spec, const WorldOutcome& run) {
  if (run.measured == Nanos()) return {};
  Intervals intervals(run);
  for (size_t i = 0; i < run.clients.size(); ++i) intervals.add_clients(i);
  size_t next = 0;
  for (size_t g = 0; g < spec.servers.size(); ++g) {
    const ServerGroup& group = spec.servers[g];
    intervals.add_servers(groups_at(g), next, group.count, group.setup.workers);
    for (uint32_t i = 0; i < group.count; ++i, ++next) {
      intervals.add_servers(servers_at(next), next, 1, group.setup.workers);
    }
  }
  return intervals.take();
}

}  // namespace rubato::fleet
