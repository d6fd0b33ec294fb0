// SPDX-License-Identifier: Apache-2.0
//
// Concord: JBSQ(k) whose requests are cut when their quantum is over, and then wait behind all
// others in the one queue of the dispatcher. With `conserves` the last worker stands for the
// dispatcher itself, which serves one of those that wait while no other worker has room (3.3). It
// does so to the end, as only there what it has begun can go on. Simulated only, as a system to
// compare with. Pure; policy/contract.h says when the host calls what.
#pragma once

#include "policy/fixed_quantum.h"
#include "policy/jbsq.h"

namespace rubato {

class Concord : public Jbsq, public FixedQuantum {
 public:
  static constexpr const char* kName = "concord";
  static constexpr const char* kSummary =
      "a dispatcher keeps k requests at each worker; fixed quantum, cut to the tail of its queue";
  static constexpr const char* kSource = "Concord, SOSP 2023, section 3";
  static constexpr bool kSimulatedOnly = true;
  static constexpr bool kPushes = false;  // with `conserves` it also takes what it has not pushed
  static constexpr Preempts kPreempts = Preempts::kEverything;

  struct Config {
    uint32_t k = 2;
    Nanos quantum = Nanos::micros(5);
    bool conserves = false;
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"k", "", 1, 64, "requests at a worker, the one that runs included"}, c.k);
    visit_quantum(c.quantum, v);
    v(OptionInfo{"conserves", "", 0, 1,
                 "the last worker is the dispatcher, which serves while no other one has room"},
      c.conserves);
  }

  explicit constexpr Concord(Config config)
      : Jbsq({.k = config.k}), FixedQuantum(config.quantum), config_(config) {}

  bool interchangeable() const { return !config_.conserves; }

  template <class H>
  Job* next(Worker& worker, WorkerId me, H& host) const {
    if (!is_dispatcher(me, host)) return Jbsq::next(worker, me, host);
    const bool full = find_room(host) == me.value;
    return full ? host.take(kCentral) : nullptr;
  }

  template <class H>
  void dispatch(Central& central, H& host) const {
    hand_out(central, host, host.workers() - (config_.conserves ? 1 : 0));
  }

  template <class H>
  SliceDecision expired(const Job&, WorkerId me, H& host) const {
    if (is_dispatcher(me, host)) return SliceDecision::kContinue;
    return preempt_if(host.depth(local(me.value)) + host.depth(kCentral) > 0);
  }

  template <class H>
  QueueRef requeue(const Job&, RequeueReason, WorkerId, H&) const {
    return kCentral;
  }

 private:
  template <class H>
  bool is_dispatcher(WorkerId worker, H& host) const {
    return config_.conserves && worker.value + 1 == host.workers();
  }
  // The first worker that does not hold k requests; the dispatcher's number if all do.
  template <class H>
  uint32_t find_room(H& host) const {
    return verb::find_shorter(host, local(0).declaration, config_.k - 1, 0, host.workers() - 1);
  }

  Config config_;
};

}  // namespace rubato
