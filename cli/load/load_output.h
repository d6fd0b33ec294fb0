// SPDX-License-Identifier: Apache-2.0
//
// The output of `rubato load`. One thread.
#pragma once

#include <string>

#include "base/result.h"
#include "load/recorder.h"
#include "metrics/run_report.h"

namespace rubato::cli {

// The table for people.
std::string report_table(const RunReport& report);

// The percentile distribution in HdrHistogram's text format, values in microseconds.
std::string hdr_text(const Histogram& latency);

// Prints the table (on stderr when the JSON goes to stdout) and writes the files whose names are
// not empty. Fails with one line naming the file that cannot be written.
Status write_outputs(const RunReport& report, const load::Recorder& recorder,
                     const std::string& json_file, const std::string& hdr_file);

}  // namespace rubato::cli
