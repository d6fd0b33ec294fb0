// SPDX-License-Identifier: Apache-2.0
#include "sim/steady_state.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

#include "base/check.h"
#include "sim/student.h"

namespace rubato::sim {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
// Batches are joined in pairs down to so many. Fewer make intervals wide by themselves.
constexpr size_t kFewestBatches = 8;
// A correlation is suspected beyond so many standard errors: one-sided, 10 %.
constexpr double kSuspicious = 1.2816;
constexpr double kMostCorrelation = 0.8;
// A difference is certain beyond so many standard errors.
constexpr double kCertain = 4;
// Requests that stay or are refused: less may be a burst's.
constexpr double kLeastGrowth = 0.002;
constexpr double kSaturated = 0.98;
// The work that came may miss what is offered by so much of the spare capacity: a wait is about
// in proportion to the inverse of that.
constexpr double kWorkTolerance = 0.1;
// What exceeds an interval is read from the run too, so it must be that much of what exceeds the
// percentile: bursts fewer than some ten tell nothing of those that did not come.
constexpr double kLeastBeyond = 1.0 / 3;

std::string digits(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return text;
}

const PackedHistogram& histogram_of(const TypeBatch& type, Measure measure) {
  return measure == Measure::kLatency ? type.latency : type.slowdown;
}

// Calls f(histogram) for the types of the batch that are meant.
template <class F>
void for_each_histogram(const Batch& batch, size_t type, Measure measure, F&& f) {
  for (size_t t = 0; t < batch.types.size(); ++t) {
    if (type == kAllTypes || t == type) f(histogram_of(batch.types[t], measure));
  }
}

std::vector<RatioPart> means_of(std::span<const Batch> batches, size_t type, Measure measure) {
  std::vector<RatioPart> parts;
  for (const Batch& batch : batches) {
    RatioPart part;
    for_each_histogram(batch, type, measure, [&](const PackedHistogram& h) {
      part.sum += h.sum_ns();
      part.per += static_cast<double>(h.count());
    });
    parts.push_back(part);
  }
  return parts;
}

RatioPart total_of(std::span<const RatioPart> parts) {
  RatioPart total;
  for (const RatioPart& part : parts) {
    total.sum += part.sum;
    total.per += part.per;
  }
  return total;
}

std::vector<RatioPart> joined(const std::vector<RatioPart>& parts) {
  std::vector<RatioPart> pairs;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    pairs.push_back(total_of(std::span(parts).subspan(i, 2)));
  }
  if (parts.size() % 2 == 1) {
    pairs.back() = {pairs.back().sum + parts.back().sum, pairs.back().per + parts.back().per};
  }
  return pairs;
}

struct Spread {
  double error = 0;  // standard error of the ratio of the sums
  double correlation = 0;
};
// Requires two parts or more, and something to divide by.
Spread spread_of(std::span<const RatioPart> parts, const RatioPart& total) {
  const double ratio = total.sum / total.per;
  const double n = static_cast<double>(parts.size());
  double squares = 0, products = 0, before = 0;
  for (const RatioPart& part : parts) {
    const double rest = part.sum - ratio * part.per;
    squares += rest * rest;
    products += rest * before;
    before = rest;
  }
  return {std::sqrt(squares * n / (n - 1)) / total.per, squares > 0 ? products / squares : 0};
}

// What batches of one length say.
struct Level {
  double half_width = 0;
  double correlation = 0;
  bool correlated = false;
};
Level level_of(std::span<const RatioPart> parts, const RatioPart& total) {
  const double n = static_cast<double>(parts.size());
  const Spread spread = spread_of(parts, total);
  const bool correlated = spread.correlation > kSuspicious / std::sqrt(n);
  const double r = correlated ? std::min(spread.correlation, kMostCorrelation) : 0;
  const double scale = std::sqrt((1 + r) / (1 - r));
  return {student(parts.size() - 1) * spread.error * scale, spread.correlation, correlated};
}

// How many standard errors `b` is above `a`; 0 where it is not to be told.
double shift(std::span<const RatioPart> a, std::span<const RatioPart> b) {
  const RatioPart first = total_of(a), second = total_of(b);
  if (a.size() < 2 || b.size() < 2 || first.per == 0 || second.per == 0) return 0;
  const double error = std::hypot(spread_of(a, first).error, spread_of(b, second).error);
  return error > 0 ? (second.sum / second.per - first.sum / first.per) / error : 0;
}

