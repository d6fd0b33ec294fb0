// SPDX-License-Identifier: Apache-2.0
//
// Meter: the time of operations too short for a clock. It times batches of them, takes the clock's
// own time off, and tells median and 99.9th percentile over the batches. A Meter is read-only and
// may be used from several threads; a Collector belongs to one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "mechanism/clock/clock.h"
#include "mechanism/cpu/serialize.h"

namespace rubato::calibrate {

struct Sample {
  double median_ns = 0;
  double lower_ns = 0;   // the 25th percentile
  double tail_ns = 0;    // the 99.9th percentile
  uint64_t batches = 0;  // 0 = not measured
  uint64_t stalls = 0;   // batches left out: the CPU was away for over kStall

  // What is left when a part that takes so long is taken off.
  Sample less(double part_ns) const {
    Sample rest = *this;
    for (double* ns : {&rest.median_ns, &rest.lower_ns, &rest.tail_ns}) {
      *ns = std::max(0.0, *ns - part_ns);
    }
    return rest;
  }
};

// What takes longer was not the operation: ticks and interrupts are shorter, other tasks and
// hypervisors take milliseconds.
inline constexpr Nanos kStall = Nanos::micros(100);

inline constexpr uint32_t kBatch = 16;  // operations that are timed together

class Meter {
 public:
  // Every measurement may take `each`, and takes a little more where that is too short for
  // kFewest batches. When `stop` becomes true, all end early; it must outlive the meter.
  Meter(Nanos each, const std::atomic<bool>& stop);

  bool stopped() const { return stop_.load(std::memory_order_relaxed); }

  Nanos each() const { return each_; }
  const Sample& clock() const { return light_clock_; }

  // A reading of the counter that nothing overtakes, and one that lets the processor look ahead.
  static uint64_t stamp() {
    cpu_serialize();
    const uint64_t cycles = process_clock().cycles();
    cpu_serialize();
    return cycles;
  }
  static uint64_t light_stamp() { return process_clock().cycles(); }

  double stamp_ns() const { return clock_.median_ns; }  // what a stamp takes

  // Nanoseconds between two readings of the same kind, less the reading's own.
  double elapsed_ns(uint64_t from, uint64_t to) const { return elapsed(from, to, clock_); }
  double light_elapsed_ns(uint64_t from, uint64_t to) const {
    return elapsed(from, to, light_clock_);
  }

  // body() does `ops` operations; prepare() goes before, untimed.
  template <class Prepare, class Body>
  Sample measure(uint32_t ops, Prepare&& prepare, Body&& body) const;

 private:
  double elapsed(uint64_t from, uint64_t to, const Sample& reading) const {
    const double ns = static_cast<double>(to - from) * ns_per_cycle_ - reading.median_ns;
    return ns > 0 ? ns : 0;
  }
  Sample measure_light_clock() const;

  const std::atomic<bool>& stop_;
  Nanos each_;
  double ns_per_cycle_;
  Sample clock_;
  Sample light_clock_;
};

// Takes batches one by one, for those that time themselves.
class Collector {
 public:
  static constexpr size_t kFewest = 64;
  static constexpr size_t kMost = 1u << 20;

  explicit Collector(const Meter& meter) : meter_(meter), until_(now() + meter.each()) {}

  // False = enough, or stopped.
  bool more() const {
    const size_t batches = ns_.size() + stalls_;
    if (meter_.stopped() || batches >= kMost) return false;
    return batches < kFewest || now() < until_;
  }
  void add(double ns_per_op, uint32_t ops) {
    if (ns_per_op * ops > static_cast<double>(kStall.count())) {
      ++stalls_;
    } else {
      ns_.push_back(static_cast<float>(ns_per_op));
    }
  }
  Sample sample();

 private:
  const Meter& meter_;
  Instant until_;
  std::vector<float> ns_;
  uint64_t stalls_ = 0;
};

template <class Prepare, class Body>
Sample Meter::measure(uint32_t ops, Prepare&& prepare, Body&& body) const {
  Collector collector(*this);
  while (collector.more()) {
    prepare();
    const uint64_t from = stamp();
    body();
    collector.add(elapsed_ns(from, stamp()) / ops, ops);
  }
  return collector.sample();
}

}  // namespace rubato::calibrate
