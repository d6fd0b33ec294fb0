// SPDX-License-Identifier: Apache-2.0
//
// The seed of a random test: RUBATO_SEED if it is set, else the test's own. Printed, so that a
// failure can be replayed. For tests, single-threaded.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace rubato::testing {

inline uint64_t test_seed(uint64_t own) {
  const char* given = std::getenv("RUBATO_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : own;
  std::printf("RUBATO_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace rubato::testing
