// SPDX-License-Identifier: Apache-2.0
//
// combine_reports: the reports of generators that drove one server at one time, as one report, for
// `rubato load --processes` and `--agents`. (`rubato report merge` is about runs one after another,
// whose rates do not add up.) Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "metrics/run_report.h"

namespace rubato::cli {

struct PartReport {
  std::string name;  // for messages
  std::string json;  // of `rubato load --json`
};

// Counts and rates are sums, latencies those of the merged histograms, the generators' own
// troubles (send lag, gaps) those of the worst. It is valid if every part is. What describes the
// run, such as its workload, is left to the caller. Fails with one line that names the part whose
// report is none or has other types. Requires a part.
Result<RunReport> combine_reports(const std::vector<PartReport>& parts);

}  // namespace rubato::cli
