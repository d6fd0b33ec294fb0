// SPDX-License-Identifier: Apache-2.0
#include "mechanism/cpu/process_memory.h"

#include <unistd.h>

#include <fstream>

namespace rubato {

ProcessMemory process_memory() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  uint64_t resident = 0;
  file >> pages >> resident;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return {pages * page, resident * page};
}

}  // namespace rubato
