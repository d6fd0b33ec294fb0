// SPDX-License-Identifier: Apache-2.0
//
// Recorder: the latency and slowdown of measured requests, per true type. One owner.
#pragma once

#include <cstdint>
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
    TypeOutcome& outcome = outcomes_[request.true_type];
    outcome.latency.record(latency);
    const double scaled =
        static_cast<double>(latency.count()) * scale_of(request.true_type, request.service);
    outcome.slowdown.record(Nanos(static_cast<int64_t>(scaled)));
  }
  void refused(uint32_t type) { ++outcomes_[type].refused; }
  void lost(uint32_t type) { ++outcomes_[type].lost; }

  // Of all types.
  LatencySum sum() const {
    LatencySum sum;
    for (const TypeOutcome& outcome : outcomes_) {
      sum.count += outcome.latency.count();
      sum.sum_ns += outcome.latency.sum_ns();
    }
    return sum;
  }

  // What was recorded since the last call.
  std::vector<TypeBatch> take_batch() {
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
  // Thousandths of slowdown per nanosecond of latency, for the service time last asked for: most
  // types have one service time, and a division costs as much as the rest of this. A trifle more
  // than exact, so that a slowdown of 1 is not cut to 0.999.
  struct Scale {
    Nanos service;
    double thousandths = 0;
  };

  double scale_of(uint32_t type, Nanos service) {
    Scale& scale = scales_[type];
    if (scale.service != service) {
      scale = {service, kSlowdownUnit / static_cast<double>(service.count()) * (1 + 0x1p-50)};
    }
    return scale.thousandths;
  }

  std::vector<TypeOutcome> outcomes_;
  std::vector<Scale> scales_;
};

}  // namespace rubato::sim
