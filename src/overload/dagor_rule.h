// SPDX-License-Identifier: Apache-2.0
//
// DagorRule: WeChat's overload control (Zhou et al., Overload Control for Scaling WeChat
// Microservices, SoCC 2018). A server is overloaded if the mean time that requests wait for their
// turn exceeds a threshold (section 4.1). Its admission level is a compound priority (4.2.2); what
// is less urgent is refused. After each window, of a second or 2000 requests, the level moves along
// the histogram of the window's priorities (4.2.3, Algorithm 1): down until 5 % fewer would have
// been admitted if the server is overloaded, else up until 1 % of the arrivals more would have.
// Callers that send ranks over Rubato RPC hear of the level (4.2.4; rpc/server_session.h). Pure;
// one owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/option_text.h"
#include "base/time.h"
#include "overload/load_window.h"

namespace rubato::overload {

// The paper's, but for the threshold, which is the host's target delay (20 ms there).
struct DagorSettings {
  Nanos target_delay = Nanos::millis(20);
  Nanos window = Nanos::seconds(1);
  uint32_t requests = 2000;
  double alpha = 0.05;
  double beta = 0.01;
};

class DagorRule {
 public:
  static constexpr const char* kName = "dagor";
  static constexpr const char* kSummary = "a level of priority, by the waits";
  static constexpr const char* kSource = "DAGOR, SoCC 2018";
  using Config = DagorSettings;
  using Settings = DagorSettings;
  static constexpr bool kGoesByLatency = false;

  template <class V>
  static void visit(Settings& s, V&& v) {
    v(OptionInfo{"window", "ms", 0.001, 6e4, "longest time between two decisions"}, s.window);
    v(OptionInfo{"requests", "", 1, 1e9, "most arrivals between two decisions"}, s.requests);
    v(OptionInfo{"alpha", "", 0, 1, "share of the admitted ones that an overloaded server refuses"},
      s.alpha);
    v(OptionInfo{"beta", "", 0, 1, "share of the arrivals that another one admits beside those"},
      s.beta);
  }

  DagorRule(const Settings& settings, uint64_t) : settings_(settings) {}

  WindowEnd window() const { return {settings_.window, settings_.requests, false}; }
  Nanos longest_wait() const { return Nanos::max(); }

  Limits limits() const { return {kUnlimited, levels_}; }

  void decide(const LoadWindow& window, Instant) {
    if (window.arrived > 0) is_overloaded(window) ? lower(window) : raise(window);
  }

 private:
  // A server that starts nothing while requests wait has no mean wait.
  bool is_overloaded(const LoadWindow& window) const {
    if (window.started == 0) return window.waiting > 0;
    return window.waited / window.started > settings_.target_delay;
  }

  // One level remains.
  void lower(const LoadWindow& window) {
    const double wanted = (1 - settings_.alpha) * static_cast<double>(window.admitted);
    int64_t prefix = window.admitted;
    while (levels_ > 1 && static_cast<double>(prefix) > wanted) {
      prefix -= window.by_level[--levels_];
    }
  }

  void raise(const LoadWindow& window) {
    const double wanted = static_cast<double>(window.admitted) +
                          settings_.beta * static_cast<double>(window.arrived);
    int64_t prefix = window.admitted;
    while (levels_ < kLevels && static_cast<double>(prefix) < wanted) {
      prefix += window.by_level[levels_++];
    }
  }

  Settings settings_;
  uint32_t levels_ = kLevels;
};

}  // namespace rubato::overload
