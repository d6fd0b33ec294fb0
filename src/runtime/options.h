// SPDX-License-Identifier: Apache-2.0
//
// Settings of one live runtime: the scheduler's, and what a program around it adds. Plain data,
// read once by Runtime::create.
#pragma once

#include "base/time.h"
#include "mechanism/preempt/mechanism.h"
#include "rpc/credit_source.h"
#include "sched/options.h"

namespace rubato {

struct RuntimeOptions : SchedulerOptions {
  RuntimeOptions() { workers = 1; }  // one for each queue of the datapath

  CreditSource* credits = nullptr;  // of the server, for `coresync`; outlives the runtime
  Nanos slow_threshold = Nanos::millis(10);  // Application::slow is told of these
  bool record_arrivals = false;  // count them, see Runtime::arrivals
};

}  // namespace rubato
