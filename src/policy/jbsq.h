// SPDX-License-Identifier: Apache-2.0
//
// JBSQ(k), join the bounded shortest queue: a dispatcher keeps up to k requests at each worker, the
// one that runs included, so that a worker need not wait for the dispatcher between two requests;
// what is beyond that waits in one queue. JBSQ(1) is c-FCFS by push. Pure; policy/contract.h says
// when the host calls what.
#pragma once

#include <array>

#include "policy/contract.h"

namespace rubato {

class Jbsq {
 public:
  static constexpr const char* kName = "jbsq";
  static constexpr const char* kSummary = "a dispatcher keeps k requests at each worker";
  static constexpr const char* kSource = "R2P2, ATC 2019; Concord, SOSP 2023, section 3.2";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr bool kInterchangeable = true;
  static constexpr bool kPushes = true;
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
    Job* in_hand = nullptr;  // its worker had no room after all
  };
  using Plan = None;

  explicit constexpr Jbsq(Config config) : config_(config) {}

  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    return host.take(local(me.value));
  }

  template <class H>
  void dispatch(Central& central, H& host) const {
    hand_out(central, host, host.workers());
  }

 protected:
  static constexpr QueueRef kCentral{0, 0};
  static constexpr QueueRef local(uint32_t worker) { return {1, worker}; }

  // To the first so many workers.
  template <class H>
  void hand_out(Central& central, H& host, uint32_t workers) const {
    fill(central, host, [&host, workers](uint32_t most, uint32_t from) {
      const uint32_t found = verb::find_shorter(host, local(0).declaration, most, from, workers);
      return found < workers ? found : host.workers();
    });
  }

  // The shortest queues first: to those that hold nothing, then to those that hold one, and so on.
  // find(most, from) is the first worker from `from` on that holds at most `most`.
  template <class H, class Find>
  void fill(Central& central, H& host, Find&& find) const {
    if (central.in_hand == nullptr && host.depth(kCentral) == 0) return;
    for (uint32_t length = 0; length < config_.k; ++length) {
      for (uint32_t w = find(length, 0); w < host.workers(); w = find(length, w + 1)) {
        if (!give(central, w, host)) return;
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
    return true;
  }

  Config config_;
};

}  // namespace rubato
