// SPDX-License-Identifier: Apache-2.0
//
// Needs: how many workers would do what comes of each request type, by arrivals and the service
// times of a Profile, in the same windows. By completions a type that gets too little looks rare,
// so that it gets less; what comes does not depend on what is done. Beside that it remembers which
// types fell behind, and from which worker on they have to be served at the latest since. Plain
// values of the context that runs `adapt`; pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "base/limits.h"
#include "policy/contract.h"
#include "policy/profile.h"

namespace rubato {

class Needs {
 public:
  static constexpr uint32_t kAnyWorker = std::numeric_limits<uint32_t>::max();

  double of(uint32_t type) const { return types_[type].need; }
  uint32_t latest(uint32_t type) const { return types_[type].latest; }
  // More comes than the workers can do: some types wait, whichever workers they get.
  bool overloaded() const { return overloaded_; }

  // Reads what has come in the open window so far.
  template <class H>
  void observe(H& host) {
    if (since_ == Instant::never()) since_ = host.now();
    for (uint32_t t = 0; t < limits::kTypes; ++t) {
      types_[t].arrived = host.arrived(t) - types_[t].arrived_before;
    }
  }

  // In the window that was observed last, did the type wait beyond so many service times, on
  // average and still, and has its wait doubled since it was helped, or not shrunk for a while?
  // Such a type gets less than it needs. Before the profile's window is closed.
  bool fell_behind(const Profile& profile, uint32_t type, double beyond) {
    const Profile::Type& of = profile.of(type);
    Type& mine = types_[type];
    if (!of.is_beyond(beyond, of.head)) {
      mine.head_then = Nanos();
      return false;
    }
    if (of.window.count > 0 && !of.waits_beyond(beyond)) return false;
    if (of.head > mine.head_then * 2) return true;
    if (++mine.windows < kPatience) return false;
    mine.windows = 0;
    const bool grew = of.head > mine.head_then;
    mine.head_then = of.head;
    return grew;
  }

  // Ends that window, after the profile's: needs are moving averages with the same weight, but a
  // type that came no more needs nothing at once.
  void close(const Profile& profile, uint32_t ema_shift, Instant now, uint32_t workers) {
    const double lasted = static_cast<double>(std::max(now - since_, Nanos(1)).count());
    const auto weight = static_cast<double>(int64_t{1} << ema_shift);
    since_ = now;
    all_ = 0;
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      Type& type = types_[t];
      const double service = static_cast<double>(profile.of(t).service.count());
      const double need = static_cast<double>(type.arrived) * service / lasted;
      const bool averaged = type.need > 0 && type.arrived > 0;
      type.need = averaged ? type.need + (need - type.need) / weight : need;
      RUBATO_DCHECK(type.need >= 0);
      all_ += type.need;
      type.arrived_before += type.arrived;
    }
    overloaded_ = all_ > (overloaded_ ? kNoLongerOverloaded : 1) * workers;
    for (Type& type : types_) forgive(type);
  }

  // Persephone, equation 1, of what came.
  std::array<double, limits::kTypes> demands() const {
    std::array<double, limits::kTypes> demands{};
    for (uint32_t t = 1; t < limits::kTypes; ++t) demands[t] = all_ > 0 ? of(t) / all_ : 0;
    return demands;
  }

  // A type that fell behind is served from this worker on at the latest, until it needs half of
  // what it needs now, or all types together a fifth less.
  void serve_from(const Profile& profile, uint32_t type, uint32_t worker) {
    RUBATO_DCHECK(worker != kAnyWorker);
    types_[type].latest = worker;
    types_[type].head_then = profile.of(type).head;
    types_[type].windows = 0;
    types_[type].need_then = types_[type].need;
    types_[type].all_then = all_;
  }

 private:
  // An overload ends below this share of the capacity, so that it does not begin again at once.
  static constexpr double kNoLongerOverloaded = 0.95;
  static constexpr uint32_t kPatience = 8;

  struct Type {
    uint64_t arrived_before = 0;  // at the begin of the window
    uint64_t arrived = 0;         // in the window
    double need = 0;              // in workers
    uint32_t latest = kAnyWorker;
    double need_then = 0;         // when it was served earlier for the last time,
    double all_then = 0;          // of all types,
    uint32_t windows = 0;         // since then
    Nanos head_then;              // and how long its first had waited; 0 = it has caught up
  };

  void forgive(Type& type) {
    if (type.need < 0.5 * type.need_then || all_ < 0.8 * type.all_then) type.latest = kAnyWorker;
  }

  std::array<Type, limits::kTypes> types_{};
  Instant since_ = Instant::never();
  double all_ = 0;
  bool overloaded_ = false;
};

}  // namespace rubato
