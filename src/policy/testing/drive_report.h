// SPDX-License-Identifier: Apache-2.0
//
// What drive() is told, and what it reports. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "base/time.h"
#include "policy/job.h"
#include "policy/testing/chaos_host.h"
#include "sched/group_shares.h"

namespace rubato::testing {

struct Arrival {
  Instant at{};
  WorkerId worker{};  // whose datapath queue it comes in by
  Nanos service{};
  JobClass job_class = JobClass::kShort;
  uint8_t priority = 0;
  uint32_t type = 0;
  uint64_t flow = 0;
  Instant deadline = Instant::never();
  uint8_t group = kPolicyGroup;
};

struct DriveOptions {
  uint32_t workers = 4;
  size_t queue_capacity = limits::kSharedCapacity;
  uint64_t seed = 1;
  bool chaos = false;
  ChaosRates rates{};  // with chaos
  uint64_t patience = UINT64_MAX;  // see CheckedHost
  sched::GroupWeights weights{};
};

struct Departure {
  uint32_t arrival = 0;  // index into the arrivals
  Instant at{};
  uint32_t preemptions = 0;
  friend bool operator==(const Departure&, const Departure&) = default;
};

struct DriveReport {
  std::vector<Departure> departures;    // in the order in which jobs were done
  std::vector<uint32_t> refused;        // arrivals that met a full queue
  std::vector<std::string> violations;  // see CheckedHost; and of the driver, if it did not end
  uint64_t idle_while_waiting = 0;      // moments at which a worker idled and a job waited
  uint64_t preemptions = 0;
  uint64_t kept_on = 0;  // slices that ended in kContinue
  uint64_t slices = 0;   // that had an end
  uint64_t mishaps = 0;  // what chaos did
  // Of each group, while jobs came.
  std::array<Nanos, limits::kGroups> service{};
  friend bool operator==(const DriveReport&, const DriveReport&) = default;
};

}  // namespace rubato::testing