// Requests that came and did not leave served, per request that came.
std::vector<RatioPart> growth_of(std::span<const Batch> batches, bool with_refused) {
  std::vector<RatioPart> parts;
  for (const Batch& batch : batches) {
    RatioPart part{static_cast<double>(batch.end.in_system) -
                       static_cast<double>(batch.begin.in_system),
                   static_cast<double>(batch.end.arrived - batch.begin.arrived)};
    for (const TypeBatch& type : batch.types) {
      if (with_refused) part.sum += static_cast<double>(type.refused + type.lost);
    }
    parts.push_back(part);
  }
  return parts;
}

// The share of requests that certainly pile up; 0 = none.
double certain_growth(const std::vector<RatioPart>& parts) {
  const RatioPart total = total_of(parts);
  if (parts.size() < 2 || total.per == 0) return 0;
  const double growth = total.sum / total.per;
  const bool certain = growth > kCertain * spread_of(parts, total).error;
  return certain && growth > kLeastGrowth ? growth : 0;
}

std::optional<std::string> overload_of(std::span<const Batch> batches, const RunFacts& facts) {
  if (facts.load >= 1 && !facts.refuses_by_plan) {
    return digits(facts.load) + " of the capacity is offered";
  }
  double growth = certain_growth(growth_of(batches, false));
  if (!facts.refuses_by_plan && facts.busiest_worker >= kSaturated) {
    growth = std::max(growth, certain_growth(growth_of(batches, true)));
  }
  if (growth == 0) return std::nullopt;
  return "requests come faster than they are served: " + digits(100 * growth) +
         (facts.refuses_by_plan ? " % of them pile up" : " % of them pile up or are refused");
}

std::optional<std::string> learning_of(std::span<const Batch> batches, const RunFacts& facts) {
  const uint64_t from = batches.front().begin.arrived, to = batches.back().end.arrived;
  if (facts.learning <= from) return std::nullopt;
  return "the policy learns from the first " + std::to_string(facts.learning) + " of " +
         std::to_string(to) + " requests (its window), of which " + std::to_string(from) +
         " are left out";
}

std::optional<std::string> work_of(std::span<const Batch> batches, const RunFacts& facts) {
  const Progress &begin = batches.front().begin, &end = batches.back().end;
  const double time = static_cast<double>((end.at - begin.at).count()) * facts.workers;
  if (facts.load <= 0 || facts.load >= 1 || !(time > 0)) return std::nullopt;
  const double came = static_cast<double>((end.work - begin.work).count()) / time;
  if (std::abs(came - facts.load) <= kWorkTolerance * (1 - facts.load)) return std::nullopt;
  return "too few requests: those that came ask for " + digits(100 * came) +
         " % of the capacity, " + digits(100 * facts.load) + " % are offered";
}

// The largest shift of the mean latency between the halves, of all requests or of one type.
bool drifts(std::span<const Batch> batches) {
  const size_t types = batches.front().types.size();
  for (size_t type = 0; type <= types; ++type) {
    const std::vector<RatioPart> parts =
        means_of(batches, type == types ? kAllTypes : type, Measure::kLatency);
    const auto half = static_cast<ptrdiff_t>(parts.size() / 2);
    if (parts.size() < 2 * kFewestBatches) continue;
    const std::span all(parts);
    if (std::abs(shift(all.first(static_cast<size_t>(half)),
                       all.subspan(static_cast<size_t>(half)))) > kCertain) {
      return true;
    }
  }
  return false;
}

