// SPDX-License-Identifier: Apache-2.0
//
// The live half of `rubato fidelity`: a list of requests, each due at its time, through the live
// runtime on the loopback datapath, served by the spin server, on this machine or in virtual time.
// Main thread; starts the workers of the runtime and returns when all requests are answered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cli/common/virtual_host.h"
#include "workload/source.h"

namespace rubato::cli {

struct LiveSetup {
  std::string policy;
  std::vector<std::pair<std::string, std::string>> settings;
  uint32_t workers = 1;
  std::vector<bool> is_long;  // per type
  // A flow carries one request at a time, so that the order within a flow delays no request. What
  // comes while each has one waits in the sender.
  uint32_t flows = 2048;
  const VirtualHost* host = nullptr;  // null = this machine
  uint64_t seed = 1;                  // of virtual time
  sim::Costs::World world;            // there: what the runtime's steps take
};

struct LiveRun {
  std::vector<Nanos> latency;  // per offer, from when it was due; negative = no answer
  std::vector<bool> touched;   // per offer, by a stall of the machine (load/stalls.h)
  uint64_t late = 0;           // sent more than 5 us after they were due
  Nanos worst_lag;             // of the sender behind its schedule
  Nanos sent_after;            // when the last one was sent, since the start
  Nanos lasted;                // until the last reply
  uint64_t held_back = 0;      // waited for a flow: the server had as many as there are
  uint64_t stalls = 0;
  Nanos stalled;  // their lengths together, all cores
  uint64_t refused = 0;
  uint64_t preemptions = 0;
};

// Worker i runs on allowed CPU i + 1, the sender on CPU 0. Fails with one line if the runtime
// cannot be made, or the machine has no CPU for the sender.
Result<LiveRun> run_live(const LiveSetup& setup, const std::vector<Offer>& offers);

}  // namespace rubato::cli
