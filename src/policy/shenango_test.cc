// SPDX-License-Identifier: Apache-2.0
#include "policy/shenango.h"

#include <gtest/gtest.h>

#include "policy/testing/arrivals.h"
#include "policy/testing/drive.h"
#include "policy/testing/seed.h"

namespace rubato {
namespace {

TEST(Shenango, decides_in_every_respect_as_steal) {
  const uint64_t seed = testing::test_seed(41);
  const auto arrivals = testing::make_arrivals(seed, {.load = 0.8});
  const testing::DriveOptions options{.seed = seed};
  EXPECT_EQ(testing::drive<Shenango>({}, arrivals, options),
            testing::drive<Steal>({}, arrivals, options));
}

}  // namespace
}  // namespace rubato
