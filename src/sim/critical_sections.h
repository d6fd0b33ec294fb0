// SPDX-License-Identifier: Apache-2.0
//
// Critical sections of requests: where in its work a request has them, and the lock that all of
// them take where the machine has one. Pure; one owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/result.h"
#include "base/time.h"
#include "sim/costs.h"
#include "sim/shared_line.h"

namespace rubato::sim {

// Fails with one line where what a machine says of its sections does not go together. Who waits for
// the lock knows until when, which a holder that stands still would change.
inline Status check_critical_sections(const Costs& costs) {
  const Costs::CriticalSections& sections = costs.critical_sections;
  if ((sections.count == 0) != (sections.length == Nanos())) {
    return Error{"critical_sections.count and length go together: both above 0, or neither"};
  }
  if (sections.lock == Lock::kNone) return Done{};
  if (sections.count == 0) {
    return Error{"critical_sections.lock goes with critical_sections.count and length"};
  }
  if (costs.stalls.length == Nanos() && costs.hyperthreads.threads == 0) return Done{};
  return Error{"critical_sections.lock goes neither with stalls nor with hyperthreads.threads"};
}

// Of a request of so much service: each of its sections, shorter where they would not fit.
inline Nanos section_length(const Prices::CriticalSections& sections, Nanos service) {
  return std::min(sections.length, service / int64_t{sections.count});
}

// The work before its section `number`, from 0 on: the first is at its beginning and, of several,
// the last at its end.
inline Nanos section_start(const Prices::CriticalSections& sections, Nanos service,
                           uint32_t number) {
  if (number == 0) return Nanos();
  const Nanos last = service - section_length(sections, service);
  return last * int64_t{number} / int64_t{sections.count - 1};
}

// The lock of all workers. They get it in the order in which they ask.
class SectionLock {
 public:
  bool is_taken(Instant now) const { return free_at_ > now; }

  // The worker asks for it, and keeps it for `length`; `transfer` is what its line costs that
  // another one had. Returns when it has it.
  Instant take(uint32_t worker, Instant now, Nanos length, Nanos transfer) {
    if (is_taken(now)) ++waits_;
    const Instant has = std::max(now, free_at_) + line_.move_to(worker, transfer);
    free_at_ = has + length;
    return has;
  }
  // The worker, which finds it taken, turns to another request.
  void note_yield() { ++yields_; }

  uint64_t waits() const { return waits_; }
  uint64_t yields() const { return yields_; }

 private:
  SharedLine line_;
  Instant free_at_;
  uint64_t waits_ = 0;
  uint64_t yields_ = 0;
};

}  // namespace rubato::sim
