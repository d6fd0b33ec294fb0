// SPDX-License-Identifier: Apache-2.0
//
// Job: what a policy may know of a request. Hosts derive their own request types from it and own
// the memory; a policy passes Job pointers between queues, reads the fields, and writes none but
// `policy_word`. A Job has exactly one owner at any time (a queue, or the worker that runs it), so
// its fields are plain. Times are on the host's Instant line.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace rubato {

// Synergy 5.1.2: a request is short until the application (or its age) says otherwise.
enum class JobClass : uint8_t {
  kShort,  // runs to completion
  kLong,   // may be preempted
};

// Groups of requests. A policy orders its own group; it sees requests of others only as they run.
inline constexpr uint8_t kPolicyGroup = 0;
inline constexpr uint8_t kControlGroup = 1;   // the control plane
inline constexpr uint8_t kFirstOwnGroup = 2;  // and up: those of the program
constexpr uint8_t group_of(bool is_control) { return is_control ? kControlGroup : kPolicyGroup; }

struct Job {
  Instant arrived;           // reached the server; waits count from here
  Instant started;           // first given to a worker
  Nanos attained;            // service received in slices that have ended
  Nanos size_hint;           // service it is expected to need in all, zero = unknown
  Instant deadline = Instant::never();  // when it should be done, never() = whenever
  uint64_t policy_word = 0;  // the policy's own; 0 when the request arrives
  uint64_t flow = 0;         // connection or flow; requests of one flow keep their order
  uint32_t type = 0;         // the application's request type, 0 = unknown
  uint32_t preemptions = 0;  // times put back before it was done
  uint32_t moves = 0;        // times sent from one manager to another
  JobClass job_class = JobClass::kShort;
  uint8_t priority = 0;  // of long jobs: 0 is the most urgent level (Synergy 7.4)
  uint8_t group = kPolicyGroup;  // whose share of the workers serves it (sched/group_shares.h)

  constexpr bool is_control() const { return group == kControlGroup; }
  friend constexpr bool operator==(const Job&, const Job&) = default;
};

}  // namespace rubato
