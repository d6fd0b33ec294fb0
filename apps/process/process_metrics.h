// SPDX-License-Identifier: Apache-2.0
//
// The metrics that every process has, by the names that Prometheus' own libraries give them, and
// rubato_build_info. Any thread.
#pragma once

#include <string>

#include "metrics/open_metrics.h"

namespace rubato {

void expose_process(OpenMetrics& out, const std::string& version);

}  // namespace rubato
