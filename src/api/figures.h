// SPDX-License-Identifier: Apache-2.0
//
// The figures of a runtime as the C interface has them. Plain functions; any thread.
#pragma once

#include <rubato/rubato.h>

#include "metrics/histogram.h"
#include "runtime/runtime.h"

namespace rubato::api {

rubato_times times_of(const Histogram& values);
// What the runtime itself counts; the rest is 0.
rubato_stats stats_of(const Runtime& runtime);

}  // namespace rubato::api
