// SPDX-License-Identifier: Apache-2.0
#include "calibrate/meter.h"

#include <algorithm>

namespace rubato::calibrate {
namespace {

constexpr Nanos kClockTime = Nanos::millis(20);

}  // namespace

Meter::Meter(Nanos each, const std::atomic<bool>& stop)
    : stop_(stop),
      each_(std::min(each, kClockTime)),
      ns_per_cycle_(1e9 / process_clock().frequency_hz()) {
  // With no clock to take off yet, an empty batch is the time of a reading.
  clock_ = measure(1, [] {}, [] {});
  light_clock_ = measure_light_clock();
  each_ = each;
}

Sample Meter::measure_light_clock() const {
  Collector collector(*this);
  while (collector.more()) {
    const uint64_t from = light_stamp();
    collector.add(static_cast<double>(light_stamp() - from) * ns_per_cycle_, 1);
  }
  return collector.sample();
}

Sample Collector::sample() {
  if (ns_.empty()) return {.stalls = stalls_};
  const auto at = [this](double share) {
    const auto nth = ns_.begin() +
                     static_cast<std::ptrdiff_t>(share * static_cast<double>(ns_.size() - 1) + 0.5);
    std::nth_element(ns_.begin(), nth, ns_.end());
    return static_cast<double>(*nth);
  };
  return {.median_ns = at(0.5),
          .lower_ns = at(0.25),
          .tail_ns = at(0.999),
          .batches = ns_.size(),
          .stalls = stalls_};
}

}  // namespace rubato::calibrate
