// SPDX-License-Identifier: Apache-2.0
//
// IdleFlows: which of a fixed number of flows owe nothing, in no order; each step takes the same
// time, however many there are. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "load/flows.h"

namespace rubato::load {

class IdleFlows {
 public:
  // None of them is idle yet. Once, before anything else.
  void start(uint32_t flows) { slots_.assign(flows, kNoFlow); }

  bool has(uint32_t flow) const { return slots_[flow] != kNoFlow; }
  // Requires that it is not idle.
  void add(uint32_t flow) {
    slots_[flow] = static_cast<uint32_t>(idle_.size());
    idle_.push_back(flow);
  }
  void remove(uint32_t flow) {
    const uint32_t slot = slots_[flow];
    if (slot == kNoFlow) return;
    idle_[slot] = idle_.back();
    slots_[idle_[slot]] = slot;
    slots_[flow] = kNoFlow;  // at the end: it may be the last one
    idle_.pop_back();
  }
  // Any of them; kNoFlow if there is none.
  uint32_t pick(Prng& prng) const {
    return idle_.empty() ? kNoFlow : idle_[prng.below(static_cast<uint32_t>(idle_.size()))];
  }

 private:
  std::vector<uint32_t> idle_;
  std::vector<uint32_t> slots_;  // in idle_, by flow
};

}  // namespace rubato::load
