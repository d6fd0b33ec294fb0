// SPDX-License-Identifier: Apache-2.0
//
// Simulators that are slow and plainly right: a few lines of recursion over the very requests that
// the engine gets, no events, no queues, no policies. For the ideal machine and run-to-completion.
// Pure functions.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "metrics/histogram.h"
#include "metrics/run_report.h"
#include "sim/nic.h"
#include "sim/setup.h"
#include "sim/stalls.h"
#include "workload/source.h"

namespace rubato::sim {

// The histograms that a run should have recorded, by type.
struct Expected {
  std::vector<Histogram> latency;
  std::vector<Histogram> slowdown;
};

namespace internal {

// When each core is kept from its worker; of two stalls at once the second follows the first.
class HeldCores {
 public:
  explicit HeldCores(const Setup& setup)
      : stalls_(setup.costs.stalls, setup.workers, setup.seed), held_(setup.workers) {
    if (stalls_.any()) coming_ = stalls_.next();
  }

  // When work that core `w` begins at `start` is done: its time outside of stalls. Starts of one
  // core do not go back.
  Instant done(size_t w, Instant start, Nanos work) {
    while (!held_[w].empty() && held_[w].front().second <= start) held_[w].pop_front();
    for (;; draw()) {
      Instant end = start;
      Nanos left = work;
      for (const auto& [from, to] : held_[w]) {
        if (to <= end) continue;
        const Nanos before = std::max(from, end) - end;
        if (left <= before) break;
        left = left - before;
        end = to;
      }
      end = end + left;
      if (coming_.at >= end) return end;
    }
  }

 private:
  void draw() {
    for (size_t w = 0; w < held_.size(); ++w) {
      if (!stalls_.of_all_cores() && w != coming_.core) continue;
      const Instant from =
          held_[w].empty() ? coming_.at : std::max(coming_.at, held_[w].back().second);
      held_[w].emplace_back(from, from + coming_.length);
    }
    coming_ = stalls_.next();
  }

  Stalls stalls_;
  Stall coming_;
  std::vector<std::deque<std::pair<Instant, Instant>>> held_;
};

template <class F>
Expected serve_all(const Setup& setup, F&& worker_of) {
  const size_t types = types_of(setup.workload).size();
  Expected expected{std::vector<Histogram>(types), std::vector<Histogram>(types)};
  std::vector<Instant> free_at(setup.workers);
  HeldCores cores(setup);
  RequestSource source(setup.workload, setup.seed);
  for (uint64_t i = 0; i < setup.requests; ++i) {
    const Offer offer = source.next();
    const size_t w = worker_of(free_at, offer);
    Instant& worker = free_at[w];
    worker = cores.done(w, std::max(worker, offer.at), offer.service);
    const Nanos latency = worker - offer.at;
    expected.latency[offer.type].record(latency);
    expected.slowdown[offer.type].record(
        Nanos(static_cast<int64_t>(kSlowdownUnit) * latency.count() / offer.service.count()));
  }
  return expected;
}

}  // namespace internal

// c-FCFS: every request goes to the worker that is free first (Kiefer and Wolfowitz 1955). Of
// several workers requires that none is ever stalled: which of those that are free gets a request
// matters then.
inline Expected one_queue(const Setup& setup) {
  return internal::serve_all(setup, [](const std::vector<Instant>& free_at, const Offer&) {
    const auto first = std::min_element(free_at.begin(), free_at.end());
    return static_cast<size_t>(first - free_at.begin());
  });
}

// d-FCFS: every request goes to the worker that the NIC picks (Lindley 1952, once per worker).
// Requires a steering that is not random.
inline Expected queue_each(const Setup& setup) {
  Nic nic(setup.costs.nic, setup.workers, 0);
  return internal::serve_all(setup, [&](const std::vector<Instant>&, const Offer& offer) {
    return size_t{nic.steer(offer.flow, offer.at)};
  });
}

}  // namespace rubato::sim
