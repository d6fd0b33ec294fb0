// SPDX-License-Identifier: Apache-2.0
//
// The CPU time that the hypervisor kept from this machine, from /proc/stat. Any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace rubato::load {

struct StealTime {
  bool known = false;
  uint64_t steal = 0;  // ticks, all CPUs
  uint64_t total = 0;
};

StealTime read_steal_time();

// In percent; no value if either reading is unknown or no tick lies between them.
std::optional<double> steal_percent(const StealTime& before, const StealTime& after);

}  // namespace rubato::load
