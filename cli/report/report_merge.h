// SPDX-License-Identifier: Apache-2.0
//
// The merge of reports that differ in their seed: shards of one experiment that ran on several
// machines. Counts are sums, latencies and slowdowns those of the merged histograms, so exactly
// those of one run of all requests. Intervals are those between the reports, the verdict is the
// worst (cli/report/merged_run.h). Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "metrics/hdr_log.h"

namespace rubato::cli {

struct NamedText {
  std::string name, text;  // of a file
};

// Of files rubato.run/1, or of as many runs each (rubato.sweep/1, rubato.compare/1): one report for
// each run of a file, of the same schema. Fails with one line that names the file and what does not
// fit, as a seed that is there twice.
Result<nlohmann::ordered_json> merge_reports(const std::vector<NamedText>& files);

// Of HdrHistogram logs: one histogram for each tag, in the order in which tags come first.
// Fails likewise, also on a log that is empty or there twice.
Result<std::vector<HdrInterval>> merge_logs(const std::vector<NamedText>& files);

// The runs of a report that merge_reports() made.
std::vector<nlohmann::ordered_json> runs_of(const nlohmann::ordered_json& report);

}  // namespace rubato::cli
