// SPDX-License-Identifier: Apache-2.0
//
// The overload of a live runtime, for its metrics: how long requests wait, whether the runtime
// refuses them, and how many it has refused for which reason. As OpenMetrics, and as name and value
// for status commands. Reads snapshots only; any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "metrics/open_metrics.h"
#include "runtime/runtime.h"

namespace rubato {

void expose_overload(OpenMetrics& out, const Runtime& runtime);

// Names in snake case with their unit at the end.
std::vector<std::pair<std::string, std::string>> overload_lines(const Runtime& runtime);

}  // namespace rubato
