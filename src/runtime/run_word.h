// SPDX-License-Identifier: Apache-2.0
//
// RunWord: the state of one runtime, from serving to stopped and from one policy to the next, and
// whether there was an order to stop. runtime/shutdown.h says what the states mean and who makes
// which step. Any thread.
//
// Memory order: the state is changed by read-modify-writes that release, and loaded with acquire.
// The number of the hold is part of the same word, so that what was found of one hold does not end
// the next. An order to stop writes its time and then moves the state, go_on moves the state and
// then reads the time, all in the single order of sequential consistency: one of the two finds the
// other's. Other readers of the time take it relaxed: it orders nothing for them. Changes are
// seq_cst also because the caller notifies next, and libstdc++ notifies nobody if a seq_cst load
// finds nobody waiting.
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "mechanism/queue/sync.h"

namespace rubato {

enum class RunState : uint8_t { kRunning, kHeld, kChanged, kDraining, kStopped };

template <class Sync = StdSync>
class RunWord {
 public:
  RunState state() const { return state_of(word_.load(std::memory_order_acquire)); }

  // Sleeps until no worker runs any more, or is about to end.
  void wait_until_over() const {
    for (Word seen = word_.load(std::memory_order_acquire); !ends(state_of(seen));
         seen = word_.load(std::memory_order_acquire)) {
      word_.wait(seen, std::memory_order_acquire);
    }
  }

  // Of several orders the first counts. `at_ns` is not 0. Safe in a signal handler.
  void order_stop(int64_t at_ns) {
    int64_t never = 0;
    ordered_ns_.compare_exchange_strong(never, at_ns, std::memory_order_seq_cst,
                                        std::memory_order_seq_cst);
    begin_drain();
  }
  int64_t ordered_ns() const { return ordered_ns_.load(std::memory_order_relaxed); }  // 0 = none

  bool hold() { return moves(RunState::kRunning, RunState::kHeld); }
  // The number of the hold that lasts, from 1; 0 = none does.
  uint32_t held() const {
    const Word seen = word_.load(std::memory_order_acquire);
    return state_of(seen) == RunState::kHeld ? seen >> kStateBits : 0;
  }
  // True = that hold does not last any more by this call.
  bool end_hold(uint32_t number, RunState to) {
    return swaps(word_of(number, RunState::kHeld), to);
  }
  // kChanged comes first.
  void go_on() {
    RUBATO_CHECK(moves(RunState::kChanged, RunState::kRunning));
    if (ordered_ns_.load(std::memory_order_seq_cst) != 0) begin_drain();
  }
  bool stop() { return moves(RunState::kDraining, RunState::kStopped); }

 private:
  using Word = uint32_t;  // the number of the last hold, and the state
  static constexpr uint32_t kStateBits = 3;

  static RunState state_of(Word word) {
    return static_cast<RunState>(word & ((1u << kStateBits) - 1));
  }
  static constexpr Word word_of(uint32_t hold, RunState state) {
    return hold << kStateBits | static_cast<Word>(state);
  }
  static bool ends(RunState state) {
    return state == RunState::kStopped || state == RunState::kChanged;
  }

  // The notification is for wait_until_over alone.
  bool swaps(Word seen, RunState to) {
    const uint32_t hold = (seen >> kStateBits) + (to == RunState::kHeld ? 1 : 0);
    if (!word_.compare_exchange_strong(seen, word_of(hold, to), std::memory_order_seq_cst,
                                       std::memory_order_seq_cst)) {
      return false;
    }
    if (ends(to)) word_.notify_all();
    return true;
  }
  Word load() const { return word_.load(std::memory_order_seq_cst); }
  bool moves(RunState from, RunState to) {
    for (Word seen = load(); state_of(seen) == from; seen = load()) {
      if (swaps(seen, to)) return true;
    }
    return false;
  }
  void begin_drain() {
    for (Word seen = load(); may_drain(state_of(seen)); seen = load()) {
      if (swaps(seen, RunState::kDraining)) return;
    }
  }
  static bool may_drain(RunState state) {
    return state == RunState::kRunning || state == RunState::kHeld;
  }

  typename Sync::template Atomic<Word> word_{word_of(0, RunState::kRunning)};
  typename Sync::template Atomic<int64_t> ordered_ns_{0};
};

}  // namespace rubato
