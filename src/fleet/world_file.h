// SPDX-License-Identifier: Apache-2.0
//
// World files: a WorldSpec as TOML, which docs/FLEET.md explains key by key: keys for the run,
// [[servers]] and [[clients]]. Times are texts with a unit ("20ms") or, bare, seconds.
//
// Set-up only, any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fleet/world_spec.h"

namespace rubato::fleet {

// What a world file names beside itself; the caller knows files.
struct WorldParts {
  std::function<Result<sim::Costs>(const std::string& name)> costs;
  // Fills mixes, and arrivals and rate if it is a recording.
  std::function<Status(const std::string& name, WorkloadSpec& workload)> workload;
};

// Built-in costs, and workloads that are no file: what a text alone can mean.
WorldParts parts_without_files();

// Fails with "FILE:LINE: ..." on what is not TOML, on unknown keys and wrong values, and with
// "FILE: ..." on what does not fit together.
Result<WorldSpec> parse_world(std::string_view text, std::string_view file,
                              const WorldParts& parts);

}  // namespace rubato::fleet
