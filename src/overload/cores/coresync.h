// SPDX-License-Identifier: Apache-2.0
//
// CoreSync's allocation of cores (section III, Algorithm 1): cores are granted as Shenango does,
// and a core with nothing to do parks only if the credits that clients hold fit those that remain.
//   * While a session is drained the server is overloaded, however quiet it may be right now:
//     nobody parks (III-B, lines 16-18).
//   * One core parks at a time (lines 19-21).
//   * Clients may hold a credit each, and `r` more per core (partial proportionality, line 23). If
//     they hold more, the core withholds its share of them from the total once (lines 24-27), and
//     polls on until enough have come back (lines 28-30).
//   * What it withheld it returns when it is woken (line 34), and when it finds work before it
//     could park. If a session is drained meanwhile it returns it as well, and starts anew when
//     none is: the published code forgets the amount there, and the total stays lower for good.
// Pure; overload/cores/contract.h says when the host calls what.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "overload/cores/reactive.h"

namespace rubato::overload {

class CoresyncCores {
 public:
  static constexpr const char* kName = "coresync";
  static constexpr const char* kSummary =
      "as reactive, and a core parks when clients hold few enough credits and none is drained";
  static constexpr const char* kSource = "CoreSync, Algorithm 1";
  static constexpr bool kParks = true;

  struct Config {
    ReactiveConfig reactive;
    double r = 50;  // IV-A
    bool scale_r = false;
    bool pause = true;  // the published scripts run it on Caladan's scheduler, which does not
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    ReactiveConfig::visit(c.reactive, v);
    v(OptionInfo{"r", "", 1, 1e6, "credits per core that clients may hold beyond one each"}, c.r);
    v(OptionInfo{"scale_r", "", 0, 1, "r is for 100 sessions; in proportion for others"},
      c.scale_r);
    v(OptionInfo{"pause", "", 0, 1, "let an interval pass after a grant; off = as caladan"},
      c.pause);
  }

  using Controller = ReactiveCores::Controller;
  struct Idle {
    bool parking = false;  // this core is the one that parks
    int64_t withheld = 0;  // C_sub
  };

  explicit constexpr CoresyncCores(Config config)
      : config_(config), reactive_(config.reactive) {}

  Nanos interval() const { return reactive_.interval(); }

  CoreChange change(Controller& controller, const CoreSignals& signals) const {
    if (!config_.pause) controller.granted = false;
    return reactive_.change(controller, signals);
  }

  template <class H>
  IdleAction idle(Idle& idle, Nanos polled, H& host) const {
    if (polled < config_.reactive.poll) return IdleAction::kPoll;  // lines 13-15
    if (host.drained() > 0) {                                // lines 16-18
      resumed(idle, host);
      return IdleAction::kPoll;
    }
    if (!idle.parking && !host.claim_parking()) return IdleAction::kPoll;  // lines 19-21
    idle.parking = true;
    const int64_t sessions = host.sessions();
    const int64_t cores = std::max<int64_t>(host.cores(), 1);
    const int64_t spare = host.outstanding() - sessions;
    if (static_cast<double>(spare) > ratio(sessions) * static_cast<double>(cores)) {  // line 23
      if (idle.withheld == 0) {                                                   // lines 24-27
        idle.withheld = spare / cores;
        RUBATO_DCHECK(idle.withheld > 0);  // as r >= 1, it is at least one
        host.withhold(idle.withheld);
      }
      return IdleAction::kPoll;  // lines 28-30
    }
    idle.parking = false;
    host.release_parking();
    return IdleAction::kPark;  // line 31
  }

  // Lines 33-36.
  template <class H>
  void resumed(Idle& idle, H& host) const {
    if (idle.withheld != 0) host.give_back(idle.withheld);
    if (idle.parking) host.release_parking();
    idle = Idle();
  }

 private:
  // "Linearly scaling its initial value in proportion to the active session count" (III-C).
  double ratio(int64_t sessions) const {
    constexpr double kSessions = 100;  // of IV-A
    if (!config_.scale_r) return config_.r;
    return std::max(1.0, config_.r * static_cast<double>(sessions) / kSessions);
  }

  Config config_;
  ReactiveCores reactive_;
};

}  // namespace rubato::overload
