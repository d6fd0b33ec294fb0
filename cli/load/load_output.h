// SPDX-License-Identifier: Apache-2.0
//
// The output of `rubato load`. One thread.
#pragma once

#include <string>

#include "base/result.h"
#include "metrics/run_report.h"

namespace rubato::cli {

// The table for people.
std::string report_table(const RunReport& report);

// Prints the table (on stderr when a file is "-", stdout) and writes the files whose names are not
// empty: the report, and an HdrHistogram log with a tag for each type. Fails with one line naming
// the file that cannot be written.
Status write_outputs(const RunReport& report, const std::string& json_file,
                     const std::string& hdr_file);

// The same of a closed loop and of the open one at its rate, with what the closed one hid. The JSON
// is a rubato.sweep/1 of both; the HdrHistogram log is that of the open loop.
Status write_difference(const RunReport& closed, const RunReport& open,
                        const std::string& json_file, const std::string& hdr_file);

}  // namespace rubato::cli
