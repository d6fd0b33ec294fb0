// SPDX-License-Identifier: Apache-2.0
#include "load/steal_time.h"

#include <fstream>
#include <string>

namespace rubato::load {
namespace {

// Columns of the "cpu" line: user nice system idle iowait irq softirq steal; the columns behind
// them (guest time) are part of user.
constexpr int kColumns = 8;

}  // namespace

StealTime read_steal_time() {
  std::ifstream stat("/proc/stat");
  std::string label;
  if (!(stat >> label) || label != "cpu") return {};
  StealTime time;
  for (int i = 0; i < kColumns; ++i) {
    uint64_t ticks = 0;
    if (!(stat >> ticks)) return {};
    time.total += ticks;
    time.steal = ticks;
  }
  time.known = true;
  return time;
}

std::optional<double> steal_percent(const StealTime& before, const StealTime& after) {
  if (!before.known || !after.known || after.total <= before.total) return {};
  const double steal = static_cast<double>(after.steal - before.steal);
  return 100.0 * steal / static_cast<double>(after.total - before.total);
}

}  // namespace rubato::load
