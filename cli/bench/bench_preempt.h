// SPDX-License-Identifier: Apache-2.0
//
// The measurements of `rubato bench preempt` for one mechanism: the way of an interrupt in the
// stages of Synergy's Fig. 5.3, and the slices of two requests on one live worker. Main thread; the
// functions start threads of their own and end them. Times are in nanoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "calibrate/measurements.h"
#include "mechanism/preempt/mechanism.h"

namespace rubato::cli {

struct Spread {
  double p50_ns = 0;
  double p999_ns = 0;
  uint64_t count = 0;  // 0 = not measured
};

// Sorts `ns`.
Spread spread_of(std::vector<double>& ns);

struct Delivery {
  Spread send;         // the sender's call; of a timer: arming it
  Spread propagation;  // from its start to the first instruction of the handler; of a timer: from
                       // when it was due
  Spread receive;      // from the victim's last instruction to there
  Spread come_back;    // from the handler's last instruction to the victim's next
  Spread disarm;       // timers only
};

struct Quantum {
  Nanos asked;
  Spread achieved;  // from a request's first instruction in a slice to its last
  Spread cost;      // from there to the first instruction of the other request: end to end
};

struct PreemptFigures {
  PreemptMechanism mechanism = PreemptMechanism::kCheckpoint;
  std::string missing;  // the reason why it was not measured; empty = it was
  Delivery delivery;
  std::vector<Quantum> quanta;
};

// Stops early when interrupted.
Result<Delivery> measure_delivery(PreemptMechanism mechanism, const calibrate::Place& place,
                                  uint32_t rounds);

// `slices` of them, at least.
Result<Quantum> measure_quantum(PreemptMechanism mechanism, const calibrate::Place& place,
                                Nanos asked, uint32_t slices);

std::string preempt_table(const std::vector<PreemptFigures>& figures, uint32_t rounds);
std::string preempt_json(const std::vector<PreemptFigures>& figures, uint32_t rounds);

}  // namespace rubato::cli
