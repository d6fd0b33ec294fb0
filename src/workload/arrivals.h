// SPDX-License-Identifier: Apache-2.0
//
// Arrivals: when the requests of an open-loop run are due, as times since its start.
//
//   poisson   independent exponential gaps of mean 1/rate
//   uniform   one request every 1/rate
//   onoff     1 ms of Poisson arrivals at twice the rate, 1 ms of silence, and so on (the pattern
//             of SBB, section 2); the mean rate is `rate`
//   trace     the times of a recording, repeated; stretched to `rate` when that is positive
//
// Times never go back. The same seed gives the same times on every platform. One owner at a time.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"

namespace rubato {

enum class ArrivalShape : uint8_t { kPoisson, kUniform, kOnOff, kTrace };

class Arrivals {
 public:
  static constexpr double kMaxRate = 1e9;
  static constexpr Nanos kPhase = Nanos::millis(1);

  // Requires 0 < rate <= kMaxRate (requests per second) and a shape other than kTrace.
  static Arrivals generate(ArrivalShape shape, double rate, uint64_t seed);

  // Replays `times` (see parse_trace), stretched to `rate` unless that is 0. Requires a trace.
  static Arrivals replay(std::vector<Nanos> times, double rate);

  // The next request is due this long after the start of the run.
  Nanos next();

 private:
  explicit Arrivals(ArrivalShape shape, uint64_t seed) : shape_(shape), prng_(seed) {}
  Nanos next_of_trace();

  ArrivalShape shape_;
  Prng prng_;
  double gap_ticks_ = 0;   // mean gap in 1/1024 ns, so that rounding does not change the rate
  int64_t now_ticks_ = 0;  // the last arrival; of kOnOff, in on-time
  std::vector<Nanos> times_;
  double stretch_ = 1;
  size_t position_ = 0;
  Nanos lap_, lap_start_;
};

// `poisson`, `uniform`, `onoff` or `trace:FILE`.
struct ArrivalSpec {
  ArrivalShape shape = ArrivalShape::kPoisson;
  std::string_view trace_file;  // part of the parsed text; of kTrace only
};
Result<ArrivalSpec> parse_arrivals(std::string_view text);

// A recording: one arrival per line as microseconds since its start, not falling; blank lines and
// lines that start with '#' are skipped. Needs two arrivals that differ.
Result<std::vector<Nanos>> parse_trace(std::string_view text);

}  // namespace rubato
