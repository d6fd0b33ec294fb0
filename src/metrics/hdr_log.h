// SPDX-License-Identifier: Apache-2.0
//
// HdrHistogram logs: the histograms of a run as the tools around Tene's HdrHistogram read and write
// them (version 1.3 of the log, V2 of the histograms, deflated, in base64), so that other programs
// can plot and merge them, and theirs can be read here.
//
// Values are nanoseconds, within 0.8 % (two significant digits; from 17 s on 6 %). What a log says
// of finer digits is read into our buckets (metrics/buckets.h). Pure functions of texts.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "metrics/histogram.h"

namespace rubato {

struct HdrInterval {
  std::string tag;      // "" = none; without commas, blanks and line ends
  double start_s = 0;   // since the start of the log
  double length_s = 0;
  Histogram histogram;
};

// The whole log. Characters that a tag may not have become '_'.
std::string hdr_log(const std::vector<HdrInterval>& intervals);

// Its intervals. Comments, and lines of the legend, are skipped. Fails with one line that names the
// line and what is wrong with it.
Result<std::vector<HdrInterval>> parse_hdr_log(std::string_view text);

}  // namespace rubato
