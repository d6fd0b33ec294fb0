// SPDX-License-Identifier: Apache-2.0
//
// Profiled: what policies share that go by the service times of types and learn them in windows of
// a number of requests. A base of policies, whose Central is the Profile; pure, policy/contract.h
// says when the host calls what.
#pragma once

#include "policy/contract.h"
#include "policy/profile.h"

namespace rubato {

class Profiled {
 public:
  constexpr Profiled(uint32_t window, Nanos check) : window_(window), check_(check) {}

  using Worker = None;
  using Central = Profile;

  Nanos adapt_period() const { return check_; }

 protected:
  static constexpr uint32_t kWindow = 10'000;
  static constexpr Nanos kCheck = Nanos::millis(1);

  template <class V>
  static void visit_window(uint32_t& window, Nanos& check, V&& v) {
    v(OptionInfo{"window", "", 1, 1e9, "requests between updates of the types' service times"},
      window);
    v(OptionInfo{"check", "us", 1, 1e7, "how often the window is looked at"}, check);
  }

  // True when a window has ended, and the profile with it; a new one has begun.
  template <class H>
  bool close_window(Profile& profile, H& host) const {
    if (profile.observe(host) < window_) return false;
    profile.close(1);
    return true;
  }

 private:
  uint32_t window_;
  Nanos check_;
};

}  // namespace rubato
