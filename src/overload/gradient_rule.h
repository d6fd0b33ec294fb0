// SPDX-License-Identifier: Apache-2.0
//
// GradientRule: a limit of the requests in the server, from how their latency compares with the
// least possible one: the gradient controller of Envoy's adaptive concurrency filter (Envoy 1.27
// documentation, "Adaptive Concurrency", Gradient Controller), of the family of Netflix'
// concurrency-limits. It knows no priorities. Per window
//
//   gradient = (minRTT + buffer) / sampleRTT, within 0.5 .. 2
//   limit    = gradient * limit + sqrt(gradient * limit), within least .. most
//
// where sampleRTT is a percentile of the window's latencies. minRTT is measured at the start, every
// `measure_every`, and when the limit was at its least for five windows: the limit falls to its
// least until `measure_requests` of the requests that came since are done, and goes on from where
// it was. Meanwhile nearly everything is refused; that is the published behaviour. Pure; one owner.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/option_text.h"
#include "base/prng.h"
#include "base/time.h"
#include "overload/load_window.h"

namespace rubato::overload {

// Defaults are Envoy's, but for `update_every`, which has none there: 100 ms is its example's.
struct GradientSettings {
  Nanos update_every = Nanos::millis(100);
  double percentile = 50;
  double buffer = 0.25;
  uint32_t least = 3;
  uint32_t most = 1000;
  Nanos measure_every = Nanos::seconds(60);
  double jitter = 0.15;  // `measure_every` is longer by up to this share
  uint32_t measure_requests = 50;
};

class GradientRule {
 public:
  static constexpr const char* kName = "gradient";
  static constexpr const char* kSummary = "a limit of requests inside, by their latency";
  static constexpr const char* kSource = "Envoy, adaptive concurrency";
  using Config = GradientSettings;
  using Settings = GradientSettings;
  static constexpr bool kGoesByLatency = true;

  template <class V>
  static void visit(Settings& s, V&& v) {
    v(OptionInfo{"update_every", "ms", 0.001, 6e4, "time between two decisions"}, s.update_every);
    v(OptionInfo{"percentile", "", 1, 99.9, "of the latencies of that time"}, s.percentile);
    v(OptionInfo{"buffer", "", 0, 10, "share by which latency may exceed the least"}, s.buffer);
    v(OptionInfo{"least", "", 1, 1e6, "least limit, also while the least latency is measured"},
      s.least);
    v(OptionInfo{"most", "", 1, 1e6, "greatest limit"}, s.most);
    v(OptionInfo{"measure_every", "s", 0.001, 1e5, "time between measurements of that latency"},
      s.measure_every);
    v(OptionInfo{"jitter", "", 0, 1, "share by which that time is longer at random"}, s.jitter);
    v(OptionInfo{"measure_requests", "", 1, 1e6, "requests of such a measurement"},
      s.measure_requests);
  }

  GradientRule(const Settings& settings, uint64_t seed)
      : settings_(settings), random_(seed), limit_(least()), after_(least()) {}

  WindowEnd window() const {
    if (measures_) return {Nanos::max(), settings_.measure_requests, true};
    return {settings_.update_every, kUnlimited, false};
  }

  // Never: a request that was admitted is served, however long it waited.
  Nanos longest_wait() const { return Nanos::max(); }

  Limits limits() const { return {limit_, kLevels}; }

  void decide(const LoadWindow& window, Instant now) {
    if (measures_) {
      end_measurement(window, now);
    } else {
      if (window.finished() > 0) adapt(window.percentile(settings_.percentile));
      if (at_least_ >= kWindowsAtLeast || now >= next_) begin_measurement();
    }
  }

  Nanos least_latency() const { return min_rtt_; }

 private:
  static constexpr int kWindowsAtLeast = 5;

  int64_t least() const { return settings_.least; }
  int64_t most() const { return std::max<int64_t>(settings_.most, settings_.least); }

  void adapt(Nanos sample) {
    const double allowed = static_cast<double>(min_rtt_.count()) * (1 + settings_.buffer);
    const double measured = static_cast<double>(std::max<int64_t>(sample.count(), 1));
    const double limit = static_cast<double>(limit_) * std::clamp(allowed / measured, 0.5, 2.0);
    limit_ = std::clamp(static_cast<int64_t>(limit + std::sqrt(limit)), least(), most());
    at_least_ = limit_ == least() ? at_least_ + 1 : 0;
  }

  void begin_measurement() {
    measures_ = true;
    after_ = limit_;
    limit_ = least();
  }

  void end_measurement(const LoadWindow& window, Instant now) {
    if (window.finished() == 0) return;
    min_rtt_ = window.percentile(settings_.percentile);
    measures_ = false;
    at_least_ = 0;
    limit_ = after_;
    const double longer = 1 + settings_.jitter * random_.uniform();
    next_ = now + Nanos::from_seconds(settings_.measure_every.seconds() * longer);
  }

  Settings settings_;
  Prng random_;
  int64_t limit_;
  int64_t after_;  // the measurement
  bool measures_ = true;
  int at_least_ = 0;  // windows in a row
  Nanos min_rtt_;
  Instant next_;  // measurement
};

}  // namespace rubato::overload
