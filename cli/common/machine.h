// SPDX-License-Identifier: Apache-2.0
//
// The description of the machine in a report. Reads /proc and /sys; any thread.
#pragma once

#include <string>

#include "metrics/run_report.h"

namespace rubato::cli {

MachineInfo this_machine();

// The first line of a small file without its end, or "" when it cannot be read.
std::string first_line(const std::string& path);

}  // namespace rubato::cli
