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
// Memory order: run_word.h has that of the states; so a thread that sees kStopped sees whether the
// drain has failed. `datapath_drains_` is released and acquired: only a worker that sees that the
// datapath takes no new requests may find that none is left (datapath/drain_flag.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"
#include "datapath/datapath.h"
#include "mechanism/clock/clock.h"
#include "runtime/run_word.h"

namespace rubato {

class Shutdown {
 public:
  Shutdown(Datapath& datapath, Nanos drain_limit)
      : datapath_(datapath), drain_limit_ns_(drain_limit.count()) {}

  RunState state() const { return word_.state(); }
  bool running() const { return state() == RunState::kRunning; }
  bool changed() const { return state() == RunState::kChanged; }
  // Between two policies too.
  bool serving() const { return state() < RunState::kDraining; }

  // Until no worker runs any more, or is about to end.
  void wait_until_over() const { word_.wait_until_over(); }

  // Safe in a signal handler.
  void ask_to_stop() { word_.order_stop(now().ns()); }

  // ---- A change of the policy -----------------------------------------------------------------

  // The time that the workers have to answer what they have taken in. Others wait meanwhile.
  static constexpr Nanos kHoldLimit = Nanos::seconds(1);

  // For one thread at a time. False: the runtime does not serve, or is held already.
  bool hold() {
    if (!running()) return false;
    hold_began_ns_.store(now().ns(), std::memory_order_relaxed);
    return word_.hold();
  }
  // The number of the hold that lasts, from 1; 0 = none does.
  uint32_t held() const { return word_.held(); }
  // Workers call these while that hold lasts. True = it does not any more by this call.
  bool end_hold(uint32_t number) { return word_.end_hold(number, RunState::kChanged); }
  bool give_up_hold(uint32_t number, Instant at) {
    if (at - Instant(hold_began_ns_.load(std::memory_order_relaxed)) < kHoldLimit) return false;
    if (!word_.end_hold(number, RunState::kRunning)) return false;
    holds_given_up_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  uint64_t holds_given_up() const { return holds_given_up_.load(std::memory_order_relaxed); }
  // The threads of the old policy have ended.
  void go_on() { word_.go_on(); }

  // ---- The drain ------------------------------------------------------------------------------

  Nanos drain_limit() const { return Nanos(drain_limit_ns_.load(std::memory_order_relaxed)); }
  void set_drain_limit(Nanos limit) {
    drain_limit_ns_.store(limit.count(), std::memory_order_relaxed);
  }

  // The time since the order to stop; below 0 = there was none.
  Nanos drained_for(Instant at) const {
    const int64_t began = word_.ordered_ns();
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
    static_cast<void>(word_.stop());
    return true;
  }

  // How long a worker without work may sleep while draining; zero = the drain is over.
  Nanos longest_sleep(Instant at) const {
    if (!datapath_.tells_end()) return kDrainingSleep;
    if (datapath_.in_flight() == 0) return {};
    const Nanos left = drain_limit() - drained_for(at);
    return std::max(left > Nanos() ? left : left + kEndLimit, Nanos());
  }

  // Requests of clients that are still connected were abandoned.
  void fail() { failed_.store(true, std::memory_order_relaxed); }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  // The time that a request has to end after it was told to at the drain limit.
  static constexpr Nanos kEndLimit = Nanos::millis(100);
  // Nobody wakes a worker when a poll or a sweep ends what was last in flight.
  static constexpr Nanos kDrainingSleep = Nanos::millis(1);

  Datapath& datapath_;
  std::atomic<int64_t> drain_limit_ns_;
  RunWord<> word_;
  std::atomic_flag drain_ordered_{};  // a worker calls begin_drain()
  // Relaxed: who does not see it yet waits for it.
  std::atomic<int64_t> patience_ns_{Nanos::max().count()};
  std::atomic_flag drain_started_{};  // a worker calls drain()
  std::atomic<bool> datapath_drains_{false};  // and the call has returned
  std::atomic<int64_t> hold_began_ns_{0};   // relaxed: the state orders it
  std::atomic<uint64_t> holds_given_up_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace rubato
