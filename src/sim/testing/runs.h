// SPDX-License-Identifier: Apache-2.0
//
// Short ways for the simulator's tests to set a run up and to run it: on the ideal machine, of any
// policy (also of one that is in no list), and with a look at what reports do not tell (the wait of
// every request before it runs for the first time). Single-threaded.
#pragma once

#include <string_view>
#include <vector>

#include "base/check.h"
#include "sim/engine.h"

namespace rubato::sim {

inline WorkloadSpec workload_of(uint32_t workers, std::string_view mix, double load) {
  Result<Mix> parsed = parse_mix(mix);
  RUBATO_CHECK(parsed.ok());
  WorkloadSpec workload;
  workload.rate = load * workers / parsed->mean_service_ns() * 1e9;
  workload.mixes.push_back(std::move(*parsed));
  return workload;
}

inline Setup ideal(uint32_t workers, std::string_view mix, double load, uint64_t requests) {
  Setup setup;
  setup.workers = workers;
  setup.requests = requests;
  setup.workload = workload_of(workers, mix, load);
  setup.classify = Classify::kFeedback;  // the application knows what is long, as in the papers
  return setup;
}

template <Policy P>
Outcome run(const Setup& setup, const typename P::Config& config = {}) {
  return Engine<P>(setup, config, Watch{}).run();
}

inline Histogram latency_of(const Outcome& outcome) {
  Histogram all;
  for (const TypeOutcome& type : outcome.types) all.merge(type.latency);
  return all;
}

inline uint64_t more(const Outcome& outcome, std::string_view name) {
  for (const auto& [key, count] : outcome.counters.more) {
    if (key == name) return count;
  }
  RUBATO_CHECK(false);
  return 0;
}

// The measured requests by how they left the server.
struct RequestCounts {
  uint64_t done = 0, refused = 0, lost = 0;
};
inline RequestCounts counts_of(const Outcome& outcome) {
  RequestCounts counts;
  for (const TypeOutcome& type : outcome.types) {
    counts.done += type.latency.count();
    counts.refused += type.refused;
    counts.lost += type.lost;
  }
  return counts;
}

// From the arrival at the server to the first slice, of measured requests.
struct Waits {
  Histogram all;
  std::vector<Histogram> by_type;
  uint64_t waited = 0;  // more than nothing

  double share_waited() const {
    return static_cast<double>(waited) / static_cast<double>(all.count());
  }
};

// P, watched: every first slice is written down. `waits` outlives the run.
template <Policy P>
class Watched : public P {
 public:
  struct Config {
    typename P::Config of{};
    Waits* waits = nullptr;
  };
  explicit Watched(Config config) : P(config.of), waits_(config.waits) {}

  template <class H>
  Job* next(typename P::Worker& worker, WorkerId me, H& host) const {
    Job* const job = P::next(worker, me, host);
    if (job != nullptr && job->preemptions == 0) note(static_cast<SimRequest&>(*job), host.now());
    return job;
  }

 private:
  void note(const SimRequest& request, Instant now) const {
    if (!request.measured) return;
    const Nanos wait = now - request.arrived;
    waits_->all.record(wait);
    if (request.true_type >= waits_->by_type.size()) waits_->by_type.resize(request.true_type + 1);
    waits_->by_type[request.true_type].record(wait);
    if (wait > Nanos()) ++waits_->waited;
  }

  Waits* waits_;
};

}  // namespace rubato::sim
