// SPDX-License-Identifier: Apache-2.0
//
// RequestSource: the requests of an open-loop run, one after the other: when each is due, of which
// type and flow, how long its service takes, and what type a classifier takes it for. The same spec
// and seed give the same requests on every platform, whoever consumes them (the simulator, a live
// generator). A source belongs to one owner at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "workload/arrivals.h"
#include "workload/mix.h"

namespace rubato {

struct WorkloadSpec {
  std::vector<Mix> mixes;  // one, so far
  double rate = 0;         // requests per second
};

// What Offer::type indexes.
inline const std::vector<RequestType>& types_of(const WorkloadSpec& spec) {
  return spec.mixes.front().types();
}
inline double mean_rate(const WorkloadSpec& spec) { return spec.rate; }
inline double mean_service_ns(const WorkloadSpec& spec) {
  return spec.mixes.front().mean_service_ns();
}

struct Offer {
  Instant at;              // since the start of the run
  Nanos service;           // at least 1 ns
  uint64_t flow = 0;       // 0 .. flows-1
  uint32_t type = 0;       // index into types_of
  uint32_t seen_type = 0;  // what the classifier takes it for
};

class RequestSource {
 public:
  RequestSource(const WorkloadSpec& spec, uint64_t seed)
      : mix_(spec.mixes.front()),
        arrivals_(Arrivals::generate(ArrivalShape::kPoisson, spec.rate, seed)),
        types_(seed + 1),
        flows_(seed + 2) {}

  // Endless; `at` never goes back.
  Offer next() {
    const Instant at = Instant() + arrivals_.next();
    const Mix::Draw draw = mix_.sample(types_);
    return {at, draw.service, flows_.below(kFlows), draw.type, draw.type};
  }

 private:
  static constexpr uint32_t kFlows = 512;

  Mix mix_;
  Arrivals arrivals_;
  Prng types_;
  Prng flows_;
};

}  // namespace rubato
