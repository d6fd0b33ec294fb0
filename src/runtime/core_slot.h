// SPDX-License-Identifier: Apache-2.0
//
// CoreSlot: records whether one worker has its core, and lets the worker park without missing work
// that is meant for it. The worker parks and unparks itself; the controller asks it to park, or
// grants it the core again; every other thread wakes it when there is work that only this worker
// may serve.
//
//   kGranted --request_park--> kParkRequested   the worker parks when it next has nothing to do
//   kGranted, kParkRequested --park--> kParked  its owner only, before its last look for work
//   kParked --wake--> kWoken                    the worker looks again, and keeps what it finds
//   any --grant--> kGranted
//   kParked, kWoken --unpark--> kGranted        its owner only: it found work after all
//   kWoken --repark--> kParked                  its owner only: it found nothing, and looks again
//
// Memory order. Every change, and every wake, is a read-modify-write of one word with
// acquire-release order, so all of them are in one order in which each sees the changes before it.
// A waker makes the work visible first; the owner parks first and looks for work then. If the wake
// comes after the parking it finds kParked, and the owner does not sleep or is woken; if it comes
// before, the parking sees the waker's changes, and the look finds the work. get() is relaxed: a
// hint.
//
// wake() and grant() are even seq_cst, as the caller notifies next, and libstdc++ notifies nobody
// if a seq_cst load finds nobody waiting: so the owner's sleep is seen, or the owner sees the
// change and does not sleep.
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/limits.h"
#include "mechanism/queue/sync.h"

namespace rubato {

enum class CoreState : uint32_t { kGranted, kParkRequested, kParked, kWoken };

template <class Sync = StdSync>
class CoreSlot {
 public:
  CoreState get() const { return state(word_.load(std::memory_order_relaxed)); }
  bool has_core() const {
    return get() == CoreState::kGranted || get() == CoreState::kParkRequested;
  }

  // Called by the controller. False = the worker has no core to give up, or was asked already.
  bool request_park() { return change(CoreState::kGranted, CoreState::kParkRequested); }
  // True = the worker was parked and must be woken.
  bool grant() {
    const CoreState before = exchange(CoreState::kGranted);
    return before == CoreState::kParked || before == CoreState::kWoken;
  }

  // Any thread, after making work visible that the owner may serve. True = the owner sleeps: notify
  // it.
  bool wake() {
    for (uint32_t seen = word_.load(std::memory_order_relaxed);;) {
      const bool parked = state(seen) == CoreState::kParked;
      const uint32_t next = parked ? number(CoreState::kWoken) : seen;
      if (word_.compare_exchange_strong(seen, next, std::memory_order_seq_cst,
                                        std::memory_order_relaxed)) {
        return parked;
      }
    }
  }

  // Called by the owner. After park() it looks for work; then it sleeps while asleep(), or unparks.
  void park() {
    [[maybe_unused]] const CoreState before = exchange(CoreState::kParked);
    RUBATO_DCHECK(before == CoreState::kGranted || before == CoreState::kParkRequested);
  }
  bool asleep() const { return get() == CoreState::kParked; }
  // False = the owner has been granted its core.
  bool repark() { return asleep() || change(CoreState::kWoken, CoreState::kParked); }
  // The owner takes its core back. False = the core had been granted already.
  bool unpark() { return grant(); }

  // Called by the owner: sleeps while asleep().
  void sleep() const { word_.wait(number(CoreState::kParked), std::memory_order_acquire); }
  // Any thread, after wake() or grant(): ends the sleep.
  void notify() { word_.notify_all(); }

 private:
  static constexpr uint32_t number(CoreState state) { return static_cast<uint32_t>(state); }
  static constexpr CoreState state(uint32_t word) { return static_cast<CoreState>(word); }

  bool change(CoreState from, CoreState to) {
    uint32_t expected = number(from);
    return word_.compare_exchange_strong(expected, number(to), std::memory_order_acq_rel,
                                         std::memory_order_relaxed);
  }

  CoreState exchange(CoreState to) {
    uint32_t seen = word_.load(std::memory_order_relaxed);
    while (!word_.compare_exchange_strong(seen, number(to), std::memory_order_seq_cst,
                                          std::memory_order_relaxed)) {
    }
    return state(seen);
  }

  alignas(limits::kCacheLineBytes) typename Sync::template Atomic<uint32_t> word_{};
};

}  // namespace rubato
