// SPDX-License-Identifier: Apache-2.0
//
// LiveState: what a server told at /state of its metrics port (runtime/state_json.h) at one moment.
// Plain values; the parser is a pure function.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "metrics/histogram.h"

namespace rubato::cli {

struct TypeState {
  uint32_t number = 0;  // tells types apart, as two may have one name
  std::string name;
  uint64_t finished = 0;  // in the policy's queues, and of those in all:
  double waited_us = 0;
  double service_us = 0;
  Histogram latency, service;  // of all requests, since the start
};

struct WorkerState {
  std::string state;  // runs, awake, sleeps
  std::string type;   // of the request that it runs
  double for_us = 0;
  int64_t suspended = 0;
  uint64_t preemptions = 0;
  double busy_us = 0;
};

struct QueueState {
  std::string name;
  uint64_t queues = 0, depth = 0, deepest = 0;
};

struct RefusalState {
  std::string reason, job_class;
  uint64_t requests = 0;
};

struct BlockedState {
  std::string victim, blocker;
  uint64_t requests = 0;
  double held_us = 0;
};

struct CreditState {
  int64_t sessions = 0, drained = 0, total = 0, issued = 0;
};

struct LiveState {
  double time_us = 0;  // monotonic, of that machine
  int64_t pid = 0;
  std::string version, policy;
  bool serving = false;
  std::map<std::string, uint64_t> counters;       // since the start
  std::map<std::string, double> figures;          // of that moment
  std::map<std::string, double> queue_delays_us;  // by class
  std::map<std::string, uint64_t> memory;
  std::vector<TypeState> types;
  std::vector<WorkerState> workers;
  std::vector<QueueState> queues;
  std::vector<RefusalState> refusals;
  std::vector<BlockedState> blocked;
  std::optional<CreditState> credits;
  std::vector<std::string> plan;
};

// Fails with one line that says what does not fit. Keys that it does not know are left out.
Result<LiveState> parse_live_state(std::string_view text);

}  // namespace rubato::cli
