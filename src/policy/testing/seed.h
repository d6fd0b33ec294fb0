// SPDX-License-Identifier: Apache-2.0
//
// The seeds of random tests, printed so that a failure can be replayed. RUBATO_SEED is the seed to
// run, RUBATO_SEEDS how many of them a test runs that runs many. For tests, single-threaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace rubato::testing {

// The seed of a test that has one: RUBATO_SEED if it is set, else the test's own.
inline uint64_t test_seed(uint64_t own) {
  const char* given = std::getenv("RUBATO_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : own;
  std::printf("RUBATO_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

struct Seeds {
  uint64_t first = 1;
  uint64_t count = 1;
  uint64_t end() const { return first + count; }
};

// The seeds of a test that runs many. `own` of them if nothing is set; RUBATO_SEEDS of them if that
// is, or one in `one_in`, where a run takes long; and RUBATO_SEED alone is the one to replay.
inline Seeds test_seeds(uint64_t own, uint64_t one_in = 1) {
  const char* seed = std::getenv("RUBATO_SEED");
  const char* count = std::getenv("RUBATO_SEEDS");
  Seeds seeds{.first = 1, .count = own};
  if (seed != nullptr) seeds = {.first = std::strtoull(seed, nullptr, 0), .count = 1};
  if (count != nullptr) {
    seeds.count = std::max<uint64_t>(1, std::strtoull(count, nullptr, 0) / one_in);
  }
  return seeds;
}

}  // namespace rubato::testing
