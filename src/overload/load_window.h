// SPDX-License-Identifier: Apache-2.0
//
// LoadWindow: what a server did between two decisions of a rule that limits what it takes in
// (limiter_rules.h), and Limits, what such a rule decides. The Limiter (limiter.h) counts the one
// and applies the other. Plain values.
//
// Priorities are compound, as DAGOR's (Zhou et al., SoCC 2018, section 4.2.2) and Cinnamon's: a
// tier, which is the request's own priority, and within it one of 128 cohorts of users, so that a
// threshold can fall between users where all requests are equally important. 0 is the most urgent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "base/limits.h"
#include "base/prng.h"
#include "base/time.h"
#include "metrics/buckets.h"

namespace rubato::overload {

inline constexpr uint32_t kCohorts = 128;
inline constexpr uint32_t kLevels = limits::kPriorityLevels * kCohorts;
inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The cohort of a user. They are drawn anew every hour, so that nobody is among the last for longer
// (DAGOR, 4.2.2).
inline uint32_t cohort_of(uint64_t user, Instant now) {
  constexpr int64_t kHour = Nanos::seconds(3600).count();
  const auto hour = static_cast<uint64_t>(now.ns() / kHour);
  return Prng(user * 0x9e3779b97f4a7c15u + hour).below(kCohorts);
}

// What the level of a request goes by.
struct Urgency {
  uint8_t priority = 0;
  uint8_t cohort = 0;  // if its client knows that of its user, from 1 on
  uint64_t user = 0;   // else; 0 = unknown, and each request is a user of its own
};

constexpr uint32_t level_of(uint8_t priority, uint32_t cohort) {
  return std::min<uint32_t>(priority, limits::kPriorityLevels - 1) * kCohorts + cohort;
}
// `itself`: the user for a request of no user.
inline uint32_t level_of(const Urgency& of, uint64_t itself, Instant now) {
  if (of.cohort > 0) return level_of(of.priority, of.cohort - 1u);
  return level_of(of.priority, cohort_of(of.user != 0 ? of.user : itself, now));
}

struct LoadWindow {
  Nanos length;
  int64_t arrived = 0;   // requests, refused or not
  int64_t admitted = 0;  // of these
  int64_t started = 0;   // given to a worker for the first time
  Nanos waited;          // of those started, until then, in all
  double underway = 0;   // started and not finished, on average when a request arrived
  // At its end:
  int64_t waiting = 0;   // admitted, not started
  Nanos queued_for;      // the time since none waited
  std::span<const int64_t> by_level{};   // arrived, of each level
  std::span<const int64_t> latencies{};  // of finished ones, by metrics/buckets.h

  int64_t finished() const {
    int64_t sum = 0;
    for (const int64_t count : latencies) sum += count;
    return sum;
  }
  // Of latencies. Requires one.
  double mean_ns() const {
    double sum = 0;
    for (size_t i = 0; i < latencies.size(); ++i) {
      if (latencies[i] == 0) continue;
      sum += static_cast<double>(latencies[i]) * static_cast<double>(buckets::middle_of(i));
    }
    return sum / static_cast<double>(finished());
  }
  // Of latencies. Requires one.
  Nanos percentile(double percent) const {
    const double rank = percent / 100 * static_cast<double>(finished());
    int64_t seen = 0;
    size_t last = 0;
    for (size_t i = 0; i < latencies.size(); ++i) {
      if (latencies[i] == 0) continue;
      seen += latencies[i];
      last = i;
      if (static_cast<double>(seen) >= rank) break;
    }
    return Nanos(static_cast<int64_t>(buckets::middle_of(last)));
  }
};

// The most urgent levels to which so many requests of the window belong; all if there are fewer.
inline uint32_t levels_for(const LoadWindow& window, double requests) {
  int64_t prefix = 0;
  for (uint32_t level = 0; level < window.by_level.size(); ++level) {
    if (static_cast<double>(prefix) >= requests) return std::max(level, 1u);
    prefix += window.by_level[level];
  }
  return kLevels;
}

// What is admitted: a request whose level is below `levels`, while fewer than `underway` are in the
// server.
struct Limits {
  int64_t underway = kUnlimited;
  uint32_t levels = kLevels;
};

// When a window ends, whichever comes first.
struct WindowEnd {
  Nanos length = Nanos::max();
  int64_t requests = kUnlimited;  // that arrived, or, of a rule that goes by latencies, finished
  bool only_new = false;          // latencies of requests that came before it do not count
};

}  // namespace rubato::overload
