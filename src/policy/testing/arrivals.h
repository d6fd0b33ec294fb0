// SPDX-License-Identifier: Apache-2.0
//
// Seeded arrivals for conformance tests: Poisson, mostly short jobs, some long ones of several
// priorities, each at a random worker. For tests, single-threaded.
#pragma once

#include <cmath>
#include <vector>

#include "base/prng.h"
#include "policy/testing/drive.h"

namespace rubato::testing {

struct Mix {
  uint32_t jobs = 4000;
  uint32_t workers = 4;
  double load = 0.6;  // of all workers
  double long_share = 0.05;
  Nanos short_service = Nanos::micros(1);
  Nanos long_service = Nanos::micros(50);
  uint32_t priorities = 3;  // long jobs get 0 .. priorities-1
  uint32_t flows = 61;          // by turns
  double unknown_share = 0.01;  // of type 0; else short jobs are of odd types, long ones of even,
  uint32_t types = 2;           // which are 1 .. types
};

inline uint32_t draw_type(Prng& prng, const Mix& mix, bool is_long) {
  if (prng.uniform() < mix.unknown_share) return 0;
  const uint32_t pairs = mix.types / 2;
  return 1 + (is_long ? 1 : 0) + 2 * (pairs > 1 ? prng.below(pairs) : 0);
}

inline std::vector<Arrival> make_arrivals(uint64_t seed, const Mix& mix = {}) {
  Prng prng(seed);
  const double mean_service =
      (1 - mix.long_share) * static_cast<double>(mix.short_service.count()) +
      mix.long_share * static_cast<double>(mix.long_service.count());
  const double mean_gap = mean_service / (mix.load * mix.workers);
  std::vector<Arrival> arrivals;
  Instant at;
  for (uint32_t i = 0; i < mix.jobs; ++i) {
    at = at + Nanos(1 + static_cast<int64_t>(-mean_gap * std::log(1.0 - prng.uniform())));
    const bool is_long = prng.uniform() < mix.long_share;
    const Nanos service = is_long ? mix.long_service : mix.short_service;
    arrivals.push_back({.at = at,
                        .worker = WorkerId{prng.below(mix.workers)},
                        .service = service,
                        .job_class = is_long ? JobClass::kLong : JobClass::kShort,
                        .priority = static_cast<uint8_t>(prng.below(mix.priorities)),
                        .type = draw_type(prng, mix, is_long),
                        .flow = i % mix.flows,
                        .deadline = i % 5 == 0 ? at + service * 3 : Instant::never()});
  }
  return arrivals;
}

}  // namespace rubato::testing
