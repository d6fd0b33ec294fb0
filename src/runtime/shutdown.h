// SPDX-License-Identifier: Apache-2.0
//
// Shutdown: the way of one runtime from serving to stopped, and from one policy to the next:
//
//   kRunning -> kDraining   ask_to_stop: no new requests, those in flight are answered
//   kDraining -> kStopped   a worker finds no request left, or those left do not end although they
//                           were told to at the drain limit
//   kRunning -> kHeld       hold: workers take nothing in until all that they have is answered
//   kHeld -> kChanged       a worker finds that so (runtime/hold.h); the workers end
//   kHeld -> kRunning       that took too long: the old policy goes on
//   kHeld -> kDraining      ask_to_stop comes first: the old policy goes on, to the end
//   kChanged -> kRunning    go_on: workers of the next policy are about to start; or, if there was
//                           an order to stop meanwhile, -> kDraining
//
// Any thread. The caller must wake the sleeping workers after each step.
//
// Memory order: the state is stored with release and loaded with acquire, so a thread that sees
// kStopped sees whether the drain has failed. The number of the hold is part of the same word, so
// that what was found of one hold does not end the next. `datapath_drains_` is released and
// acquired: only a worker that sees that the datapath takes no new requests may find that none is
// left (datapath/drain_flag.h). An order to stop writes its time and then moves the state, go_on
// moves the state and then reads the time, all in the single order of sequential consistency: one
// of the two finds the other's. Other readers of the time take it relaxed: it orders nothing for
// them.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"
#include "datapath/datapath.h"
#include "mechanism/clock/clock.h"

namespace rubato {

enum class RunState : uint8_t { kRunning, kHeld, kChanged, kDraining, kStopped };

class Shutdown {
 public:
  Shutdown(Datapath& datapath, Nanos drain_limit)
      : datapath_(datapath), drain_limit_ns_(drain_limit.count()) {}

  RunState state() const { return state_of(word_.load(std::memory_order_acquire)); }
  bool running() const { return state() == RunState::kRunning; }
  bool changed() const { return state() == RunState::kChanged; }
  // Between two policies too.
  bool serving() const { return state() < RunState::kDraining; }

  // Until no worker runs any more, or is about to end.
  void wait_until_over() const {
    for (Word seen = word_.load(std::memory_order_acquire); !ends(state_of(seen));
         seen = word_.load(std::memory_order_acquire)) {
      word_.wait(seen, std::memory_order_acquire);
    }
  }

  // Safe in a signal handler.
  void ask_to_stop() {
    int64_t never = 0;
    drain_began_ns_.compare_exchange_strong(never, now().ns());
    begin_drain();
  }

  // ---- A change of the policy -----------------------------------------------------------------

  // The time that the workers have to answer what they have taken in. Others wait meanwhile.
  static constexpr Nanos kHoldLimit = Nanos::seconds(1);

