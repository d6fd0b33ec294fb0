// SPDX-License-Identifier: Apache-2.0
//
// Simulators that are slow and plainly right: a few lines of recursion over the very requests that
// the engine gets, no events, no queues, no policies. For the ideal machine and run-to-completion.
// Pure functions.
#pragma once

#include <algorithm>
#include <vector>

#include "metrics/histogram.h"
#include "metrics/run_report.h"
#include "sim/nic.h"
#include "sim/setup.h"
#include "workload/source.h"

namespace rubato::sim {

// What a run should have recorded, by type.
struct Expected {
  std::vector<Histogram> latency;
  std::vector<Histogram> slowdown;
};

namespace internal {

template <class F>
Expected serve_all(const Setup& setup, F&& worker_of) {
  const size_t types = types_of(setup.workload).size();
  Expected expected{std::vector<Histogram>(types), std::vector<Histogram>(types)};
  std::vector<Instant> free_at(setup.workers);
  RequestSource source(setup.workload, setup.seed);
  for (uint64_t i = 0; i < setup.requests; ++i) {
    const Offer offer = source.next();
    Instant& worker = free_at[worker_of(free_at, offer)];
    worker = std::max(worker, offer.at) + offer.service;
    const Nanos latency = worker - offer.at;
    expected.latency[offer.type].record(latency);
    expected.slowdown[offer.type].record(
        Nanos(static_cast<int64_t>(kSlowdownUnit) * latency.count() / offer.service.count()));
  }
  return expected;
}

}  // namespace internal

// c-FCFS: every request goes to the worker that is free first (Kiefer and Wolfowitz 1955).
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
