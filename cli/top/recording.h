// SPDX-License-Identifier: Apache-2.0
//
// What servers told over time, as a file: an object in JSON a line,
//   {"at_s": since the first, "server": "HOST:PORT", "state": that of /state}
// with "trouble": TEXT for "state" where a server told nothing. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rubato::cli {

struct Observation {
  double at_s = 0;
  std::string server;
  std::string state;    // in JSON; empty = there is trouble instead
  std::string trouble;
};

// The line, with its end. Requires a state that parses, or none.
std::string recorded(const Observation& observation);

// Fails with one line that names the line of the file. Its last line may be cut off, as a recorder
// that is killed leaves it.
Result<std::vector<Observation>> parse_recording(std::string_view text);

}  // namespace rubato::cli
