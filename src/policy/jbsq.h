// SPDX-License-Identifier: Apache-2.0
//
// JBSQ(k), join the bounded shortest queue: a dispatcher keeps up to k requests at each worker, the
// one that runs included, so that a worker need not wait for the dispatcher between two requests;
// what is beyond that waits in one queue. JBSQ(1) is c-FCFS by push. Pure; policy/contract.h says
// when the host calls what.
#pragma once

#include <array>

#include "base/check.h"
#include "base/limits.h"
#include "policy/contract.h"

namespace rubato {

class Jbsq {
 public:
  static constexpr const char* kName = "jbsq";
  static constexpr const char* kSummary = "a dispatcher keeps k requests at each worker";
  static constexpr const char* kSource = "R2P2, ATC 2019; Concord, SOSP 2023, section 3.2";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr bool kInterchangeable = true;
  static constexpr std::array<QueueDeclaration, 2> kQueues{{
      {"central", Scope::kGlobal, Sharing::kShared},
      {"local", Scope::kPerWorker, Sharing::kShared},
  }};

  struct Config {
    uint32_t k = 2;
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"k", "", 1, 64, "requests at a worker, the one that runs included"}, c.k);
  }

  using Worker = None;
  struct Central {
    std::array<uint32_t, limits::kMaxWorkers> held{};  // by each worker
    Job* in_hand = nullptr;                            // its worker had no room after all
  };
  using Plan = None;

  explicit constexpr Jbsq(Config config) : config_(config) {}

  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    return host.take(local(me.value));
  }

  template <class H>
  void dispatch(Central& central, H& host) const {
    fill(central, host, [this, &host](uint32_t w) { return held(w, host); });
  }

 protected:
  static constexpr QueueRef kCentral{0, 0};
  static constexpr QueueRef local(uint32_t worker) { return {1, worker}; }

  template <class H>
  uint32_t held(uint32_t w, H& host) const {
    return host.depth(local(w)) + (host.busy(WorkerId{w}) ? 1 : 0);
  }

  // The shortest queues first: to those that hold nothing, then to those that hold one, and so on.
  template <class H, class Held>
  void fill(Central& central, H& host, Held&& held_by) const {
    if (central.in_hand == nullptr && host.depth(kCentral) == 0) return;
    RUBATO_DCHECK(host.workers() <= limits::kMaxWorkers);
    for (uint32_t w = 0; w < host.workers(); ++w) central.held[w] = held_by(w);
    for (uint32_t length = 0; length < config_.k; ++length) {
      for (uint32_t w = 0; w < host.workers(); ++w) {
        if (central.held[w] == length && !give(central, w, host)) return;
      }
    }
  }

 private:
  // False = nothing to give, or no room.
  template <class H>
  bool give(Central& central, uint32_t w, H& host) const {
    if (central.in_hand == nullptr) central.in_hand = host.take(kCentral);
    if (central.in_hand == nullptr || !host.put(local(w), central.in_hand)) return false;
    central.in_hand = nullptr;
    ++central.held[w];
    RUBATO_DCHECK(central.held[w] <= config_.k);
    return true;
  }

  Config config_;
};

}  // namespace rubato
