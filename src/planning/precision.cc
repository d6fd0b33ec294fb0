// SPDX-License-Identifier: Apache-2.0
#include "planning/precision.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/name_list.h"
#include "workload/duration.h"

namespace rubato::planning {
namespace {

constexpr double kFinest = 1e-4;
constexpr double kCoarsest = 1;

Status parse_share(const std::string& text, double& share) {
  const bool percent = !text.empty() && text.back() == '%';
  const auto number = parse_number(percent ? text.substr(0, text.size() - 1) : text);
  const double found = number ? *number / (percent ? 100 : 1) : 0;
  if (found < kFinest || found > kCoarsest) {
    return Error{"takes a share of the figure of 0.01% to 100%, as 5%, not '" + text + "'"};
  }
  share = found;
  return Done{};
}

// Half of the interval over the figure; infinite if nothing is known of it.
double relative_width(const SloTarget& target, const sim::SimReport& report) {
  const SloFigure figure = figure_of(target, report);
  if (figure.count == 0 || figure.figure <= 0) return std::numeric_limits<double>::infinity();
  return figure.half_width / figure.figure;
}

}  // namespace

Status parse_precision(const std::string& text, Precision& precision) {
  const std::vector<std::string> parts = split(text, ',');
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) {
      return Error{"takes METRIC=SHARE, as p99_latency=5%, not '" + part + "'"};
    }
    SloTarget target;
    const std::string metric = part.substr(0, equals);
    if (!parse_metric(metric + "_latency", target)) {
      if (Status known = parse_metric(metric, target); !known) return known;
    }
    if (Status parsed = parse_share(part.substr(equals + 1), target.limit); !parsed) return parsed;
    for (const SloTarget& other : precision.targets) {
      if (other.metric == target.metric) return Error{"names " + target.metric + " twice"};
    }
    precision.targets.push_back(std::move(target));
  }
  if (parts.empty()) return Error{"takes METRIC=SHARE, as p99_latency=5%, not ''"};
  return Done{};
}

Precision precision_for(const Slo& slo) {
  Precision precision{slo.targets};
  if (!precision.given()) {
    SloTarget target;
    target.metric = "p99_latency";
    precision.targets.push_back(target);
  }
  for (SloTarget& target : precision.targets) target.limit = kDefaultPrecision;
  return precision;
}

bool Sufficiency::reached_by(const sim::SimReport& report) {
  if (report.steadiness.is_final) return true;
  const bool was_precise = was_precise_;
  was_precise_ = is_precise(report);
  return was_precise && was_precise_ && report.requests >= kLeastRequests;
}

bool Sufficiency::is_precise(const sim::SimReport& report) const {
  if (report.steadiness.verdict != sim::RunState::kSteady) return false;
  return std::all_of(precision_.targets.begin(), precision_.targets.end(),
                     [&](const SloTarget& t) { return relative_width(t, report) <= t.limit; });
}

std::vector<sim::ReachedPrecision> reached(const Precision& precision,
                                           const sim::SimReport& report) {
  std::vector<sim::ReachedPrecision> all;
  for (const SloTarget& target : precision.targets) {
    all.push_back({target.metric, target.limit, relative_width(target, report)});
  }
  return all;
}

}  // namespace rubato::planning
