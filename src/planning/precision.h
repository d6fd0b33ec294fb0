// SPDX-License-Identifier: Apache-2.0
//
// Precision: how well some figures of a run are to be known before it ends, as `--until
// METRIC=SHARE,...` has it. A plain value; pure functions, safe on every thread.
//
// METRIC is one of --slo (planning/slo.h), refused among them, or p99 for p99_latency. SHARE, as 5%
// or 0.05, is half of the figure's interval of 95 % confidence over the figure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "planning/slo.h"
#include "sim/report.h"

namespace rubato::planning {

struct Precision {
  std::vector<SloTarget> targets;  // the limit is the share

  bool given() const { return !targets.empty(); }
};

inline constexpr double kDefaultPrecision = 0.05;

// Adds what `text` asks for. Fails with one line; `precision` may then hold a part of it.
Status parse_precision(const std::string& text, Precision& precision);

// The figures of the SLO, or else the p99 of all latencies, with the default precision.
Precision precision_for(const Slo& slo);

// Whether a run has told enough, asked with its reports so far. One that is steady and precise has
// if it was so the last time too, for a run that ends at the first time ends too often where chance
// made it look good, and not before kLeastRequests, where that is worst. One that is overloaded for
// good has at once: it never comes to an end. Requires targets of types that the reports have.
class Sufficiency {
 public:
  static constexpr uint64_t kLeastRequests = 450'000;

  explicit Sufficiency(const Precision& precision) : precision_(precision) {}  // outlives this
  bool reached_by(const sim::SimReport& report);

 private:
  bool is_precise(const sim::SimReport& report) const;

  const Precision& precision_;
  bool was_precise_ = false;
};

// What came of each target, for the report.
std::vector<sim::ReachedPrecision> reached(const Precision& precision,
                                           const sim::SimReport& report);

}  // namespace rubato::planning
