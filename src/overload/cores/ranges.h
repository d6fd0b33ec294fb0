// SPDX-License-Identifier: Apache-2.0
//
// Proactive allocation (McClure et al., NSDI 2022): the average load of all cores is kept within a
// range, a core more above it and a core less below it. Cores never park by themselves, so nobody
// spends time on polling that the average does not ask for. As all allocators in CoreSync (IV-A)
// they also grant a core when one request has waited for longer than a threshold.
//
//   util-range   the share of the cores' time that is spent in requests
//   delay-range  how long the oldest request of each core has waited
//
// Pure; see overload/cores/contract.h for who calls what.
#pragma once

#include "overload/cores/contract.h"

namespace rubato::overload {

// What the two share, given where the load lies.
class RangeRule {
 public:
  static constexpr bool kParks = false;
  using Controller = NoState;
  using Idle = NoState;

  template <class H>
  Rest idle(Idle&, Nanos, H&) const {
    return Rest::kPoll;
  }

  template <class H>
  void resumed(Idle&, H&) const {}

 protected:
  static CoreChange change(const CoreSignals& signals, bool congested, bool below) {
    if (congested) return signals.cores < signals.limit ? CoreChange::kGrant : CoreChange::kKeep;
    return below && signals.cores > 1 ? CoreChange::kRelease : CoreChange::kKeep;
  }
};

class UtilRangeCores : public RangeRule {
 public:
  static constexpr const char* kName = "util-range";
  static constexpr const char* kSummary = "as many cores as keep their utilisation in a range";
  static constexpr const char* kSource = "McClure et al., NSDI 2022; CoreSync IV-A";

  struct Config {
    double low = 0.75;
    double high = 0.95;
    Nanos threshold = Nanos::micros(5);
    Nanos interval = Nanos::micros(5);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"low", "", 0, 1, "a core is released when they are busy for less than this share"},
      c.low);
    v(OptionInfo{"high", "", 0, 1, "and granted when for more than this"}, c.high);
    v(OptionInfo{"threshold", "us", 0.1, 1e6, "a request that waits this long calls for a core"},
      c.threshold);
    v(OptionInfo{"interval", "us", 0.1, 1e6, "how often that is looked at"}, c.interval);
  }

  explicit constexpr UtilRangeCores(Config config) : config_(config) {}

  Nanos interval() const { return config_.interval; }

  CoreChange change(Controller&, const CoreSignals& signals) const {
    return RangeRule::change(
        signals, congested(signals, config_.threshold) || signals.busy > config_.high,
        signals.busy < config_.low);
  }

 private:
  Config config_;
};

class DelayRangeCores : public RangeRule {
 public:
  static constexpr const char* kName = "delay-range";
  static constexpr const char* kSummary = "as many cores as keep their mean delay in a range";
  static constexpr const char* kSource = "McClure et al., NSDI 2022; CoreSync IV-A";

  struct Config {
    Nanos low = Nanos(500);
    Nanos high = Nanos(1000);
    Nanos threshold = Nanos::micros(5);
    Nanos interval = Nanos::micros(5);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"low", "us", 0, 1e6, "a core is released when the mean delay is below this"},
      c.low);
    v(OptionInfo{"high", "us", 0, 1e6, "and granted when above this"}, c.high);
    v(OptionInfo{"threshold", "us", 0.1, 1e6, "a request that waits this long calls for a core"},
      c.threshold);
    v(OptionInfo{"interval", "us", 0.1, 1e6, "how often that is looked at"}, c.interval);
  }

  explicit constexpr DelayRangeCores(Config config) : config_(config) {}

  Nanos interval() const { return config_.interval; }

  CoreChange change(Controller&, const CoreSignals& signals) const {
    return RangeRule::change(
        signals, congested(signals, config_.threshold) || signals.mean_delay > config_.high,
        signals.mean_delay < config_.low);
  }

 private:
  Config config_;
};

}  // namespace rubato::overload
