// SPDX-License-Identifier: Apache-2.0
//
// The live half of `rubato fidelity`: a list of requests, each due at its time, through the live
// runtime on the loopback datapath, served by the spin server. Main thread; starts the workers of
// the runtime and returns when all requests are answered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "workload/source.h"

namespace rubato::cli {

struct LiveSetup {
  std::string policy;
  std::vector<std::pair<std::string, std::string>> settings;
  uint32_t workers = 1;
  std::vector<bool> is_long;  // per type
};

struct LiveRun {
  std::vector<Nanos> latency;  // per offer, from when it was due; negative = no answer
  std::vector<bool> touched;   // per offer, by a stall of the machine (load/stalls.h)
  uint64_t late = 0;           // sent more than 5 us after they were due
  Nanos worst_lag;             // of the sender behind its schedule
  uint64_t refused = 0;
  uint64_t preemptions = 0;
};

// Worker i runs on allowed CPU i + 1, the sender on CPU 0. Fails with one line if the runtime
// cannot be made, or the machine has no CPU for the sender.
Result<LiveRun> run_live(const LiveSetup& setup, const std::vector<Offer>& offers);

}  // namespace rubato::cli
