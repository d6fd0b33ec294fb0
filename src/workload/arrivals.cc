// SPDX-License-Identifier: Apache-2.0
#include "workload/arrivals.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/check.h"
#include "workload/duration.h"
#include "workload/sampling.h"

namespace rubato {

Arrivals Arrivals::generate(const ArrivalSpec& spec, double rate, uint64_t seed) {
  RUBATO_CHECK(spec.shape != ArrivalShape::kTrace && spec.shape != ArrivalShape::kProfile);
  RUBATO_CHECK(rate > 0 && rate <= kMaxRate);
  Arrivals arrivals(spec.shape, seed);
  const double usual = spec.shape == ArrivalShape::kBatch ? kBatch : kPeak;
  arrivals.parameter_ = spec.parameter > 0 ? spec.parameter : usual;
  const Nanos burst = spec.burst > Nanos() ? spec.burst : kBurst;
  arrivals.burst_ticks_ = static_cast<double>(burst.count() * kTicksPerNano);
  arrivals.gap_ticks_ = 1e9 * static_cast<double>(kTicksPerNano) / rate;
  if (spec.shape == ArrivalShape::kOnOff) arrivals.gap_ticks_ /= 2;
  return arrivals;
}

Arrivals Arrivals::generate(ArrivalShape shape, double rate, uint64_t seed) {
  return generate(ArrivalSpec{.shape = shape}, rate, seed);
}

Arrivals Arrivals::replay(std::vector<Nanos> times, double rate) {
  RUBATO_CHECK(times.size() >= 2 && times.back() > times.front());
  Arrivals arrivals(ArrivalShape::kTrace, 0);
  const double gaps = static_cast<double>(times.size() - 1);
  const double span_ns = static_cast<double>((times.back() - times.front()).count());
  // One mean gap separates the end of a lap from the start of the next.
  const double lap_ns = span_ns + span_ns / gaps;
  if (rate > 0) arrivals.stretch_ = static_cast<double>(times.size()) * 1e9 / (rate * lap_ns);
  arrivals.lap_ = Nanos(static_cast<int64_t>(lap_ns * arrivals.stretch_));
  arrivals.times_ = std::move(times);
  return arrivals;
}

Arrivals Arrivals::like(const ArrivalScales& scales, double rate, uint64_t seed) {
  Arrivals arrivals(ArrivalShape::kProfile, seed);
  arrivals.cascade_ = ArrivalCascade(scales, rate, seed);
  return arrivals;
}

Nanos Arrivals::next_of_trace() {
  if (position_ == times_.size()) {
    position_ = 0;
    lap_start_ += lap_;
  }
  const double offset = static_cast<double>((times_[position_++] - times_.front()).count());
  return lap_start_ + Nanos(static_cast<int64_t>(offset * stretch_));
}

// A batch goes on with the probability that makes its mean size; batches are as much rarer.
Nanos Arrivals::next_of_batch() {
  const bool goes_on = now_ticks_ > 0 && prng_.uniform() * parameter_ >= 1;
  if (!goes_on) {
    now_ticks_ += static_cast<int64_t>(gap_ticks_ * parameter_ * sample_exponential(prng_) + 0.5);
  }
  return Nanos(now_ticks_ / kTicksPerNano);
}

// In both states arrivals are Poisson, so what is left of a gap when the state ends is drawn anew.
Nanos Arrivals::next_of_bursts() {
  const double quiet = (1 - parameter_ * kBurstShare) / (1 - kBurstShare);
  while (true) {
    const double rate = in_burst_ ? parameter_ : quiet;
    const int64_t left = state_end_ticks_ - now_ticks_;
    const double gap = rate > 0 ? gap_ticks_ / rate * sample_exponential(prng_) : 1e18;
    if (gap < static_cast<double>(left)) {
      now_ticks_ += static_cast<int64_t>(gap);
      return Nanos(now_ticks_ / kTicksPerNano);
    }
    now_ticks_ = state_end_ticks_;
    in_burst_ = !in_burst_;
    const double mean = in_burst_ ? burst_ticks_ : burst_ticks_ * (1 - kBurstShare) / kBurstShare;
    state_end_ticks_ += static_cast<int64_t>(mean * sample_exponential(prng_)) + 1;
  }
}

Nanos Arrivals::next_of_other() {
  if (shape_ == ArrivalShape::kProfile) return cascade_.next();
  if (shape_ == ArrivalShape::kTrace) return next_of_trace();
  if (shape_ == ArrivalShape::kBatch) return next_of_batch();
  if (shape_ == ArrivalShape::kBursty) return next_of_bursts();
  double gap = gap_ticks_;
  if (shape_ != ArrivalShape::kUniform) gap *= sample_exponential(prng_);
  gap += rest_ticks_;
  now_ticks_ += static_cast<int64_t>(gap);
  rest_ticks_ = gap - static_cast<double>(static_cast<int64_t>(gap));
  const Nanos now(now_ticks_ / kTicksPerNano);
  if (shape_ != ArrivalShape::kOnOff) return now;
  const int64_t silent_phases = now.count() / kPhase.count();
  return now + kPhase * silent_phases;
}

namespace {

// What follows `NAME:`, nothing if the text is not of that form, an empty text if it is `NAME`.
std::optional<std::string_view> argument(std::string_view text, std::string_view name) {
  if (!text.starts_with(name)) return {};
  text.remove_prefix(name.size());
  if (text.empty()) return text;
  if (text.size() < 2 || text.front() != ':') return {};
  return text.substr(1);
}

// A number from 1 to `most`.
std::optional<double> parse_factor(std::string_view text, double most) {
  const std::optional<double> number = parse_number(text);
  if (!number || *number < 1 || *number > most) return {};
  return number;
}

std::optional<ArrivalSpec> parse_batch(std::string_view text) {
  ArrivalSpec spec{.shape = ArrivalShape::kBatch};
  if (text.empty()) return spec;
  const std::optional<double> size = parse_factor(text, Arrivals::kMostBatch);
  if (!size) return {};
  spec.parameter = *size;
  return spec;
}

std::optional<ArrivalSpec> parse_bursty(std::string_view text) {
  ArrivalSpec spec{.shape = ArrivalShape::kBursty};
  if (text.empty()) return spec;
  const size_t colon = text.find(':');
  const std::optional<double> peak =
      parse_factor(text.substr(0, colon), 1 / Arrivals::kBurstShare);
  if (!peak) return {};
  spec.parameter = *peak;
  if (colon == std::string_view::npos) return spec;
  const std::optional<Nanos> burst = parse_duration(text.substr(colon + 1));
  if (!burst || *burst < Nanos::micros(1) || *burst > Arrivals::kLongestBurst) return {};
  spec.burst = *burst;
  return spec;
}

}  // namespace

Result<ArrivalSpec> parse_arrivals(std::string_view text) {
  if (text == "poisson") return ArrivalSpec{.shape = ArrivalShape::kPoisson};
  if (text == "uniform") return ArrivalSpec{.shape = ArrivalShape::kUniform};
  if (text == "onoff") return ArrivalSpec{.shape = ArrivalShape::kOnOff};
  std::optional<ArrivalSpec> spec;
  if (const auto size = argument(text, "batch")) spec = parse_batch(*size);
  if (const auto shape = argument(text, "bursty")) spec = parse_bursty(*shape);
  if (spec) return *spec;
  constexpr std::string_view kTracePrefix = "trace:";
  if (text.starts_with(kTracePrefix) && text.size() > kTracePrefix.size()) {
    return ArrivalSpec{.shape = ArrivalShape::kTrace,
                       .trace_file = text.substr(kTracePrefix.size())};
  }
  return Error{"arrivals: '" + std::string(text) +
               "' is not one of poisson, uniform, onoff, batch:SIZE, bursty:PEAK:LENGTH (1 to 10, "
               "1us to 1s), trace:FILE"};
}

Result<std::vector<Nanos>> parse_trace(std::string_view text) {
  std::vector<Nanos> times;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.empty() || content.front() == '#') continue;
    const std::optional<Nanos> time = parse_duration(content);
    if (!time) {
      return Error{"trace: line " + std::to_string(line) +
                   " is not a time in microseconds since the start"};
    }
    if (!times.empty() && *time < times.back()) {
      return Error{"trace: line " + std::to_string(line) + " is earlier than the line before it"};
    }
    times.push_back(*time);
  }
  if (times.size() < 2 || times.back() == times.front()) {
    return Error{"trace: needs at least two arrivals at different times"};
  }
  return times;
}

}  // namespace rubato
