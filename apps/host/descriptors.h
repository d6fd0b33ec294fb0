// SPDX-License-Identifier: Apache-2.0
//
// The files that this process may have open at once, of which each connection is one. For main's
// thread, before clients are welcome.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"

namespace rubato {

// Lets the process have as many as the system allows it; returns how many.
uint64_t raise_descriptor_limit();

// That it has open now.
uint64_t open_descriptors();

struct ConnectionLimit {
  uint32_t wanted = 0;    // connections that were asked for; 0 = connections are no files here
  uint64_t kept = 0;      // files beyond those open now that the server needs while it runs
  std::function<void(uint32_t most)> report;  // is called with how many there can be
};

// Finds out how many connections the system allows; a line on standard error says if those are
// fewer than were asked for. Fails with one line if there can be none.
Status fit_connections(const ConnectionLimit& limit);

}  // namespace rubato
