// SPDX-License-Identifier: Apache-2.0
//
// The number of the worker that the calling thread is, for data that is kept per worker; 0 on
// every other thread. A fiber may be on another worker after each switch, so the number is a hint
// where to write without disturbing others, and nothing may depend on its being right. The runtime
// sets it.
#pragma once

#include <cstdint>

namespace rubato {

uint32_t this_worker();
void set_this_worker(uint32_t worker);

}  // namespace rubato
