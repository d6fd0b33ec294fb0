// SPDX-License-Identifier: Apache-2.0
//
// CreditSource: the credits that a server's clients hold, as the runtime sees them: the allocation
// of cores (overload/cores/contract.h, IdleHost), what it counts as refused, and what it tells load
// balancers. The server that hands out credits lends it to the runtime for its life. Any thread, at
// any time.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"
#include "datapath/request.h"
#include "policy/job.h"

namespace rubato {

// What a source says of overload. Each number was true a moment ago, two need not be of the same.
struct CreditReport {
  int64_t sessions = 0;
  int64_t drained = 0;
  int64_t total = 0;   // credits that all sessions together may have
  int64_t issued = 0;  // told
  Nanos delay;         // how long requests wait for their turn
  // What the source refuses by itself: not what the runtime refuses, and counts.
  std::array<std::array<uint64_t, 2>, kRefusals> refusals{};  // by Refusal and JobClass
};

class CreditSource {
 public:
  virtual ~CreditSource() = default;

  virtual int64_t drained() const = 0;      // sessions told zero credits
  virtual int64_t sessions() const = 0;     // open ones
  virtual int64_t outstanding() const = 0;  // credits told, not in use by a request at the server
  virtual void withhold(int64_t credits) = 0;
  virtual void give_back(int64_t credits) = 0;
  virtual CreditReport report() const = 0;
};

}  // namespace rubato
