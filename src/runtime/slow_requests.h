// SPDX-License-Identifier: Apache-2.0
//
// Slow requests in the log. For Application::slow; any thread, takes no lock.
#pragma once

#include <string_view>

#include "runtime/app.h"

namespace rubato {

// Writes a line about a request of that type. `blocker` is the type that held it up, if any did.
void log_slow_request(std::string_view type, const Completion& times, std::string_view blocker);

}  // namespace rubato
