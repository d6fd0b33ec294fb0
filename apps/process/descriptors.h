// SPDX-License-Identifier: Apache-2.0
//
// The files that this process may have open at once; each connection is one. For main's thread,
// before clients are welcome.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"

namespace rubato {

// Raises the limit on open files to the most that the system allows; returns that number.
uint64_t raise_descriptor_limit();

// The number of files that are open now.
uint64_t open_descriptors();

struct ConnectionLimit {
  uint32_t wanted = 0;    // requested number of connections; 0 = connections are no files here
  uint64_t kept = 0;      // files beyond those open now that the server needs while it runs
  std::function<void(uint32_t most)> report;  // is called with the possible number of connections
};

// Finds out how many connections the system allows, and writes a line to the log if they are fewer
// than requested. Fails with one line if the system allows none.
Status fit_connections(const ConnectionLimit& limit);

}  // namespace rubato
