// SPDX-License-Identifier: Apache-2.0
//
// The settings of one live runtime: the scheduler's, and those that the program around it adds.
// Plain data, read once by Runtime::create.
#pragma once

#include "base/time.h"
#include "mechanism/preempt/mechanism.h"
#include "rpc/credit_source.h"
#include "sched/group_shares.h"
#include "sched/options.h"

namespace rubato {

struct RuntimeOptions : SchedulerOptions {
  RuntimeOptions() { workers = 1; }  // one for each queue of the datapath

  sched::GroupWeights groups{};    // of the program's own groups
  CreditSource* credits = nullptr;  // the server's, for `coresync`; outlives the runtime
  // A manager of cores goes by the allocator, its settings and the guaranteed cores as they are at
  // the start: they do not change.
  bool cores_managed = false;
  Nanos slow_threshold = Nanos::millis(10);  // Application::slow is called from this latency on
  uint64_t seed = 1;  // of what policies draw
  bool record_arrivals = false;  // count arrivals, see Runtime::arrivals
  bool record_requests = false;  // have rings for them, see Runtime::request_rings
  bool record_traces = false;    // likewise, see Runtime::trace_rings
};

}  // namespace rubato
