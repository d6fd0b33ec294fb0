// SPDX-License-Identifier: Apache-2.0
//
// Runs of one experiment that differ in their seed as one report, which keeps what each of them
// said, its parts: so that it has the worst verdict, intervals from the differences between parts,
// and takes no run twice, also when it is merged again. A pure function.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace rubato::cli {

struct NamedRun {
  const nlohmann::ordered_json* run;  // a report rubato.run/1, with a list of types
  std::string file;                   // that it is from
};

// A report of the same schema, with "merged", the number of parts, and "parts"; of a report that
// was merged these are its parts. Requires a run. Fails with one line that names the file, and the
// other one if the run does not go with that.
Result<nlohmann::ordered_json> merge_runs(const std::vector<NamedRun>& runs);

}  // namespace rubato::cli
