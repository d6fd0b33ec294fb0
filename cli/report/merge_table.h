// SPDX-License-Identifier: Apache-2.0
//
// Merged reports and logs as the tables of `rubato report merge`. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "metrics/hdr_log.h"

namespace rubato::cli {

// The histograms of a report that merge_reports() made, or of one of its runs, tagged by type.
std::vector<HdrInterval> histograms_in(const nlohmann::ordered_json& run);

// Of such a run: its load and seeds, latencies with their intervals, and the verdict.
std::string merged_table(const nlohmann::ordered_json& run);

std::string log_table(const std::vector<HdrInterval>& log);

}  // namespace rubato::cli
