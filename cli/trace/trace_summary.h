// SPDX-License-Identifier: Apache-2.0
//
// TraceSummary: what a trace of workers (metrics/trace.h), live or simulated, says of waits, slices
// and queues. Only requests count that arrived and ended within the trace. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "metrics/histogram.h"

namespace rubato::cli {

struct TraceSummary {
  struct Type {
    uint64_t slices = 0;  // of all its requests
    uint64_t cuts = 0;    // slices after which another request went on
    Histogram wait;       // from the arrival to the first slice
    Histogram waits;      // of a request in all: the time in which it had no worker
    Histogram service;

    uint64_t requests() const { return wait.count(); }
  };
  struct Worker {
    uint64_t slices = 0;
    double busy = 0;  // part of the trace's length that its slices take
  };
  struct Queue {
    double mean = 0;  // requests that waited there, over the length of the trace
    uint64_t most = 0;
  };

  std::map<std::string, Type> types;
  std::map<std::string, Worker> workers;
  std::map<std::string, Queue> queues;
  double length_us = 0;  // from the first event to the end of the last
  uint64_t left_out = 0;  // events, by the writer
};

// Fails with one line that says what of the text is no such trace, or that it is not whole.
Result<TraceSummary> summarize_trace(std::string_view text);

}  // namespace rubato::cli
