// SPDX-License-Identifier: Apache-2.0
//
// Needs: how many workers would do what comes of each request type, by arrivals and the service
// times of a Profile, in the same windows. By completions a type that gets too little looks rare,
// so that it gets less; what comes does not depend on what is done. A window in which that changes
// speaks of no mix that there is. Beside that it remembers which types fell behind, and from which
// worker on they have to be served at the latest since. Plain values of the context that runs
// `adapt`; pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

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

  // The window that was observed last is half over; not said twice of a window.
  void note_half(const Profile& profile, Instant now) {
    if (half_ != Instant::never()) return;
    half_ = now;
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      types_[t].first_half = {types_[t].arrived, profile.of(t).window};
    }
  }
  // Is what a type needs in the second half of that window another need than in the first? Not
  // where the window before was dropped: a mix that changes all the time has a plan, too.
  bool changed_within(const Profile& profile, Instant now) const {
    if (half_ == Instant::never() || dropped_) return false;
    const Nanos first_lasted = half_ - since_, second_lasted = now - half_;
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      const Part& first = types_[t].first_half;
      const Part second = Part{types_[t].arrived, profile.of(t).window} - first;
      if (std::max(first.arrived, second.arrived) < Profile::kEnough) continue;
      if (Profile::is_another(first.need(first_lasted), second.need(second_lasted))) return true;
    }
    return false;
  }
  // Begins the window again, as the profile does.
  void drop_window(Instant now) {
    begin_window(now);
    dropped_ = true;
  }

  // Ends that window, after the profile's: needs are moving averages with the same weight, but a
  // type that came no more needs nothing at once.
  void close(const Profile& profile, uint32_t ema_shift, Instant now, uint32_t workers) {
    const double lasted = static_cast<double>(std::max(now - since_, Nanos(1)).count());
    const auto weight = static_cast<double>(int64_t{1} << ema_shift);
    all_ = 0;
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      Type& type = types_[t];
      const double service = static_cast<double>(profile.of(t).service.count());
      const double need = static_cast<double>(type.arrived) * service / lasted;
      const bool differs =
          type.arrived >= Profile::kEnough && Profile::is_another(need, type.need);
      const bool begins = type.need == 0 || type.arrived == 0 || differs;
      type.need = begins ? need : type.need + (need - type.need) / weight;
      RUBATO_DCHECK(type.need >= 0);
      all_ += type.need;
    }
    begin_window(now);
    dropped_ = false;
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

  struct Part {  // of a window
    uint64_t arrived = 0;
    Served served;

    Part operator-(const Part& other) const {
      return {arrived - other.arrived, served - other.served};
    }
    // In workers.
    double need(Nanos lasted) const {
      if (served.count == 0 || lasted <= Nanos()) return 0;
      const double service =
          static_cast<double>(served.service.count()) / static_cast<double>(served.count);
      return static_cast<double>(arrived) * service / static_cast<double>(lasted.count());
    }
  };

  struct Type {
    uint64_t arrived_before = 0;  // at the begin of the window
    uint64_t arrived = 0;         // in the window
    Part first_half;              // of the window, once that is over
    double need = 0;              // in workers
    uint32_t latest = kAnyWorker;
    double need_then = 0;         // when it was served earlier for the last time,
    double all_then = 0;          // of all types,
    uint32_t windows = 0;         // since then
    Nanos head_then;              // and how long its first had waited; 0 = it has caught up
  };

  void begin_window(Instant now) {
    since_ = now;
    half_ = Instant::never();
    for (Type& type : types_) type.arrived_before += std::exchange(type.arrived, 0);
  }
  void forgive(Type& type) {
    if (type.need < 0.5 * type.need_then || all_ < 0.8 * type.all_then) type.latest = kAnyWorker;
  }

  std::array<Type, limits::kTypes> types_{};
  Instant since_ = Instant::never();
  Instant half_ = Instant::never();  // when half of the window was over
  bool dropped_ = false;             // the window before
  double all_ = 0;
  bool overloaded_ = false;
};

}  // namespace rubato
