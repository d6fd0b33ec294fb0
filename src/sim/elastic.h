// SPDX-License-Identifier: Apache-2.0
//
// ElasticSetup: a server whose clients have sessions, which protects itself from overload and gives
// cores that it does not need to best-effort work; and the outcome of its run. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "overload/cores/rule.h"
#include "overload/credit_settings.h"
#include "sim/clients.h"

namespace rubato::sim {

struct ElasticSetup {
  ClientSettings clients;
  bool uses_credits = true;  // clients may have as many underway as they were given credits
  overload::CreditSettings credits;
  std::string cores = "static";  // an allocator of overload/cores/all.h
  overload::CoreSettings cores_settings;
  uint32_t guaranteed = 0;       // cores that are never given away
  // The server steers by the delay of each class, against a target of its own. Otherwise the delay
  // of the oldest request counts, whatever its class.
  bool delay_by_class = true;
};

// From the end of the warm-up to the last request of the clients.
struct ElasticOutcome {
  double granted_share = 0;  // of the cores' time: serving, polling, parking or waking
  double cores = 0;          // granted on average
  uint64_t parks = 0, wakes = 0;            // of the whole run, as all below
  uint64_t credit_messages = 0;             // from the server, without an answer
  uint64_t demand_messages = 0;             // from clients, without a request
  std::vector<uint64_t> unsent;               // by clients, per type; measured ones
  double credits = 0, credits_issued = 0;   // on average: the total, and the clients' share
  double credits_outstanding = 0;           // of those, not in use by a request at the server
  double credits_withheld = 0;              // by cores that park
  uint64_t credits_least = 0, credits_most = 0;  // of the total
  double drained = 0;                       // sessions with no credit, on average
  double max_delay_us = 0;                  // the longest that a request was seen to wait
};

}  // namespace rubato::sim
