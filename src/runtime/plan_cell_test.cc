// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_cell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "mechanism/queue/testing/model.h"

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

TEST(PlanCell, the_same_plan_again_is_no_news) {
  PlanCell<WidePlan> cell;
  WidePlan plan;
  uint32_t seen = 0;
  cell.publish({});
  EXPECT_TRUE(cell.refresh(plan, seen));  // the first one always is
  for (const uint64_t third : {0u, 4u, 4u, 0u}) {
    const bool news = third != plan.c;
    cell.publish({0, 0, third});
    EXPECT_EQ(cell.refresh(plan, seen), news);
    EXPECT_EQ(plan.c, third);
  }
}

// Two plans are published beside a reader, under the model checker. Forbidden outcomes: parts of
// two plans, or an older plan after a newer one.
template <model::Weaken kWeaken>
model::Report refreshing_beside_the_writer() {
  return model::explore(model::within(3, 3), [](model::Execution& run) {
    auto cell = std::make_shared<PlanCell<WidePlan, model::Sync<kWeaken>>>();
    run.thread([cell] {
      cell->publish({1, 2, 3});
      cell->publish({2, 4, 6});
    });
    run.thread([cell, &run] {
      uint32_t seen = 0;
      uint64_t last = 0;
      for (int look = 0; look < 2; ++look) {
        WidePlan plan;
        if (!cell->refresh(plan, seen)) continue;
        run.expect(plan.b == 2 * plan.a && plan.c == 3 * plan.a, "parts of two plans");
        run.expect(plan.a > last, "an older plan");
        last = plan.a;
      }
    });
  });
}

TEST(PlanCell, no_stale_value_makes_half_a_plan) {
  const model::Report report = refreshing_beside_the_writer<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 20u);
}

TEST(PlanCell, half_a_plan_would_be_seen_without_acquire_or_release) {
  constexpr model::Weaken kLoads{.loads = true};
  constexpr model::Weaken kStores{.stores = true};
  EXPECT_NE(refreshing_beside_the_writer<kLoads>().failure, "");
  EXPECT_NE(refreshing_beside_the_writer<kStores>().failure, "");
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
