// SPDX-License-Identifier: Apache-2.0
//
// RequestState: what a scheduler knows of one request from its arrival to its end. A host derives
// its request type from it and assigns it as a whole when a request arrives, so nothing of the
// request before it is left, whichever layer wrote it. The owner of the job owns all of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "policy/job.h"

namespace rubato {

// Why a request is not served.
enum class Refusal : uint8_t {
  kFull,       // the queues are full, or the server is stopping
  kDelay,      // it has waited too long, in a server that has too much to do
  kShare,      // the same, and its connection has had its share of this turn
  kAbandoned,  // nobody wants its reply any more
  kExpired,    // its deadline has passed
  kLimit,      // beyond what a limiter lets in, or not urgent enough for it
};
inline constexpr uint32_t kRefusals = 6;

constexpr const char* name_of(Refusal why) {
  constexpr const char* kNames[kRefusals] = {"full",      "delay",   "share",
                                             "abandoned", "expired", "limit"};
  return kNames[static_cast<size_t>(why)];
}

struct RequestState : Job {
  uint8_t counted_as = 0;            // what the datapath counts it as until it ends; 0 = nothing
  void* fiber = nullptr;             // the host's: where a request that has started is suspended
  Nanos promoted_after;              // became long by age after so much service; 0 = it did not
  Instant put_back;                  // when it was preempted; zero while it is not waiting for that
  bool has_started = false;          // it has been given to a worker
  bool at_once = false;              // nothing to run: the reply is known where it arrives
  uint8_t client_priority = 0;       // what its client says: the least that `priority` is
  uint8_t cohort = 0;                // of its user, as its client says, from 1 on; 0 = not said
  uint16_t admitted_levels = 0;      // of the limiter that judged it; 0 = none did
  // Bits, so that a task's record takes no further cache line.
  bool has_locals : 1 = false;       // the host's: its fiber keeps values for it
  bool close_after : 1 = false;      // close the flow once the reply has left
  bool credited : 1 = false;         // its client gave a credit for it: admission judges its wait
  bool limited : 1 = false;          // it counts among those that a limiter let in
  bool cancelled : 1 = false;        // it has started, and is to end as soon as it can
  Refusal refusal = Refusal::kFull;  // why it is refused or cancelled, if it is
  Nanos retry_after;                 // when it is worth asking again, zero = unknown
};

}  // namespace rubato
