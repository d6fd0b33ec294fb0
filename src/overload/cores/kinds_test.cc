// SPDX-License-Identifier: Apache-2.0
#include "overload/cores/kinds.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace rubato::overload {
namespace {

// Workers of two kinds, none of which has a core at first.
class CoreKindsTest : public ::testing::Test {
 protected:
  CoreKinds now() const {
    CoreKinds kinds;
    for (uint32_t kind = 0; kind < 2; ++kind) {
      for (uint32_t i = 0; i < workers[kind]; ++i) kinds.count(kind, i < cores[kind]);
    }
    return kinds;
  }
  void grant() { ++cores[now().is_due_before(1, 0) ? 1 : 0]; }
  void release() { --cores[now().was_due_after(1, 0) ? 1 : 0]; }

  std::vector<uint32_t> workers{4, 8};
  std::vector<uint32_t> cores{0, 0};
};

using Cores = std::vector<uint32_t>;

TEST_F(CoreKindsTest, each_has_a_core_before_one_has_two) {
  workers = {1, 200};
  grant();
  EXPECT_EQ(cores, (Cores{1, 0}));
  grant();
  EXPECT_EQ(cores, (Cores{1, 1}));
  grant();
  EXPECT_EQ(cores, (Cores{1, 2}));
}

TEST_F(CoreKindsTest, they_have_cores_as_they_have_workers) {
  for (int i = 0; i < 6; ++i) grant();
  EXPECT_EQ(cores, (Cores{2, 4}));
  for (int i = 0; i < 6; ++i) grant();
  EXPECT_EQ(cores, workers);
}

TEST_F(CoreKindsTest, the_core_that_came_last_goes_first) {
  workers = {3, 8};  // never due alike
  std::vector<Cores> before;
  for (int i = 0; i < 11; ++i) {
    before.push_back(cores);
    grant();
  }
  for (; cores != Cores{1, 1}; before.pop_back()) {
    release();
    EXPECT_EQ(cores, before.back());
  }
}

}  // namespace
}  // namespace rubato::overload
