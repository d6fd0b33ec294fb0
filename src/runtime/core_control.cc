// SPDX-License-Identifier: Apache-2.0
#include "runtime/core_control.h"

#include <algorithm>
#include <utility>

namespace rubato {
namespace {

template <class Watched>
overload::CoreKinds count_kinds(const std::vector<CoreSlot<>>& slots,
                                const std::vector<Watched>& watched) {
  overload::CoreKinds kinds;
  for (uint32_t w = 0; w < slots.size(); ++w) {
    kinds.count(watched[w].kind, slots[w].get() == CoreState::kGranted);
  }
  return kinds;
}

}  // namespace

CoreControl::CoreControl(std::unique_ptr<overload::CoreRule> rule, uint32_t workers,
                         uint32_t guaranteed, CreditSource* credits)
    : rule_(std::move(rule)),
      guaranteed_(guaranteed),
      idle_(credits),
      slots_(workers),
      delegated_(workers),
      own_(workers),
      limit_(workers),
      watched_(workers) {
  idle_.granted.store(workers, std::memory_order_relaxed);
}

bool CoreControl::should_park(WorkerId worker, Nanos polled) {
  if (slots_[worker.value].get() == CoreState::kParkRequested) {
    resumed(worker);
    return true;
  }
  return rule_->idle(worker.value, polled, idle_) == overload::IdleAction::kPark;
}

void CoreControl::park(WorkerId worker) {
  ++own_[worker.value].parked;
  idle_.granted.fetch_sub(1, std::memory_order_relaxed);
  slots_[worker.value].park();
}

void CoreControl::sleep(WorkerId worker) {
  slots_[worker.value].sleep();
}

void CoreControl::unpark(WorkerId worker) {
  if (slots_[worker.value].unpark()) {
    ++own_[worker.value].self_unparks;
    idle_.granted.fetch_add(1, std::memory_order_relaxed);
  }
  resumed(worker);
}

bool CoreControl::wake(WorkerId worker) {
  CoreSlot<>& slot = slots_[worker.value];
  if (!slot.wake()) return false;
  slot.notify();
  return true;
}

// Requests that still wait have waited at least since the first look that found them waiting.
Nanos CoreControl::delay_of(Watched& watched, const WorkerSample& sample, Instant at) {
  const bool moved = sample.finished != std::exchange(watched.finished, sample.finished);
  if (!sample.waits) {
    watched.waits_since = Instant::never();
  } else if (moved || watched.waits_since == Instant::never()) {
    watched.waits_since = at;
  }
  return sample.waits ? at - watched.waits_since : Nanos();
}

uint32_t CoreControl::obey(overload::CoreChange change) {
  if (change == overload::CoreChange::kGrant) return grant_one();
  if (change == overload::CoreChange::kRelease) request_one_park();
  return kNobody;
}

// A worker that was told to park and has not parked yet keeps its core; otherwise the first parked
// worker gets one of the kind to which it is due.
uint32_t CoreControl::grant_one() {
  const auto workers = static_cast<uint32_t>(slots_.size());
  for (uint32_t w = 0; w < workers; ++w) {
    if (slots_[w].get() == CoreState::kParkRequested && !grant(w)) return kNobody;
  }
  const overload::CoreKinds kinds = count_kinds(slots_, watched_);
  uint32_t chosen = kNobody;
  for (uint32_t w = 0; w < workers; ++w) {
    if (slots_[w].has_core()) continue;
    const bool due = chosen == kNobody ||
                     kinds.is_due_before(watched_[w].kind, watched_[chosen].kind);
    if (due) chosen = w;
  }
  return chosen != kNobody && grant(chosen) ? chosen : kNobody;
}

// True = the worker was parked.
bool CoreControl::grant(uint32_t worker) {
  if (!slots_[worker].grant()) return false;
  idle_.granted.fetch_add(1, std::memory_order_relaxed);
  ++grants_;
  slots_[worker].notify();
  return true;
}

// Chooses the burst worker, of the kind that has a core too many, whose requests have waited least,
// an idle one first, and the last of equals.
void CoreControl::request_one_park() {
  const overload::CoreKinds kinds = count_kinds(slots_, watched_);
  const auto leaves_before = [&](const Watched& one, const Watched& other) {
    if (one.kind != other.kind) return !kinds.was_due_after(other.kind, one.kind);
    return one.reluctance <= other.reluctance;
  };
  uint32_t chosen = kNobody;
  for (uint32_t w = guaranteed_; w < slots_.size(); ++w) {
    if (slots_[w].get() != CoreState::kGranted) continue;
    if (chosen == kNobody || leaves_before(watched_[w], watched_[chosen])) chosen = w;
  }
  if (chosen != kNobody) slots_[chosen].request_park();
}

CoreControl::Counts CoreControl::counts() const {
  Counts sum;
  sum.granted = static_cast<uint64_t>(std::max<int64_t>(idle_.granted.load(
                                                            std::memory_order_relaxed), 0));
  sum.grants = grants_.value();
  for (const OwnCounts& own : own_) {
    sum.parked += own.parked.value();
    sum.self_unparks += own.self_unparks.value();
  }
  return sum;
}

}  // namespace rubato
