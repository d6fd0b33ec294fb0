// SPDX-License-Identifier: Apache-2.0
//
// CreditSource: the credits that a server's clients hold, as the runtime uses them: to allocate
// cores (overload/cores/contract.h, IdleHost), to count refusals, and to inform load balancers. The
// server that hands out credits lends the source to the runtime for its life. Any thread, at any
// time.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"
#include "datapath/request.h"
#include "policy/job.h"

namespace rubato {

// The state of a source. Each number was true a moment ago, but not all at the same moment.
struct CreditReport {
  int64_t sessions = 0;
  int64_t drained = 0;
  int64_t total = 0;   // credits that all sessions together may have
  int64_t issued = 0;  // credits told to the sessions
  Nanos delay;         // how long requests wait for their turn
  // The requests that the source itself refused, without those that the runtime refuses and counts.
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
