// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_cell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace rubato {
namespace {

struct WidePlan {
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t c = 0;
};

TEST(PlanCell, refresh_copies_a_published_plan_once) {
  PlanCell<WidePlan> cell;
  WidePlan plan;
  uint32_t seen = 0;
  EXPECT_FALSE(cell.refresh(plan, seen));
  cell.publish({1, 2, 3});
  ASSERT_TRUE(cell.refresh(plan, seen));
  EXPECT_EQ(plan.a + plan.b + plan.c, 6u);
  EXPECT_FALSE(cell.refresh(plan, seen));
}

TEST(PlanCell, readers_never_see_half_a_plan) {
  PlanCell<WidePlan> cell;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint64_t i = 1; i <= 200'000; ++i) cell.publish({i, 2 * i, 3 * i});
    done.store(true);
  });
  WidePlan plan;
  uint32_t seen = 0;
  uint64_t last = 0;
  while (!done.load()) {
    if (!cell.refresh(plan, seen)) continue;
    ASSERT_EQ(plan.b, 2 * plan.a);
    ASSERT_EQ(plan.c, 3 * plan.a);
    ASSERT_GE(plan.a, last);
    last = plan.a;
  }
  writer.join();
}

}  // namespace
}  // namespace rubato
