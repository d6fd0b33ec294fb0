// SPDX-License-Identifier: Apache-2.0
//
// make_replay_source: the requests of a recorded trace (workload/request_trace.h), in its order,
// for the run whose arrivals are Arrivals::replay(arrival_times(...), rate).
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "load/request_source.h"
#include "workload/request_trace.h"

namespace rubato::load {

// When the requests of the trace came, in its order; 8 bytes each.
std::vector<Nanos> arrival_times(std::shared_ptr<const RequestTrace> trace);

// Requests of the trace's types in its order, again from the start when they are over; `source`
// makes each of them. A type of the trace is the one of the source that has its name, or its name
// and a number behind it (`range/1000` is range), in any case, else kOtherTypes. Fails with one
// line that names the type that the source lacks. Requires requests at different times.
Result<std::unique_ptr<RequestSource>> make_replay_source(
    std::shared_ptr<const RequestTrace> trace, std::unique_ptr<RequestSource> source);

}  // namespace rubato::load
