// SPDX-License-Identifier: Apache-2.0
//
// Schedulers made of hardware: the NIC hands requests to the cores itself, over the network on
// chip. They differ from `jbsq` in what a hand-over costs (cost files rpcvalet, nebula and nanopu
// of the simulator) and in nanoPU's bound on processing time. Simulated only: no server has such a
// NIC. Pure; policy/contract.h says when the host calls what.
#pragma once

#include <array>

#include "base/limits.h"
#include "policy/jbsq.h"

namespace rubato {

// One queue in the NIC, and one request at a core.
class Rpcvalet : public Jbsq {
 public:
  static constexpr const char* kName = "rpcvalet";
  static constexpr const char* kSummary =
      "the NIC keeps one queue and gives a request to a core that is free";
  static constexpr const char* kSource = "RPCValet, ASPLOS 2019; Altocumulus, Table I";
  static constexpr bool kSimulatedOnly = true;
  static constexpr bool kWorkConserving = true;

  using Config = None;

  explicit constexpr Rpcvalet(Config) : Jbsq({.k = 1}) {}
};

// JBSQ(2): the second request hides the way from the NIC to the core.
class Nebula : public Jbsq {
 public:
  static constexpr const char* kName = "nebula";
  static constexpr const char* kSummary = "the NIC keeps k requests at each core";
  static constexpr const char* kSource = "Nebula, ISCA 2020; Altocumulus, section VII-A";
  static constexpr bool kSimulatedOnly = true;

  explicit constexpr Nebula(Config config) : Jbsq(config) {}
};

// JBSQ(2), and a core puts a request aside that exceeds its bound while another one waits there.
// What was put aside stays at its core and goes on when nothing fresh waits. Assumed: it counts as
// one of the core's k, since it is not done; otherwise long requests pile up at some of the cores.
// The bound is looked at again after its own length, not at the very arrival.
class Nanopu : public Jbsq {
 public:
  static constexpr const char* kName = "nanopu";
  static constexpr const char* kSummary =
      "the NIC keeps k requests at each core; one beyond its bound lets a waiting one pass";
  static constexpr const char* kSource = "nanoPU, OSDI 2021; Altocumulus, section VIII-A";
  static constexpr bool kSimulatedOnly = true;
  static constexpr Preempts kPreempts = Preempts::kEverything;
  // A request that used up the bound has the lower of two strict priorities at its core.
  static constexpr MayStarve kMayStarve = MayStarve::kLong;
  static constexpr std::array<QueueDeclaration, 3> kQueues{{
      Jbsq::kQueues[0],
      Jbsq::kQueues[1],
      {"aside", Scope::kPerWorker, Sharing::kOwner},
  }};

  struct Config {
    uint32_t k = 2;
    Nanos bound = Nanos::micros(1);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"k", "", 1, 64, "requests at a core, those that run or are put aside included"},
      c.k);
    v(OptionInfo{"bound", "us", 0.1, 1e6, "processing time after which a request may be put aside"},
      c.bound);
  }

  struct Central : Jbsq::Central {
    std::array<uint32_t, limits::kSimulatedWorkers> held{};  // by each worker, before a round
  };

  explicit constexpr Nanopu(Config config) : Jbsq({.k = config.k}), bound_(config.bound) {}

  template <class H>
  Job* next(Worker& worker, WorkerId me, H& host) const {
    if (Job* job = Jbsq::next(worker, me, host)) return job;
    return host.take(aside(me.value));
  }

  template <class H>
  Nanos quantum(const Worker&, const Job&, H&) const {
    return bound_;
  }

  template <class H>
  SliceDecision expired(const Job&, WorkerId me, H& host) const {
    return host.depth(local(me.value)) > 0 ? SliceDecision::kPreempt : SliceDecision::kContinue;
  }

  static constexpr CutsFor cuts_for() { return CutsFor::kOwnQueues; }

  template <class H>
  QueueRef requeue(const Job&, RequeueReason, WorkerId me, H&) const {
    return aside(me.value);
  }

  template <class H>
  void dispatch(Central& central, H& host) const {
    const auto note_held = [&] {
      for (uint32_t w = 0; w < host.workers(); ++w) {
        central.held[w] =
            host.depth(local(w)) + (host.busy(WorkerId{w}) ? 1 : 0) + host.depth(aside(w));
      }
    };
    fill(central, host, [&](uint32_t most, uint32_t from) {
      if (most == 0 && from == 0) note_held();
      while (from < host.workers() && central.held[from] > most) ++from;
      return from;
    });
  }

 private:
  static constexpr QueueRef aside(uint32_t worker) { return {2, worker}; }

  Nanos bound_;
};

}  // namespace rubato
