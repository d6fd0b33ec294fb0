// SPDX-License-Identifier: Apache-2.0
#include "workload/arrivals.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "workload/duration.h"
#include "workload/sampling.h"

namespace rubato {
namespace {

constexpr int64_t kTicksPerNano = 1024;

}  // namespace

Arrivals Arrivals::generate(ArrivalShape shape, double rate, uint64_t seed) {
  RUBATO_CHECK(shape != ArrivalShape::kTrace && rate > 0 && rate <= kMaxRate);
  Arrivals arrivals(shape, seed);
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

Nanos Arrivals::next() {
  if (shape_ == ArrivalShape::kTrace) return next_of_trace();
  double gap = gap_ticks_;
  if (shape_ != ArrivalShape::kUniform) gap *= sample_exponential(prng_);
  now_ticks_ += static_cast<int64_t>(gap);
  const Nanos now(now_ticks_ / kTicksPerNano);
  if (shape_ != ArrivalShape::kOnOff) return now;
  const int64_t silent_phases = now.count() / kPhase.count();
  return now + kPhase * silent_phases;
}

Result<ArrivalSpec> parse_arrivals(std::string_view text) {
  if (text == "poisson") return ArrivalSpec{ArrivalShape::kPoisson, {}};
  if (text == "uniform") return ArrivalSpec{ArrivalShape::kUniform, {}};
  if (text == "onoff") return ArrivalSpec{ArrivalShape::kOnOff, {}};
  constexpr std::string_view kTracePrefix = "trace:";
  if (text.starts_with(kTracePrefix) && text.size() > kTracePrefix.size()) {
    return ArrivalSpec{ArrivalShape::kTrace, text.substr(kTracePrefix.size())};
  }
  return Error{"arrivals: '" + std::string(text) +
               "' is not one of poisson, uniform, onoff, trace:FILE"};
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
