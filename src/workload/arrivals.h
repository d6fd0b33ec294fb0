// SPDX-License-Identifier: Apache-2.0
//
// Arrivals: when the requests of an open-loop run are due, as times since its start.
//
//   poisson   independent exponential gaps of mean 1/rate
//   uniform   one request every 1/rate
//   onoff     1 ms of Poisson arrivals at twice the rate, 1 ms of silence, and so on (the pattern
//             of SBB, section 2); the mean rate is `rate`
//   batch     batches of N requests on average (geometric), which come together; Poisson batches.
//             The model of Azure's and Huawei's clouds that Altocumulus (section VII) drives is of
//             this kind: batches whose number per time is Poisson
//   bursty    Poisson arrivals at a rate that jumps: bursts of `peak` times the mean rate, and less
//             in between (a Markov-modulated Poisson process with two states). Bursts last 75 us
//             on average, so that 74 % are shorter than 100 us: in Facebook's racks over 70 % of
//             bursts last at most tens of microseconds (Zhang et al., "High-resolution measurement
//             of data center microbursts", IMC 2017). That they take a tenth of the time, at five
//             times the mean rate, is our choice: the paper gives no rates of requests.
//   trace     the times of a recording, repeated; stretched to `rate` when that is positive
//   profile   as uneven on every time scale as a recording (workload/arrival_cascade.h)
//
// Times are kept to 1/1024 ns, of which the consumer sees whole nanoseconds: at high rates several
// requests come in one, in their order.
//
// Times never go back. The same seed gives the same times on every platform. One owner at a time.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "workload/arrival_cascade.h"
#include "workload/sampling.h"

namespace rubato {

enum class ArrivalShape : uint8_t { kPoisson, kUniform, kOnOff, kBatch, kBursty, kTrace, kProfile };

struct ArrivalSpec {
  ArrivalShape shape = ArrivalShape::kPoisson;
  std::string_view trace_file = {};  // part of the parsed text; of kTrace only
  double parameter = 0;              // mean size of kBatch, peak of kBursty; 0 = the default
  Nanos burst = Nanos();             // mean length of kBursty's; 0 = the default
};

class Arrivals {
 public:
  static constexpr double kMaxRate = 1e10;
  static constexpr Nanos kPhase = Nanos::millis(1);
  static constexpr double kBatch = 8;        // mean size, where none is given
  static constexpr double kMostBatch = 1e6;
  static constexpr double kPeak = 5;         // rate of a burst over the mean, where none is given
  static constexpr double kBurstShare = 0.1;  // of the time; a peak is at most 1 over this
  static constexpr Nanos kBurst = Nanos::micros(75);  // mean length, where none is given
  static constexpr Nanos kLongestBurst = Nanos::seconds(1);

  // Requires 0 < rate <= kMaxRate (requests per second) and a shape that needs no recording.
  static Arrivals generate(const ArrivalSpec& spec, double rate, uint64_t seed);
  static Arrivals generate(ArrivalShape shape, double rate, uint64_t seed);

  // Replays `times` (see parse_trace), stretched to `rate` unless that is 0. Requires a trace.
  static Arrivals replay(std::vector<Nanos> times, double rate);

  // As uneven as the recording, at `rate`. Requires valid scales and 0 < rate <= kMaxRate.
  static Arrivals like(const ArrivalScales& scales, double rate, uint64_t seed);

  // The next request is due this long after the start of the run.
  Nanos next() {
    if (shape_ == ArrivalShape::kPoisson) [[likely]] {
      now_ticks_ += static_cast<int64_t>(gap_ticks_ * sample_exponential(prng_) + 0.5);
      return Nanos(now_ticks_ / kTicksPerNano);
    }
    return next_of_other();
  }

 private:
  static constexpr int64_t kTicksPerNano = 1024;

  explicit Arrivals(ArrivalShape shape, uint64_t seed) : shape_(shape), prng_(seed) {}
  Nanos next_of_other();
  Nanos next_of_batch();
  Nanos next_of_bursts();
  Nanos next_of_trace();

  ArrivalShape shape_;
  Prng prng_;
  double gap_ticks_ = 0;   // mean gap in 1/1024 ns, so that rounding does not change the rate
  double rest_ticks_ = 0;  // of the last gap of kUniform or kOnOff, below a tick: for the next
  int64_t now_ticks_ = 0;  // the last arrival; of kOnOff, in on-time
  double parameter_ = 0;   // as in ArrivalSpec, resolved
  double burst_ticks_ = 0;
  bool in_burst_ = false;
  int64_t state_end_ticks_ = 0;  // when the burst, or the time between two, is over
  std::vector<Nanos> times_;
  double stretch_ = 1;
  size_t position_ = 0;
  Nanos lap_, lap_start_;
  ArrivalCascade cascade_;
};

// `poisson`, `uniform`, `onoff`, `batch[:SIZE]`, `bursty[:PEAK[:LENGTH]]` or `trace:FILE`.
Result<ArrivalSpec> parse_arrivals(std::string_view text);

// A recording: one arrival per line as microseconds since its start, not falling; blank lines and
// lines that start with '#' are skipped. Needs two arrivals that differ.
Result<std::vector<Nanos>> parse_trace(std::string_view text);

}  // namespace rubato
