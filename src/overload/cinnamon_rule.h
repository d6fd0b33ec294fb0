// SPDX-License-Identifier: Apache-2.0
//
// CinnamonRule: Uber's load shedder (Thomsen et al., "Cinnamon: Using Century Old Tech to Build a
// Mean Load Shedder" and "PID Controller for Cinnamon", Uber Engineering, November 2023). A
// controller without derivative turns the flow into and out of the queue into the share of the
// requests to refuse; the priorities of the last arrivals turn that into the least urgent level
// that is admitted. It begins when the queue was not empty for `overload_after`. What waits in the
// queue for too long is refused there, so that a full queue lets more in than out. Per window
//
//   error = admitted / started - 1 - free / busy, within -1 .. 1
//   share = kp * error + ki * (sum of error * seconds), within 0 .. most
//
// with the server's workers as Cinnamon's inflight slots, free or busy on average: what free ones
// would have started counts as flow out, and so lowers the share. The article adds the free slots
// to the flow; their weight here, the bounds and the gains are ours. At the load u that is let in,
// the error is u - 1 above 1 and 1 - 1/u below, so near 1 it answers a change of the share by the
// offered load: the loop is stable while ki * update_every * load is below 2, and does not
// overshoot below 1, which the defaults keep up to a load of 4. The tuner of the inflight limit is
// not in it: a worker serves one request, however many are in the server. Pure; one owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/option_text.h"
#include "base/time.h"
#include "overload/load_window.h"

namespace rubato::overload {

struct CinnamonSettings {
  Nanos longest_wait = Nanos::millis(40);  // in the queue
  uint32_t workers = 1;
  Nanos update_every = Nanos::millis(500);
  Nanos overload_after = Nanos::seconds(10);
  double kp = 0.1;
  double ki = 0.5;
  double most = 0.95;
};

class CinnamonRule {
 public:
  static constexpr const char* kName = "cinnamon";
  static constexpr const char* kSummary = "a share of the requests is refused, by the flow";
  static constexpr const char* kSource = "Uber, Cinnamon";
  using Config = CinnamonSettings;
  using Settings = CinnamonSettings;
  static constexpr bool kGoesByLatency = false;

  template <class V>
  static void visit(Settings& s, V&& v) {
    v(OptionInfo{"update_every", "ms", 0.001, 6e4, "time between two decisions"}, s.update_every);
    v(OptionInfo{"overload_after", "ms", 0, 1e6,
                 "it begins when the queue was not empty for so long"},
      s.overload_after);
    v(OptionInfo{"kp", "", 0, 100, "gain of the proportional term"}, s.kp);
    v(OptionInfo{"ki", "1/s", 0, 1000, "gain of the integral term"}, s.ki);
    v(OptionInfo{"most", "", 0, 1, "greatest share of the requests that is refused"}, s.most);
  }

  CinnamonRule(const Settings& settings, uint64_t) : settings_(settings) {}

  WindowEnd window() const { return {settings_.update_every, kUnlimited, false}; }
  // What has waited longer is refused at its turn.
  Nanos longest_wait() const { return settings_.longest_wait; }

  Limits limits() const { return {kUnlimited, levels_}; }

  void decide(const LoadWindow& window, Instant) {
    if (share_ > 0 || window.queued_for >= settings_.overload_after) adapt(window);
    if (share_ > 0 && window.arrived > 0) {
      levels_ = levels_for(window, (1 - share_) * static_cast<double>(window.arrived));
    }
  }

  double share() const { return share_; }

 private:
  double error(const LoadWindow& window) const {
    const auto in = static_cast<double>(window.admitted);
    const auto out = static_cast<double>(std::max<int64_t>(window.started, 1));
    const double workers = settings_.workers;
    const double busy = std::clamp(window.underway, std::min(1.0, workers), workers);
    return std::clamp(in / out - 1 - (workers - busy) / busy, -1.0, 1.0);
  }

  // The integral is held where the share has its bounds, so that it leaves them at once.
  void adapt(const LoadWindow& window) {
    const double now = error(window);
    sum_ = std::clamp(sum_ + settings_.ki * now * window.length.seconds(), 0.0, settings_.most);
    share_ = std::clamp(settings_.kp * now + sum_, 0.0, settings_.most);
    if (share_ == 0) levels_ = kLevels;
  }

  Settings settings_;
  double sum_ = 0;    // the integral term
  double share_ = 0;  // of the requests to refuse
  uint32_t levels_ = kLevels;
};

}  // namespace rubato::overload
