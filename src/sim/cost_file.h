// SPDX-License-Identifier: Apache-2.0
//
// Cost files: a machine for the simulator (sim/costs.h) as TOML. Sections [machine] [nic] [worker]
// [manager] [noc] [preemption], and [world] for virtual time; keys as the fields are called.
// Lengths of time are texts with a unit ("850ns", "1.2us"); a price is one of these, or a pair: the
// median and the 99.9th percentile. An operation that a file leaves out costs nothing; but [world]
// has all of its keys, or is left out. src/sim/costs/ holds the built-in files, whose comments say
// where each figure is from.
//
// Set-up only, any thread. Returned values are owned by the caller.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/costs.h"

namespace rubato::sim {

struct BuiltinCosts {
  std::string_view name;
  std::string_view text;  // the file
};

// The files that come with the library, sorted by name.
std::span<const BuiltinCosts> builtin_costs();

// Fails if a worker looks at its ring when its poll is over.
Status check_poll(const Costs::Worker& worker);

// Reads the text of a cost file. Fails with "FILE:LINE: ..." on what is not TOML, on unknown keys,
// wrong types, values out of range or that do not fit together, tails below their median, and keys
// of [world] that are missing.
Result<Costs> parse_costs(std::string_view text, std::string_view file);

// The built-in of that name, or else the file. Fails as parse_costs does, or with one line naming
// the built-ins when there is neither.
Result<Costs> load_costs(const std::string& name_or_file);

// Comments for to_toml: "" stands above everything, "SECTION.KEY" above that key. May hold several
// lines, without their '#'.
using CostNotes = std::map<std::string, std::string>;

// The file that parse_costs reads as `costs`, with every field in it.
std::string to_toml(const Costs& costs, const CostNotes& notes = {});

}  // namespace rubato::sim
