// SPDX-License-Identifier: Apache-2.0
//
// Recorder: the latency and slowdown of measured requests, per true type. One owner.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "metrics/packed_histogram.h"
#include "sim/batch.h"
#include "sim/request.h"
#include "sim/simulation.h"

namespace rubato::sim {

class Recorder {
 public:
  explicit Recorder(size_t types) : outcomes_(types), scales_(types) {}

  void done(const SimRequest& request, Nanos latency) {
    done_[done_count_++] = {request.true_type, latency, request.service};
    if (done_count_ == done_.size()) [[unlikely]] record_done();
  }
  void refused(uint32_t type) { ++outcomes_[type].refused; }
  void lost(uint32_t type) { ++outcomes_[type].lost; }

  // Of all types.
  LatencySum sum() {
    record_done();
    LatencySum sum;
    for (const TypeOutcome& outcome : outcomes_) {
      sum.count += outcome.latency.count();
      sum.sum_ns += outcome.latency.sum_ns();
    }
    return sum;
  }

  // What was recorded since the last call.
  std::vector<TypeBatch> take_batch() {
    record_done();
    std::vector<TypeBatch> batch;
    batch.reserve(outcomes_.size());
    for (TypeOutcome& outcome : outcomes_) {
      batch.push_back({PackedHistogram::take(outcome.latency),
                       PackedHistogram::take(outcome.slowdown), std::exchange(outcome.refused, 0),
                       std::exchange(outcome.lost, 0)});
    }
    return batch;
  }

 private:
  struct Done {
    uint32_t type;
    Nanos latency;
    Nanos service;
  };

  // Thousandths of slowdown per nanosecond of latency, for the service time last asked for: most
  // types have one service time, and a division costs as much as the rest of this. A trifle more
  // than exact, so that a slowdown of 1 is not cut to 0.999.
  struct Scale {
    Nanos service;
    double thousandths = 0;
  };

  // The histograms of many types are in no near cache. One after the other, without a simulation in
  // between, the processor fetches several at once.
  [[gnu::noinline]] void record_done() {
    for (const Done& one : std::span(done_).first(std::exchange(done_count_, 0))) {
      TypeOutcome& outcome = outcomes_[one.type];
      outcome.latency.record(one.latency);
      const double scaled =
          static_cast<double>(one.latency.count()) * scale_of(one.type, one.service);
      outcome.slowdown.record(Nanos(static_cast<int64_t>(scaled)));
    }
  }

  double scale_of(uint32_t type, Nanos service) {
    Scale& scale = scales_[type];
    if (scale.service != service) {
      scale = {service, kSlowdownUnit / static_cast<double>(service.count()) * (1 + 0x1p-50)};
    }
    return scale.thousandths;
  }

  std::array<Done, 64> done_;  // not yet in the histograms, the first done_count_
  size_t done_count_ = 0;
  std::vector<TypeOutcome> outcomes_;
  std::vector<Scale> scales_;
};

}  // namespace rubato::sim
