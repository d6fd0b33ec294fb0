// SPDX-License-Identifier: Apache-2.0
//
// Proactive allocation (McClure et al., NSDI 2022): the average load of all cores is kept within a
// range, a core more above it and a core less below it. Cores never park by themselves, so nobody
// spends time on polling that the average does not ask for. As all allocators in CoreSync (IV-A)
// they also grant a core when one request has waited for longer than a threshold. The published
// code (iokernel/simple.c) does not, and lets an interval pass after a grant and after a release:
// threshold=0us and pause=on.
//
//   util-range   the share of the cores' time that is spent in requests
//   delay-range  how long the oldest request of each core has waited
//
// Pure; overload/cores/contract.h says when the host calls what.
#pragma once

#include <utility>

#include "overload/cores/contract.h"

namespace rubato::overload {

// How each of them measures the load.
struct BusyShare {
  using Value = double;
  static constexpr const char* kName = "util-range";
  static constexpr const char* kSummary = "as many cores as keep their utilisation in a range";
  static constexpr Value kLow = 0.75;
  static constexpr Value kHigh = 0.95;
  static constexpr OptionInfo kLowInfo{
      "low", "", 0, 1, "a core is released when they are busy for less than this share"};
  static constexpr OptionInfo kHighInfo{"high", "", 0, 1, "and granted when for more than this"};

  static Value of(const CoreSignals& signals) { return signals.busy; }
};

struct MeanDelay {
  using Value = Nanos;
  static constexpr const char* kName = "delay-range";
  static constexpr const char* kSummary = "as many cores as keep their mean delay in a range";
  static constexpr Value kLow = Nanos(500);
  static constexpr Value kHigh = Nanos(1000);
  static constexpr OptionInfo kLowInfo{
      "low", "us", 0, 1e6, "a core is released when the mean delay is below this"};
  static constexpr OptionInfo kHighInfo{"high", "us", 0, 1e6, "and granted when above this"};

  static Value of(const CoreSignals& signals) { return signals.mean_delay; }
};

template <class Load>
class RangeCores {
 public:
  static constexpr const char* kName = Load::kName;
  static constexpr const char* kSummary = Load::kSummary;
  static constexpr const char* kSource = "McClure et al., NSDI 2022; CoreSync IV-A";
  static constexpr bool kParks = false;

  struct Config {
    typename Load::Value low = Load::kLow;
    typename Load::Value high = Load::kHigh;
    Nanos threshold = Nanos::micros(5);
    Nanos interval = Nanos::micros(5);
    bool pause = false;
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(Load::kLowInfo, c.low);
    v(Load::kHighInfo, c.high);
    v(OptionInfo{"threshold", "us", 0, 1e6,
                 "a request that waits this long calls for a core; 0 = none does"},
      c.threshold);
    v(OptionInfo{"interval", "us", 0.1, 1e6, "how often that is looked at"}, c.interval);
    v(OptionInfo{"pause", "", 0, 1, "let an interval pass after a grant, and after a release"},
      c.pause);
  }

  struct Controller {
    bool granted = false;   // in the last interval
    bool released = false;
  };
  using Idle = NoState;

  explicit constexpr RangeCores(Config config) : config_(config) {}

  Nanos interval() const { return config_.interval; }

  CoreChange change(Controller& last, const CoreSignals& signals) const {
    const Controller before = std::exchange(last, Controller());
    const auto load = Load::of(signals);
    if (wants_more(signals) || load > config_.high) {
      last.granted = signals.cores < signals.limit && !(config_.pause && before.granted);
      return last.granted ? CoreChange::kGrant : CoreChange::kKeep;
    }
    last.released = load < config_.low && signals.cores > 1 && !(config_.pause && before.released);
    return last.released ? CoreChange::kRelease : CoreChange::kKeep;
  }

  template <class H>
  IdleAction idle(Idle&, Nanos, H&) const {
    return IdleAction::kPoll;
  }

  template <class H>
  void resumed(Idle&, H&) const {}

 private:
  bool wants_more(const CoreSignals& signals) const {
    return config_.threshold == Nanos() ? signals.parked_has_work
                                        : congested(signals, config_.threshold);
  }

  Config config_;
};

using UtilRangeCores = RangeCores<BusyShare>;
using DelayRangeCores = RangeCores<MeanDelay>;

}  // namespace rubato::overload
