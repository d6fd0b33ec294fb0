// SPDX-License-Identifier: Apache-2.0
//
// HostState: the state of a runtime that outlives a change of its policy: the way to its end, what
// can be set while it runs, and what it does for the application. Each part says which threads may
// use it.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "datapath/datapath.h"
#include "runtime/arrival_slots.h"
#include "runtime/live_settings.h"
#include "runtime/options.h"
#include "runtime/request_ring.h"
#include "runtime/shutdown.h"
#include "runtime/trace_ring.h"

namespace rubato {

// Where one worker records; null = it does not.
struct Records {
  ArrivalSlots* arrivals;
  RequestRing* requests;
  TraceRing* trace;
};

struct HostState {
  HostState(const RuntimeOptions& options, Datapath& datapath)
      : shutdown(datapath, options.drain_limit),
        settings(shutdown, options.refusal_rule, options.slow_threshold) {
    if (options.record_arrivals) arrivals.resize(std::min(options.workers, limits::kMaxWorkers));
    for (auto& worker : arrivals) worker = std::make_unique<ArrivalSlots>();
    if (options.record_requests) requests.resize(std::min(options.workers, limits::kMaxWorkers));
    for (auto& worker : requests) worker = std::make_unique<RequestRing>();
    if (options.record_traces) traces.resize(std::min(options.workers, limits::kMaxWorkers));
    for (auto& worker : traces) worker = std::make_unique<TraceRing>();
  }

  Shutdown shutdown;
  LiveSettings settings;
  std::function<void()> server_loop;       // set before the first worker runs
  std::vector<std::unique_ptr<ArrivalSlots>> arrivals;  // by worker; empty = not recorded
  std::vector<std::unique_ptr<RequestRing>> requests;   // likewise
  std::vector<std::unique_ptr<TraceRing>> traces;       // likewise

  Records records_of(uint32_t worker) const {
    return {arrivals.empty() ? nullptr : arrivals[worker].get(),
            requests.empty() ? nullptr : requests[worker].get(),
            traces.empty() ? nullptr : traces[worker].get()};
  }
};

}  // namespace rubato
