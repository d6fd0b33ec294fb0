// SPDX-License-Identifier: Apache-2.0
#include "gaps.h"

#include <x86intrin.h>

#include <algorithm>

#include "mechanism/preempt/checkpoint.h"

namespace rubato::loops {
namespace {

Gaps* g_measuring = nullptr;

}  // namespace

void Gaps::start() {
  g_measuring = this;
  checkpoint_set_handler(&Gaps::taken);
  checkpoint_budget_set(0);
  last_ = __rdtsc();
}

void Gaps::stop() {
  g_measuring = nullptr;
  checkpoint_set_handler(nullptr);
  checkpoint_budget_set(kCheckpointNever);
}

bool Gaps::taken() {
  g_measuring->note(__rdtsc() - g_measuring->last_);
  checkpoint_budget_set(0);
  g_measuring->last_ = __rdtsc();
  return false;
}

void Gaps::note(uint64_t gap) {
  ++count_;
  longest_ = std::max(longest_, gap);
  if (gap >= kStolen) {
    ++stolen_;
    return;
  }
  sum_ += gap;
  ++slots_[slot_of(gap)];
}

uint64_t Gaps::quantile(double share, bool by_time) const {
  const double wanted = share * static_cast<double>(by_time ? sum_ : count_ - stolen_);
  double seen = 0;
  for (unsigned slot = 0; slot < slots_.size(); ++slot) {
    const auto held = static_cast<double>(slots_[slot]);
    seen += by_time ? held * static_cast<double>(end_of(slot)) : held;
    if (held > 0 && seen >= wanted) return std::min(end_of(slot), longest_);
  }
  return longest_;
}

}  // namespace rubato::loops
