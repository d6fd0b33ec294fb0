// SPDX-License-Identifier: Apache-2.0
//
// The memory of this process as the kernel accounts for it (proc(5), statm). Any thread; reads a
// file, so not for hot paths.
#pragma once

#include <cstdint>

namespace rubato {

// Both 0 where /proc is not mounted.
struct ProcessMemory {
  uint64_t virtual_bytes = 0;
  uint64_t resident_bytes = 0;
};

ProcessMemory process_memory();

}  // namespace rubato