// By the share of requests that do not exceed the percentile.
Interval interval_alone(std::span<const Batch> batches, size_t type, Measure measure,
                        const Histogram& pooled, double percent) {
  const Nanos figure = pooled.percentile(percent);
  std::vector<RatioPart> parts;
  for (const Batch& batch : batches) {
    RatioPart part;
    for_each_histogram(batch, type, measure, [&](const PackedHistogram& h) {
      part.sum += static_cast<double>(h.count_at_most(figure));
      part.per += static_cast<double>(h.count());
    });
    parts.push_back(part);
  }
  const RatioEstimate share = estimate_ratio(std::move(parts));
  if (pooled.empty() || std::isinf(share.half_width)) return {-kUnknown, kUnknown, false};
  // No less than independent requests would have.
  const double n = static_cast<double>(pooled.count()), p = percent / 100;
  const double half =
      std::max(share.half_width, student(share.batches - 1) * std::sqrt(p * (1 - p) / n));
  const double low = std::max(p - half, 0.0), high = p + half;
  const bool bounded = 1 - high >= kLeastBeyond * (1 - p) && (1 - high) * n >= 1;
  return {static_cast<double>(pooled.percentile(100 * low).count()),
          bounded ? static_cast<double>(pooled.percentile(100 * high).count()) : kUnknown,
          share.correlated};
}

}  // namespace

RatioEstimate estimate_ratio(std::vector<RatioPart> parts) {
  std::erase_if(parts, [](const RatioPart& part) { return part.per <= 0; });
  const RatioPart total = total_of(parts);
  if (parts.empty()) return {0, kUnknown, 0, 0, false};
  RatioEstimate estimate{total.sum / total.per, kUnknown, parts.size(), 0, false};
  if (parts.size() < kFewestBatches) return estimate;
  Level level = level_of(parts, total);
  while (level.correlated && parts.size() >= 2 * kFewestBatches) {
    parts = joined(parts);
    level = level_of(parts, total);
  }
  estimate.batches = parts.size();
  estimate.correlation = level.correlation;
  estimate.correlated = level.correlated;
  estimate.half_width = level.half_width;
  // A correlation too small to be seen narrows the interval all the same; less so that of pairs.
  if (parts.size() >= 2 * kFewestBatches) {
    estimate.half_width = std::max(level.half_width, level_of(joined(parts), total).half_width);
  }
  return estimate;
}

double Interval::half_width(double figure) const { return std::max(high - figure, figure - low); }

Interval mean_interval(std::span<const Batch> batches, size_t type, Measure measure) {
  const RatioEstimate mean = estimate_ratio(means_of(batches, type, measure));
  return {mean.ratio - mean.half_width, mean.ratio + mean.half_width, mean.correlated};
}

// Where what exceeds a percentile came in one burst, the shares of batches say little of it, but
// those that exceed lower percentiles do.
std::array<Interval, kReportedPercentiles.size()> percentile_intervals(
    std::span<const Batch> batches, size_t type, Measure measure, const Histogram& pooled) {
  std::array<Interval, kReportedPercentiles.size()> all;
  double least = -kUnknown;
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = interval_alone(batches, type, measure, pooled, kReportedPercentiles[i].percent);
    least = all[i].high = std::max(all[i].high, least);
  }
  return all;
}

const char* verdict_name(RunState verdict) {
  switch (verdict) {
    case RunState::kSteady:
      return "steady";
    case RunState::kNotSteady:
      return "not steady";
    case RunState::kOverloaded:
      return "overloaded";
  }
  return "";
}

bool is_stationary(const WorkloadSpec& workload) {
  const ArrivalShape shape = workload.arrivals.shape;
  return workload.phases.empty() && workload.trace == nullptr && shape != ArrivalShape::kTrace &&
         shape != ArrivalShape::kProfile;
}

Steadiness judge_steadiness(std::span<const Batch> batches, const RunFacts& facts) {
  RUBATO_CHECK(!batches.empty());
  if (auto overload = overload_of(batches, facts)) {
    return {RunState::kOverloaded, {std::move(*overload)}, !facts.refuses_by_plan};
  }
  Steadiness found;
  for (auto reason : {learning_of(batches, facts), work_of(batches, facts)}) {
    if (reason) found.reasons.push_back(std::move(*reason));
  }
  if (batches.size() < kFewestBatches) {
    found.reasons.emplace_back("too few requests to tell");
  } else if (drifts(batches)) {
    found.reasons.emplace_back("latencies change from the first half to the second");
  } else if (estimate_ratio(means_of(batches, kAllTypes, Measure::kLatency)).correlated) {
    found.reasons.emplace_back("too few requests: latencies of one part depend on the one before");
  }
  if (!found.reasons.empty()) found.verdict = RunState::kNotSteady;
  return found;
}

}  // namespace rubato::sim
