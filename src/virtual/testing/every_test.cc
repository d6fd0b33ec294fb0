// SPDX-License-Identifier: Apache-2.0
//
// The main function of test programs whose tests are of code on real threads and sockets:
// here each test runs in virtual time, once per seed, with stalls and late wake-ups.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/prng.h"
#include "policy/testing/seed.h"
#include "virtual/world.h"

namespace {

// The network has no faults and much room: the tests count what arrives, and say what is cut.
rubato::virt::WorldOptions world(uint64_t seed) {
  rubato::Prng prng(seed);
  rubato::virt::WorldOptions options;
  options.seed = seed;
  options.stall_one_in = prng.below(2) == 0 ? 0 : 2000;
  options.stall_most = rubato::Nanos::millis(1);
  options.late_wake_up_one_in = prng.below(2) == 0 ? 0 : 8;
  options.window = size_t{4} << 20;
  options.overtaking = false;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  const rubato::testing::Seeds seeds = rubato::testing::test_seeds(20);
  for (uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    const bool passed = rubato::virt::apart([seed] {
      int result = 1;
      rubato::virt::run(world(seed), [&] { result = RUN_ALL_TESTS(); });
      return result == 0;
    });
    if (passed) continue;
    std::printf("failed with RUBATO_SEED=%llu\n", static_cast<unsigned long long>(seed));
    return 1;
  }
  return 0;
}