  // For one thread at a time. False: the runtime does not serve, or is held already.
  bool hold() {
    if (!running()) return false;
    hold_began_ns_.store(now().ns(), std::memory_order_relaxed);
    return moves(RunState::kRunning, RunState::kHeld);
  }
  // The number of the hold that lasts, from 1; 0 = none does.
  uint32_t held() const {
    const Word seen = word_.load(std::memory_order_acquire);
    return state_of(seen) == RunState::kHeld ? seen >> kStateBits : 0;
  }
  // Workers call these while that hold lasts. True = it does not any more by this call.
  bool end_hold(uint32_t number) {
    return swaps(word_of(number, RunState::kHeld), RunState::kChanged);
  }
  bool give_up_hold(uint32_t number, Instant at) {
    if (at - Instant(hold_began_ns_.load(std::memory_order_relaxed)) < kHoldLimit) return false;
    if (!swaps(word_of(number, RunState::kHeld), RunState::kRunning)) return false;
    holds_given_up_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  uint64_t holds_given_up() const { return holds_given_up_.load(std::memory_order_relaxed); }
  // The threads of the old policy have ended.
  void go_on() {
    RUBATO_CHECK(moves(RunState::kChanged, RunState::kRunning));
    if (drain_began_ns_.load() != 0) begin_drain();
  }

  // ---- The drain ------------------------------------------------------------------------------

  Nanos drain_limit() const { return Nanos(drain_limit_ns_.load(std::memory_order_relaxed)); }
  void set_drain_limit(Nanos limit) {
    drain_limit_ns_.store(limit.count(), std::memory_order_relaxed);
  }

  // The time since the order to stop; below 0 = there was none.
  Nanos drained_for(Instant at) const {
    const int64_t began = drain_began_ns_.load(std::memory_order_relaxed);
    return began != 0 ? at - Instant(began) : Nanos(-1);
  }

  // Workers call this while draining. True = the runtime has stopped by this call.
  bool stop_if_drained(Instant at) {
    RUBATO_DCHECK(!running());
    if (!drain_ordered_.test_and_set(std::memory_order_relaxed)) {
      patience_ns_.store(datapath_.begin_drain().count(), std::memory_order_relaxed);
    }
    if (drained_for(at).count() < patience_ns_.load(std::memory_order_relaxed)) return false;
    if (!drain_started_.test_and_set(std::memory_order_relaxed)) {
      datapath_.drain();
      datapath_drains_.store(true, std::memory_order_release);
    }
    if (!datapath_drains_.load(std::memory_order_acquire)) return false;
    const bool empty = datapath_.in_flight() == 0;
    if (!empty && drained_for(at) < drain_limit() + kEndLimit) return false;
    if (!empty) fail();
    moves(RunState::kDraining, RunState::kStopped);
    return true;
  }

  // Requests of clients that are still connected were abandoned.
  void fail() { failed_.store(true, std::memory_order_relaxed); }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  using Word = uint32_t;  // the number of the last hold, and the state
  static constexpr uint32_t kStateBits = 3;

  // The time that a request has to end after it was told to at the drain limit.
  static constexpr Nanos kEndLimit = Nanos::millis(100);

  static RunState state_of(Word word) {
    return static_cast<RunState>(word & ((1u << kStateBits) - 1));
  }
  static Word word_of(uint32_t hold, RunState state) {
    return hold << kStateBits | static_cast<Word>(state);
  }
  static bool ends(RunState state) {
    return state == RunState::kStopped || state == RunState::kChanged;
  }

  // The notification is for wait_until_over alone.
  bool swaps(Word seen, RunState to) {
    const uint32_t hold = (seen >> kStateBits) + (to == RunState::kHeld ? 1 : 0);
    if (!word_.compare_exchange_strong(seen, word_of(hold, to))) return false;
    if (ends(to)) word_.notify_all();
    return true;
  }
  bool moves(RunState from, RunState to) {
    for (Word seen = word_.load(); state_of(seen) == from; seen = word_.load()) {
      if (swaps(seen, to)) return true;
    }
    return false;
  }
  void begin_drain() {
    for (Word seen = word_.load(); may_drain(state_of(seen)); seen = word_.load()) {
      if (swaps(seen, RunState::kDraining)) return;
    }
  }
  static bool may_drain(RunState state) {
    return state == RunState::kRunning || state == RunState::kHeld;
  }

  Datapath& datapath_;
  std::atomic<int64_t> drain_limit_ns_;
  std::atomic<Word> word_{word_of(0, RunState::kRunning)};
  std::atomic_flag drain_ordered_{};  // a worker calls begin_drain()
  // Relaxed: who does not see it yet waits for it.
  std::atomic<int64_t> patience_ns_{Nanos::max().count()};
  std::atomic_flag drain_started_{};  // a worker calls drain()
  std::atomic<bool> datapath_drains_{false};  // and the call has returned
  std::atomic<int64_t> drain_began_ns_{0};  // 0 = no order to stop
  std::atomic<int64_t> hold_began_ns_{0};   // relaxed: the state orders it
  std::atomic<uint64_t> holds_given_up_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace rubato
