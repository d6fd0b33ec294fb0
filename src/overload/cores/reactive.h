// SPDX-License-Identifier: Apache-2.0
//
// Reactive allocation: a core more when a request has waited for too long, and a core that finds
// nothing to do for a while parks by itself.
//
//   reactive  Shenango's. A core at a time: after it granted one it lets an interval pass before it
//             looks again (the "simple" scheduler of Caladan's IOKernel, which CoreSync runs as
//             Shenango).
//   caladan   the same threshold, looked at in every interval, so that cores come twice as fast
//             (its interference-aware scheduler). What that scheduler adds for hyperthreads and
//             memory bandwidth has no counterpart here.
//
// Pure; overload/cores/contract.h says when the host calls what.
#pragma once

#include "overload/cores/contract.h"

namespace rubato::overload {

struct ReactiveConfig {
  Nanos threshold = Nanos::micros(5);  // CoreSync IV-A, as the two below
  Nanos interval = Nanos::micros(5);
  Nanos poll = Nanos::micros(2);

  template <class V>
  static void visit(ReactiveConfig& c, V&& v) {
    v(OptionInfo{"threshold", "us", 0.1, 1e6, "a request that waits this long calls for a core"},
      c.threshold);
    v(OptionInfo{"interval", "us", 0.1, 1e6, "how often that is looked at"}, c.interval);
    v(OptionInfo{"poll", "us", 0, 1e6, "time without work before a core parks"}, c.poll);
  }
};

// What the two share. kPauses: is the interval after a grant skipped?
template <bool kPauses>
class ReactiveRule {
 public:
  static constexpr bool kParks = true;
  using Config = ReactiveConfig;
  struct Controller {
    bool granted = false;  // in the last interval
  };
  using Idle = NoState;

  template <class V>
  static void visit(Config& c, V&& v) {
    Config::visit(c, v);
  }

  explicit constexpr ReactiveRule(Config config) : config_(config) {}

  Nanos interval() const { return config_.interval; }

  CoreChange change(Controller& controller, const CoreSignals& signals) const {
    const bool pause = kPauses && controller.granted;
    controller.granted =
        !pause && signals.cores < signals.limit && congested(signals, config_.threshold);
    return controller.granted ? CoreChange::kGrant : CoreChange::kKeep;
  }

  template <class H>
  IdleAction idle(Idle&, Nanos polled, H&) const {
    return polled < config_.poll ? IdleAction::kPoll : IdleAction::kPark;
  }

  template <class H>
  void resumed(Idle&, H&) const {}

 private:
  Config config_;
};

class ReactiveCores : public ReactiveRule<true> {
 public:
  static constexpr const char* kName = "reactive";
  static constexpr const char* kSummary = "a core more when requests wait; idle cores park";
  static constexpr const char* kSource = "Shenango, NSDI 2019, section 4.1";

  explicit constexpr ReactiveCores(Config config) : ReactiveRule(config) {}
};

class CaladanCores : public ReactiveRule<false> {
 public:
  static constexpr const char* kName = "caladan";
  static constexpr const char* kSummary = "as reactive, and cores come in every interval";
  static constexpr const char* kSource = "Caladan, OSDI 2020, section 4";

  explicit constexpr CaladanCores(Config config) : ReactiveRule(config) {}
};

}  // namespace rubato::overload
