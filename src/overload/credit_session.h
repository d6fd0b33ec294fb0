// SPDX-License-Identifier: Apache-2.0
//
// CreditSession: what the server knows of one client. Embedded in the host's own session, which
// must stay where it is while it is open; changed by CreditRule only, for the session's owner of
// the moment. Its DrainedEntry belongs to the keeper of the list of drained sessions.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace rubato::overload {

struct DrainedEntry {
  enum class Drained : uint8_t { kNo, kHigh, kLow };
  Drained drained = Drained::kNo;
  Instant drained_at;
  DrainedEntry* before = nullptr;
  DrainedEntry* after = nullptr;
};

struct CreditSession : DrainedEntry {
  int64_t pending = 0;     // its requests at the server
  int64_t demand = 0;      // requests it said that it has queued
  int64_t credit = 0;      // requests it may have underway, those at the server included
  int64_t advertised = 0;  // the credit it was told last
  int64_t grace = 0;       // requests it may have sent before it was told less
};

}  // namespace rubato::overload
