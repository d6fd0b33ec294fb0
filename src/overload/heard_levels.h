// SPDX-License-Identifier: Apache-2.0
//
// HeardLevels: what a client keeps back from a server whose limiter has said which levels it admits
// (DAGOR, Zhou et al., SoCC 2018, section 4.2.4). While nothing is heard one request each kHolds
// goes all the same, to hear whether the server still refuses it. Pure; one owner.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "overload/load_window.h"

namespace rubato::overload {

class HeardLevels {
 public:
  static constexpr Nanos kHolds = Nanos::seconds(1);

  // The server admits so many of the most urgent levels.
  void hear(uint32_t levels, Instant now) {
    levels_ = levels;
    at_ = now;
  }
  // Is a request of that level kept back?
  bool withholds(uint32_t level, Instant now) {
    if (level < levels_) return false;
    if (now - at_ < kHolds) return true;
    at_ = now;
    return false;
  }
  uint32_t levels() const { return levels_; }

 private:
  uint32_t levels_ = kLevels;
  Instant at_;  // when it was heard, or asked
};

}  // namespace rubato::overload
