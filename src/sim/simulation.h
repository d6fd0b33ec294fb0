// SPDX-License-Identifier: Apache-2.0
//
// The face of the simulator: simulate() runs one policy over one Setup and returns what happened,
// raw, so that callers can merge seeds or make a report of it (sim/report.h). Each call is on its
// own: any number may run at once on different threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "metrics/histogram.h"
#include "metrics/run_report.h"
#include "overload/limiter.h"
#include "sched/request_state.h"
#include "sim/batch.h"
#include "sim/setup.h"

namespace rubato {
class Trace;  // metrics/trace.h
}

namespace rubato::sim {

class ServerClient;  // sim/hosted_server.h

// Of requests that arrived after the warm-up, by their true type.
struct TypeOutcome {
  Histogram latency;    // from the send to the response
  Histogram slowdown;   // in thousandths (metrics/run_report.h)
  uint64_t refused = 0;  // a queue was full
  uint64_t lost = 0;     // a NIC ring was full
};

struct Outcome {
  std::vector<TypeOutcome> types;  // in the order of the mix
  SchedulerCounters counters;
  uint64_t requests = 0;   // simulated in all, warm-up included
  uint64_t measured = 0;   // of those arrived after the warm-up: done, refused or lost
  uint64_t done_in_time = 0;  // completions within measured_time, whenever they arrived
  Nanos measured_time;     // from the end of the warm-up to the last measured arrival
  Nanos simulated;         // from the first arrival to the last completion
  double busy_share = 0;   // of the workers' time: in requests and in overheads
  double useful_share = 0; // of the workers' time: in requests
  double stalled_share = 0;  // of the workers' time: the machine kept their cores
  std::vector<double> worker_busy;  // busy_share of each worker
  std::vector<std::string> plan;    // the policy's words on its last plan
  std::optional<ElasticOutcome> elastic;  // if the setup has that
  std::array<uint64_t, kRefusals> refusals{};       // by Refusal
  std::optional<overload::LimiterReport> limiter;  // if the setup has that
  bool stopped = false;  // by Watch::progress
  bool complete = false;  // all requests came, or as many as Watch::enough wanted
  // Its kept part in stretches, and the first of them: those before it are start-up. There is one
  // at least.
  std::vector<Batch> batches;
  size_t first_batch = 0;
  uint64_t learning = 0;  // requests that the policy learns from before it has a plan
  uint64_t events = 0;
  double wall_s = 0;       // of the simulation; the only field that is not reproducible
};

// Settings as `--set name=value` has them.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct Watch {
  struct Done {
    uint64_t id = 0;     // the number of the request in the run, from 0
    Instant sent;
    Nanos latency;       // from the send to the response
    uint32_t type = 0;   // as the workload numbers them
    bool moved = false;  // served by another manager's group than it came to
  };
  std::function<bool(double)> progress;  // with 0..1, several times a second; false = stop
  Trace* trace = nullptr;                // what to record into
  // Called for each request that arrived after the warm-up, when it is done.
  std::function<void(const Done&)> done;
  // Of a hosted server: who is told the fate of every request; null = nobody.
  ServerClient* client = nullptr;
  // If set, the run goes on until this says that it knows enough, or to Setup::requests at most.
  // It is called at times that depend on the number of requests only, with what is known so far.
  // Its start-up is then found from the run itself, with Setup::warmup as its least share. Not for
  // an elastic setup.
  std::function<bool(const Outcome&)> enough;
};

// Fails with one line on an unknown policy or setting, or a Setup out of range.
Result<Outcome> simulate(std::string_view policy, const Settings& settings, const Setup& setup,
                         const Watch& watch = {});

}  // namespace rubato::sim
