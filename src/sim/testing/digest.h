// SPDX-License-Identifier: Apache-2.0
//
// A number that stands for everything a run found: equal digests, equal results to the bit. Time
// that passed outside of the simulation is left out. Pure functions.
#pragma once

#include <bit>
#include <cstdint>

#include "sim/simulation.h"

namespace rubato::sim {

class Digest {
 public:
  void add(uint64_t value) {  // FNV-1a over its bytes
    for (int shift = 0; shift < 64; shift += 8) {
      hash_ = (hash_ ^ (value >> shift & 0xff)) * 0x100000001b3u;
    }
  }
  void add(Nanos value) { add(static_cast<uint64_t>(value.count())); }
  void add(double value) { add(std::bit_cast<uint64_t>(value)); }
  void add(const Histogram& histogram) {
    histogram.for_each_bucket([&](Nanos low, Nanos, uint64_t count) {
      add(low);
      add(count);
    });
    add(histogram.sum_ns());
    add(histogram.min());
    add(histogram.max());
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

inline uint64_t digest_of(const Outcome& outcome) {
  Digest digest;
  for (const TypeOutcome& type : outcome.types) {
    digest.add(type.latency);
    digest.add(type.slowdown);
    digest.add(type.refused);
    digest.add(type.lost);
  }
  const SchedulerCounters& counters = outcome.counters;
  for (const uint64_t count :
       {counters.preemptions, counters.preemptions_avoided, counters.steals, counters.stolen,
        counters.wait_queue_max, counters.migrations, outcome.requests, outcome.measured,
        outcome.events}) {
    digest.add(count);
  }
  for (const auto& more : counters.more) digest.add(more.second);
  digest.add(outcome.measured_time);
  digest.add(outcome.simulated);
  digest.add(outcome.busy_share);
  digest.add(outcome.useful_share);
  return digest.value();
}

}  // namespace rubato::sim
