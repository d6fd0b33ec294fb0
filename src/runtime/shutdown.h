// SPDX-License-Identifier: Apache-2.0
//
// Shutdown: the way of one runtime from serving to stopped:
//
//   kRunning -> kDraining   ask_to_stop: no new requests, those in flight are answered
//   kDraining -> kStopped   a worker finds no request left, or those left do not end although they
//                           were told to at the drain limit
//
// Any thread. The caller must wake the sleeping workers after each step.
//
// Memory order: the state is stored with release and loaded with acquire, so a thread that sees
// kStopped sees whether the drain has failed. So is `datapath_drains_`: only a worker that sees
// that the datapath takes no new requests may find that none is left (datapath/drain_flag.h). The
// time of the order to stop is relaxed: it orders nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"
#include "datapath/datapath.h"
#include "mechanism/clock/clock.h"

namespace rubato {

enum class RunState : uint8_t { kRunning, kDraining, kStopped };

class Shutdown {
 public:
  Shutdown(Datapath& datapath, Nanos drain_limit)
      : datapath_(datapath), drain_limit_ns_(drain_limit.count()) {}

  RunState state() const { return state_.load(std::memory_order_acquire); }
  bool running() const { return state() == RunState::kRunning; }

  void wait_until_stopped() const {
    for (RunState seen = state(); seen != RunState::kStopped; seen = state()) {
      state_.wait(seen, std::memory_order_acquire);
    }
  }

  // Safe in a signal handler.
  void ask_to_stop() {
    int64_t never = 0;
    drain_began_ns_.compare_exchange_strong(never, now().ns(), std::memory_order_relaxed);
    RunState expected = RunState::kRunning;
    state_.compare_exchange_strong(expected, RunState::kDraining, std::memory_order_acq_rel);
  }

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
    state_.store(RunState::kStopped, std::memory_order_release);
    state_.notify_all();
    return true;
  }

  // Requests of clients that are still connected were abandoned.
  void fail() { failed_.store(true, std::memory_order_relaxed); }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  // The time that a request has to end after it was told to at the drain limit.
  static constexpr Nanos kEndLimit = Nanos::millis(100);

  Datapath& datapath_;
  std::atomic<int64_t> drain_limit_ns_;
  std::atomic<RunState> state_{RunState::kRunning};
  std::atomic_flag drain_ordered_{};  // a worker calls begin_drain()
  // Relaxed: who does not see it yet waits for it.
  std::atomic<int64_t> patience_ns_{Nanos::max().count()};
  std::atomic_flag drain_started_{};  // a worker calls drain()
  std::atomic<bool> datapath_drains_{false};  // and the call has returned
  std::atomic<int64_t> drain_began_ns_{0};  // 0 = no order to stop
  std::atomic<bool> failed_{false};
};

}  // namespace rubato
