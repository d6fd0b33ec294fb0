// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_stats.h"

#include <algorithm>

namespace rubato {

WorkerStats::~WorkerStats() {
  for (auto& slot : types_) delete slot.load(std::memory_order_relaxed);
}

TypeStats& WorkerStats::make(uint32_t slot) {
  auto* stats = new TypeStats;
  types_[slot].store(stats, std::memory_order_release);
  if (slot >= types_end()) types_end_.store(slot + 1, std::memory_order_relaxed);
  return *stats;
}

void WorkerStats::add(const WorkerStats& other) {
  static constexpr Counter WorkerStats::* kCounters[] = {
      &WorkerStats::taken_in,           &WorkerStats::given_back,
      &WorkerStats::requests,           &WorkerStats::refused,
      &WorkerStats::cancelled,          &WorkerStats::preemptions,
      &WorkerStats::preemptions_avoided, &WorkerStats::preemptions_denied,
      &WorkerStats::preemptions_deferred, &WorkerStats::lock_yields,
      &WorkerStats::stuck_left,         &WorkerStats::waits,
      &WorkerStats::came_back,          &WorkerStats::resumed,
      &WorkerStats::long_by_feedback,   &WorkerStats::long_by_age,
      &WorkerStats::long_learned,       &WorkerStats::helped,
      &WorkerStats::parked,             &WorkerStats::woken,
      &WorkerStats::busy_ns,            &WorkerStats::asleep_ns};
  for (Counter WorkerStats::* counter : kCounters) this->*counter += (other.*counter).value();
  overrun.add(other.overrun);
  blocked.add(other.blocked);
  for (size_t i = 0; i < arrived.size(); ++i) arrived[i] += other.arrived[i].value();
  for (size_t i = 0; i < groups.size(); ++i) groups[i].add(other.groups[i]);
  for (size_t i = 0; i < classes_.size(); ++i) classes_[i].add(other.classes_[i]);
  for (size_t why = 0; why < refusals_.size(); ++why) {
    for (size_t job_class = 0; job_class < refusals_[why].size(); ++job_class) {
      refusals_[why][job_class] += other.refusals_[why][job_class].value();
    }
  }
  for (uint32_t type = 0; type < kRequestTypes; ++type) {
    if (const TypeStats* stats = other.find_type(type)) of_type(type).add(*stats);
  }
}

RecentSlices::Blocker RecentSlices::worst_between(Instant from, Instant to) const {
  Blocker worst;
  for (const Slice& slice : slices_) {
    const Nanos held = std::min(slice.end, to) - std::max(slice.start, from);
    if (held > worst.held) worst = {slice.type, held};
  }
  return worst;
}

}  // namespace rubato
