// SPDX-License-Identifier: Apache-2.0
//
// each_seed: runs a test with every seed that the environment asks for (policy/testing/seed.h),
// each in a process of its own, up to the first that fails. Of that one a trace is written.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/prng.h"
#include "policy/testing/seed.h"
#include "virtual/world.h"

namespace rubato::virt::testing {

inline std::string trace_path(uint64_t seed) {
  const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = "rubato_" + std::string(test.test_suite_name()) + "_" + test.name() + "_" +
                     std::to_string(seed) + ".json";
  std::replace(name.begin(), name.end(), '/', '_');
  return std::filesystem::temp_directory_path() / name;
}

// What a seed draws for the policy of that name. Another one's setting is another one, so that as
// many more are tried as there are policies.
inline Prng prng_of(uint64_t seed, std::string_view policy) {
  for (const char letter : policy) seed = SplitMix64(seed ^ static_cast<uint8_t>(letter)).next();
  return Prng(seed);
}

// `body` gets the seed.
template <class Body>
void each_seed(uint64_t runs, Body&& body) {
  const rubato::testing::Seeds seeds = rubato::testing::test_seeds(runs);
  for (uint64_t seed = seeds.first; seed < seeds.end() && !::testing::Test::HasFailure(); ++seed) {
    const auto good = [&] {
      body(seed);
      return !::testing::Test::HasFailure();
    };
    EXPECT_TRUE(apart(good, trace_path(seed))) << "seed " << seed;
  }
}

}  // namespace rubato::virt::testing
