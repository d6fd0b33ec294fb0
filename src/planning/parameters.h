// SPDX-License-Identifier: Apache-2.0
//
// What can be tried of a policy's options: a logarithmic grid over the times of the workload, or
// around a default that is no time. Pure functions over the list of all policies; for set-up, safe
// on every thread.
#pragma once

#include <string>
#include <vector>

#include "sim/setup.h"
#include "sim/simulation.h"

namespace rubato::planning {

struct Parameter {
  std::string name;
  std::string default_value;              // the default, as --set would have it
  // Values that --set takes, without the default; those of times and numbers rise, each about twice
  // the one before.
  std::vector<std::string> alternatives;
};

// The times that are worth trying.
struct TimeRange {
  Nanos least, most;
};

// From a quarter of the shortest service to four times the longest; no less than what it takes to
// preempt a request on that machine.
TimeRange times_of(const sim::Setup& setup);

// Times are tried over `range`, also those that are 0 unless asked for, and around their default;
// numbers from an eighth to eight times the default, flags the other way. Numbers that are 0 unless
// asked for (off, or found by the policy itself) have no scale and are left out.
std::vector<Parameter> parameters_of(const std::string& policy, const TimeRange& range);

// Where the search for a policy begins: at its defaults, but for a quantum below `range`, which is
// not tried.
sim::Settings start_of(const std::string& policy, const TimeRange& range);

// `settings` with that option at that value; the default is left out.
sim::Settings with_parameter(sim::Settings settings, const Parameter& parameter,
                             const std::string& value);

// Its value in `settings`.
const std::string& value_of(const sim::Settings& settings, const Parameter& parameter);

}  // namespace rubato::planning
