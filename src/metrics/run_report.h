// SPDX-License-Identifier: Apache-2.0
//
// RunReport: everything one run has to say, live or simulated, and its JSON form `rubato.run/1`.
// The keys of that form are a contract: keys may be added, none may change or go. A plain value;
// fields left unset are written as null or left out, as each says. Units are in the names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/histogram.h"

namespace rubato {

// The figures of one latency histogram, in microseconds.
struct LatencySummary {
  double mean_us = 0, p50_us = 0, p90_us = 0, p99_us = 0, p999_us = 0, max_us = 0;
};

// A whole distribution in a report; left out where nothing is recorded.
struct WholeHistograms {
  Histogram latency, slowdown;
};

struct SlowdownSummary {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0;
};

LatencySummary summarize_latency(const Histogram& latency);

// A slowdown histogram holds thousandths: record it with this.
inline constexpr double kSlowdownUnit = 1000.0;
inline void record_slowdown(Histogram& slowdowns, Nanos latency, Nanos service) {
  const double ratio = static_cast<double>(latency.count()) / static_cast<double>(service.count());
  slowdowns.record(Nanos(static_cast<int64_t>(ratio * kSlowdownUnit)));
}
SlowdownSummary summarize_slowdown(const Histogram& slowdowns);

// One request type of the run. Without a known service time `service_us` and `slowdown` are null.
struct TypeReport {
  std::string name;
  std::optional<double> service_us;
  double share = 0;  // 0..1, of the requests offered
  uint64_t count = 0;
  uint64_t refused = 0, errors = 0, lost = 0;
  LatencySummary latency;
  std::optional<SlowdownSummary> slowdown;
  WholeHistograms histograms;
  // Points (latency in us, share of requests that took longer); left out when empty.
  std::vector<std::pair<double, double>> ccdf;
};

// The complementary distribution of a histogram, at most one point per bucket.
std::vector<std::pair<double, double>> ccdf_of(const Histogram& latency);

// One interval of the run; `types` is parallel to RunReport::types.
struct TimelineSlice {
  struct Type {
    uint64_t count = 0;
    double p50_us = 0, p99_us = 0, p999_us = 0, max_us = 0;
  };
  double start_s = 0;
  std::vector<Type> types;
};

// What the scheduler did. A simulated or library run fills it; `load` alone cannot know it, and
// leaves the optional unset (written as null).
struct SchedulerCounters {
  uint64_t preemptions = 0, preemptions_avoided = 0, steals = 0, stolen = 0, wait_queue_max = 0;
  uint64_t migrations = 0, parked = 0;
  std::vector<std::pair<std::string, uint64_t>> more;  // further counters of one policy
};

// How far the generator was behind its own schedule.
struct SendLag {
  double p99_us = 0, max_us = 0;
  uint64_t unsent = 0;  // due before the end but never sent
};

// What disturbed the generator while it ran: times between two turns of its poll loop, and stalls
// as UndisturbedReport has them, which closed loops lack.
struct NoiseReport {
  double over_50us_per_s = 0, over_100us_per_s = 0, over_1ms_per_s = 0;
  double max_gap_us = 0;
  std::optional<double> steal_percent;  // CPU time the hypervisor took away, all CPUs
  uint64_t stalls = 0;
  double stalled_ms = 0;
};

// The requests that no stall of the machine touched, by a rule that looks at when they were due
// and never at how long they took: a stall is a core lost for `floor_us` or more, and touches what
// is due from `reach_us` before it to `aftermath` times its length after it.
struct UndisturbedReport {
  struct Type {
    std::string name;
    uint64_t count = 0;
    double share = 0;  // of the type's replies
    LatencySummary latency;
    Histogram histogram = {};  // left out when empty
  };
  double share = 0;  // of all replies
  uint64_t stalls = 0;
  double stalled_ms = 0;        // their lengths together, all cores
  uint64_t server_threads = 0;  // of the server that were watched; 0 = the generator alone
  double floor_us = 0, reach_us = 0;
  int64_t aftermath = 0;
  LatencySummary latency;
  std::vector<Type> types;
};

// Requests that the clients gave up before they were sent, as the server gave no credit for them.
struct UnsentReport {
  uint64_t expired = 0;  // waited for too long
  uint64_t overflowed = 0;  // too many waited
  uint64_t withheld = 0;    // less urgent than what it admits
};

// One of several servers, and the replies that it gave.
struct ServerReplies {
  std::string name;
  uint64_t count = 0;
};

struct MachineInfo {
  std::string cpu_model;
  unsigned cores = 0;
  std::string kernel;
  std::string virtualised;  // "none", "kvm", ..., "unknown"
};

struct RunReport {
  std::string kind = "live";  // or "sim"
  std::string policy;
  uint64_t workers = 0;
  std::string workload;
  uint64_t seed = 0;
  double offered_rps = 0, achieved_rps = 0;
  std::optional<double> load;  // share of capacity, where that is known
  uint64_t requests = 0, refused = 0, lost = 0;
  uint64_t errors = 0, timeouts = 0;
  bool valid = true;
  std::string invalid_reason;  // written when not empty
  LatencySummary latency;
  std::optional<SlowdownSummary> slowdown;
  std::vector<TypeReport> types;
  std::optional<SchedulerCounters> counters;
  std::optional<double> utilization;
  double wall_s = 0;
  std::string cost_model;
  MachineInfo machine;
  std::string version;

  // Live runs only; left out when unset or empty.
  std::string loop;  // "open" or "closed"
  std::string target, arrivals;
  std::string command;  // that makes such a run again, for a shell
  std::optional<SendLag> send_lag;
  std::optional<NoiseReport> noise;
  std::optional<UndisturbedReport> undisturbed;
  std::vector<ServerReplies> servers;  // if there are several
  std::optional<UnsentReport> unsent;  // of clients with credits
  double timeline_slice_s = 0;
  std::vector<TimelineSlice> timeline;
  // Further settings, written as the object "settings" of strings.
  std::vector<std::pair<std::string, std::string>> settings;
};

// One JSON object, indented, with a trailing newline.
std::string to_json(const RunReport& report);

}  // namespace rubato
