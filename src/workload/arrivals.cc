// SPDX-License-Identifier: Apache-2.0
#include "workload/arrivals.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/check.h"
#include "workload/duration.h"
#include "workload/sampling.h"

namespace rubato {

Arrivals Arrivals::generate(ArrivalShape shape, double rate, uint64_t seed, double parameter) {
  RUBATO_CHECK(shape != ArrivalShape::kTrace && rate > 0 && rate <= kMaxRate);
  Arrivals arrivals(shape, seed);
  const double usual = shape == ArrivalShape::kBatch ? kBatch : kPeak;
  arrivals.parameter_ = parameter > 0 ? parameter : usual;
  arrivals.gap_ticks_ = 1e9 * static_cast<double>(kTicksPerNano) / rate;
  if (shape == ArrivalShape::kOnOff) arrivals.gap_ticks_ /= 2;
  return arrivals;
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
    const double mean = in_burst_ ? kBurstNs : kBurstNs * (1 - kBurstShare) / kBurstShare;
    const double length = mean * sample_exponential(prng_);
    state_end_ticks_ += static_cast<int64_t>(length * static_cast<double>(kTicksPerNano)) + 1;
  }
}

Nanos Arrivals::next_of_other() {
  if (shape_ == ArrivalShape::kTrace) return next_of_trace();
  if (shape_ == ArrivalShape::kBatch) return next_of_batch();
  if (shape_ == ArrivalShape::kBursty) return next_of_bursts();
  double gap = gap_ticks_;
  if (shape_ != ArrivalShape::kUniform) gap *= sample_exponential(prng_);
  now_ticks_ += static_cast<int64_t>(gap);
  const Nanos now(now_ticks_ / kTicksPerNano);
  if (shape_ != ArrivalShape::kOnOff) return now;
  const int64_t silent_phases = now.count() / kPhase.count();
  return now + kPhase * silent_phases;
}

namespace {

// `NAME` or `NAME:NUMBER`, the number from 1 to `most`; nothing if the text is anything else.
std::optional<double> parse_parameter(std::string_view text, std::string_view name, double most) {
  if (text == name) return 0;
  if (!text.starts_with(name) || text[name.size()] != ':') return {};
  const std::optional<double> number = parse_number(text.substr(name.size() + 1));
  if (!number || *number < 1 || *number > most) return {};
  return number;
}

}  // namespace

Result<ArrivalSpec> parse_arrivals(std::string_view text) {
  if (text == "poisson") return ArrivalSpec{.shape = ArrivalShape::kPoisson, .trace_file = {}};
  if (text == "uniform") return ArrivalSpec{.shape = ArrivalShape::kUniform, .trace_file = {}};
  if (text == "onoff") return ArrivalSpec{.shape = ArrivalShape::kOnOff, .trace_file = {}};
  if (const auto size = parse_parameter(text, "batch", Arrivals::kMostBatch)) {
    return ArrivalSpec{ArrivalShape::kBatch, {}, *size};
  }
  if (const auto peak = parse_parameter(text, "bursty", 1 / Arrivals::kBurstShare)) {
    return ArrivalSpec{ArrivalShape::kBursty, {}, *peak};
  }
  constexpr std::string_view kTracePrefix = "trace:";
  if (text.starts_with(kTracePrefix) && text.size() > kTracePrefix.size()) {
    return ArrivalSpec{ArrivalShape::kTrace, text.substr(kTracePrefix.size()), 0};
  }
  return Error{"arrivals: '" + std::string(text) +
               "' is not one of poisson, uniform, onoff, batch:SIZE, bursty:PEAK (1 to 10), "
               "trace:FILE"};
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
