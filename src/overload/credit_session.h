// SPDX-License-Identifier: Apache-2.0
//
// CreditSession: what the server knows of one client. Embedded in the host's own session, which
// must stay where it is while it is open; changed by CreditControl only, under the host's lock.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace rubato::overload {

struct CreditSession {
  int64_t pending = 0;     // its requests at the server
  int64_t demand = 0;      // requests it said that it has queued
  int64_t credit = 0;      // requests it may have underway, those at the server included
  int64_t advertised = 0;  // the credit it was told last
  int64_t grace = 0;       // requests it may have sent before it was told less

  enum class Drained : uint8_t { kNo, kHigh, kLow };
  Drained drained = Drained::kNo;
  Instant drained_at;
  CreditSession* before = nullptr;  // in the list of drained sessions
  CreditSession* after = nullptr;
};

}  // namespace rubato::overload
