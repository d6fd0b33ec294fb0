// SPDX-License-Identifier: Apache-2.0
//
// A program with everything linked in: there is no map of its code. Exits with 0 if code_map_build
// says so.
#include <cstdio>

#include "mechanism/preempt/code_map.h"

int main() {
  const rubato::Status built = rubato::code_map_build();
  if (built.ok()) return 1;
  puts(built.error().c_str());
  return built.error().find("linked into the program") != std::string::npos ? 0 : 2;
}
