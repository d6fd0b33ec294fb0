// SPDX-License-Identifier: Apache-2.0
//
// The figures of a live runtime and its datapath: as OpenMetrics for the metrics port, and as name
// and value for status commands. Reads snapshots only; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/open_metrics.h"
#include "runtime/runtime.h"

namespace rubato {

struct ExposedTypes {
  // Name of a request type in the metrics.
  std::function<std::string(uint32_t)> name;
  uint32_t count = 0;
};

// The types that brief metrics have named: those that came first. A type keeps its place, so that
// no counter ever goes back; further ones are summed up as "other". For one thread at a time.
using NamedTypes = std::vector<uint32_t>;

// Appends the families of the runtime and the datapath, those per worker unless `out` is brief.
void expose(OpenMetrics& out, const Runtime& runtime, const Datapath& datapath,
            const ExposedTypes& types, NamedTypes& named);

// The counters of the runtime and the datapath by their names in the metrics, without rubato_ and
// _total.
std::vector<std::pair<std::string, uint64_t>> counter_values(const RuntimeStats& stats,
                                                             const DatapathStats& flows);

// The scheduler's state as name and value, names in snake case with their unit at the end. The
// policy's explanation of its plan comes last, as plan_1, plan_2, ...
std::vector<std::pair<std::string, std::string>> scheduler_lines(const Runtime& runtime,
                                                                 const ExposedTypes& types);

// The policy's explanation of its plan, a line per sentence.
std::string plan_text(const Runtime& runtime, const ExposedTypes& types);

}  // namespace rubato
