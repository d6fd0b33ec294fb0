// SPDX-License-Identifier: Apache-2.0
//
// A whole histogram in JSON, so that the reports of several runs, on whatever machines, can be
// merged exactly and any percentile read from the sum:
//   {"layout": "log-linear-64-8", "sum": s, "min": a, "max": b, "overflow": n,
//    "counts": "BUCKET:COUNT BUCKET:COUNT ..."}
// Values are nanoseconds, or thousandths of a slowdown. Bucket i is that of metrics/buckets.h.
// Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "metrics/histogram.h"

namespace rubato {

nlohmann::ordered_json histogram_json(const Histogram& histogram);

// Fails with one line that says what does not fit.
Result<Histogram> parse_histogram(const nlohmann::ordered_json& json);

}  // namespace rubato
