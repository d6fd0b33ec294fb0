// SPDX-License-Identifier: Apache-2.0
//
// Profile: what a policy learns of request types on its slow path, in windows: service time as a
// moving average, share of the work, mean wait (Persephone, section 3, "profiling the workload").
// Ranking: the known types from short to long, small enough for a Plan. Plain values of the context
// that runs `adapt`; pure.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/check.h"
#include "base/limits.h"
#include "policy/contract.h"

namespace rubato {

struct Ranking {
  uint32_t types = 0;                        // known ones, of which
  std::array<uint8_t, limits::kTypes> order{};  // the i-th shortest is order[i]
  std::array<bool, limits::kTypes> known{};     // by type

  std::span<const uint8_t> ranked() const { return std::span(order).first(types); }

  // The queue index of a request: its type if that is known, else 0.
  uint32_t queue_index_of(uint32_t type) const {
    const uint32_t slot = std::min(type, limits::kTypes - 1);
    return known[slot] ? slot : 0;
  }
};

class Profile {
 public:
  struct Type {
    Served before;      // at the begin of the window
    Served window;      // in the window
    Nanos service;      // moving average over windows; 0 = never seen
    double demand = 0;  // share of all work, by the last window that was adopted
    bool late = false;  // a request was seen to wait beyond its target in the window
    Nanos head;         // how long the first of those that wait has waited, when last looked at

    // Did it wait longer than so many service times in the window, on average?
    bool waits_beyond(double slowdown) const {
      if (window.count == 0) return false;
      const double wait =
          static_cast<double>(window.waited.count()) / static_cast<double>(window.count);
      return wait > slowdown * static_cast<double>(service.count());
    }
    bool is_beyond(double slowdown, Nanos wait) const {
      return static_cast<double>(wait.count()) > slowdown * static_cast<double>(service.count());
    }
    void forget_window() {
      late = false;
      before = before + window;
    }
  };

  const Type& of(uint32_t type) const { return types_[type]; }
  Type& of(uint32_t type) { return types_[type]; }

  // Reads what the open window holds so far; the number of its requests.
  template <class H>
  uint64_t observe(H& host) {
    uint64_t samples = 0;
    for (uint32_t t = 0; t < limits::kTypes; ++t) {
      const Served now = host.served(t);
      const Served& before = types_[t].before;
      RUBATO_DCHECK(now.count >= before.count);  // totals only grow
      types_[t].window = now - before;
      samples += types_[t].window.count;
    }
    return samples;
  }

  // What is more or less by this factor is not the same mix any more, but another one, if so many
  // requests say so: fewer may by chance.
  static constexpr double kAnother = 2;
  static constexpr uint64_t kEnough = 100;
  static bool is_another(double a, double b) { return std::max(a, b) > kAnother * std::min(a, b); }

  // How much of an average is left by a window of another mix.
  enum class Another : uint8_t { kMovesAverages, kBeginsAnew };

  // Ends the window that was observed last; its mean service times count with weight 2^-shift.
  void close(uint32_t ema_shift, Another another = Another::kMovesAverages) {
    for (Type& type : types_) {
      const Served window = type.window;
      type.forget_window();
      if (window.count == 0) continue;
      const Nanos mean = std::max(window.service / static_cast<int64_t>(window.count), Nanos(1));
      const bool differs = another == Another::kBeginsAnew && window.count >= kEnough &&
                           is_another(static_cast<double>(mean.count()),
                                      static_cast<double>(type.service.count()));
      const bool begins = type.service == Nanos() || differs;
      const int64_t weight = int64_t{1} << ema_shift;
      type.service = begins ? mean : type.service + (mean - type.service) / weight;
    }
  }
  // Begins the window again, and learns nothing of what was observed.
  void drop_window() {
    for (Type& type : types_) type.forget_window();
  }

  // The first request that waits has waited for so long, 0 = none waits; its target is so many
  // service times. close() forgets that a request was late.
  void note_head(uint32_t type, Nanos waited, double slowdown) {
    types_[type].head = waited;
    types_[type].late |= types_[type].is_beyond(slowdown, waited);
  }
  bool somebody_was_late() const {
    return std::any_of(types_.begin(), types_.end(), [](const Type& type) { return type.late; });
  }

  // Did some type of the window wait longer than so many service times, on average?
  bool waits_beyond(double slowdown) const {
    return std::any_of(types_.begin() + 1, types_.end(),
                       [slowdown](const Type& type) { return type.waits_beyond(slowdown); });
  }

  // Persephone, equation 1: the share of the window's work that each type asks for.
  std::array<double, limits::kTypes> demands() const {
    std::array<double, limits::kTypes> demands{};
    double all = 0;
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      demands[t] = static_cast<double>(types_[t].window.count) *
                   static_cast<double>(types_[t].service.count());
      all += demands[t];
    }
    for (double& demand : demands) demand = all > 0 ? demand / all : 0;
    return demands;
  }

  // Does the demand of some type differ from the adopted one, by this share of that or more?
  bool has_drifted(const std::array<double, limits::kTypes>& demands, double drift) const {
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      const double change = std::abs(demands[t] - types_[t].demand);
      if (change > 0 && change >= drift * types_[t].demand) return true;
    }
    return false;
  }

  void adopt(const std::array<double, limits::kTypes>& demands) {
    for (uint32_t t = 0; t < limits::kTypes; ++t) types_[t].demand = demands[t];
  }

  // Types 1 and above that have ever been served.
  Ranking ranking() const {
    Ranking ranking;
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      if (types_[t].service == Nanos()) continue;
      ranking.known[t] = true;
      ranking.order[ranking.types++] = static_cast<uint8_t>(t);
    }
    RUBATO_DCHECK(ranking.types < limits::kTypes);  // type 0 is the unknown ones
    // Not stable_sort: that allocates.
    std::sort(ranking.order.begin(), ranking.order.begin() + ranking.types,
              [this](uint8_t a, uint8_t b) {
                if (types_[a].service != types_[b].service) {
                  return types_[a].service < types_[b].service;
                }
                return a < b;
              });
    return ranking;
  }

 private:
  std::array<Type, limits::kTypes> types_{};
};

}  // namespace rubato
