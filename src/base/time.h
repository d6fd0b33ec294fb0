// SPDX-License-Identifier: Apache-2.0
//
// Nanos and Instant: the only two time types of the project.
//
// A Nanos is a signed length of time; an Instant is a point on the host's own monotonic line (the
// live host derives it from the TSC, the simulator from its event queue). Two Instants of different
// hosts must never be mixed. Plain values, safe on every thread. Unit: nanoseconds.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace rubato {

class Nanos {
 public:
  constexpr Nanos() = default;
  constexpr explicit Nanos(int64_t count) : count_(count) {}

  static constexpr Nanos micros(int64_t n) { return Nanos(n * 1000); }
  static constexpr Nanos millis(int64_t n) { return Nanos(n * 1000 * 1000); }
  static constexpr Nanos seconds(int64_t n) { return Nanos(n * 1000 * 1000 * 1000); }
  // Rounds toward zero. Requires |s| below 292 years.
  static constexpr Nanos from_seconds(double s) { return Nanos(static_cast<int64_t>(s * 1e9)); }
  static constexpr Nanos from_micros(double us) { return Nanos(static_cast<int64_t>(us * 1e3)); }
  static constexpr Nanos max() { return Nanos(std::numeric_limits<int64_t>::max()); }

  constexpr int64_t count() const { return count_; }
  constexpr double micros() const { return static_cast<double>(count_) / 1e3; }
  constexpr double seconds() const { return static_cast<double>(count_) / 1e9; }

  constexpr Nanos operator+(Nanos o) const { return Nanos(count_ + o.count_); }
  constexpr Nanos operator-(Nanos o) const { return Nanos(count_ - o.count_); }
  constexpr Nanos operator*(int64_t k) const { return Nanos(count_ * k); }
  constexpr Nanos operator/(int64_t k) const { return Nanos(count_ / k); }
  constexpr Nanos& operator+=(Nanos o) { count_ += o.count_; return *this; }
  constexpr Nanos& operator-=(Nanos o) { count_ -= o.count_; return *this; }
  constexpr auto operator<=>(const Nanos&) const = default;

 private:
  int64_t count_ = 0;
};

class Instant {
 public:
  constexpr Instant() = default;
  constexpr explicit Instant(int64_t ns) : ns_(ns) {}

  // Later than every real Instant: "never".
  static constexpr Instant never() { return Instant(std::numeric_limits<int64_t>::max()); }

  constexpr int64_t ns() const { return ns_; }
  constexpr Instant operator+(Nanos d) const { return Instant(ns_ + d.count()); }
  constexpr Instant operator-(Nanos d) const { return Instant(ns_ - d.count()); }
  constexpr Nanos operator-(Instant o) const { return Nanos(ns_ - o.ns_); }
  constexpr auto operator<=>(const Instant&) const = default;

 private:
  int64_t ns_ = 0;
};

}  // namespace rubato
