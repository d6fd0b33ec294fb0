// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/code_ranges.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

using model::Execution;
using model::Weaken;

constexpr CodeKind kSafe = CodeKind::kSafe;
constexpr CodeKind kUnsafe = CodeKind::kUnsafe;
constexpr CodeKind kUnknown = CodeKind::kUnknown;

TEST(CodeRanges, without_ranges_everything_is_unknown) {
  const CodeRanges<4> ranges;
  EXPECT_EQ(ranges.find(0), kUnknown);
  EXPECT_EQ(ranges.find(~uint64_t{0}), kUnknown);
}

TEST(CodeRanges, a_range_holds_its_first_address_and_not_the_one_behind) {
  CodeRanges<4> ranges;
  const std::vector<CodeRange> all = {{10, 20, kUnsafe}, {20, 30, kSafe}, {40, 50, kUnsafe}};
  EXPECT_EQ(ranges.publish(all), 3u);
  EXPECT_EQ(ranges.find(9), kUnknown);
  EXPECT_EQ(ranges.find(10), kUnsafe);
  EXPECT_EQ(ranges.find(19), kUnsafe);
  EXPECT_EQ(ranges.find(20), kSafe);
  EXPECT_EQ(ranges.find(30), kUnknown);
  EXPECT_EQ(ranges.find(49), kUnsafe);
  EXPECT_EQ(ranges.find(50), kUnknown);
}

TEST(CodeRanges, what_does_not_fit_is_unknown) {
  CodeRanges<2> ranges;
  const std::vector<CodeRange> all = {{10, 20, kSafe}, {20, 30, kSafe}, {30, 40, kSafe}};
  EXPECT_EQ(ranges.publish(all), 2u);
  EXPECT_EQ(ranges.find(25), kSafe);
  EXPECT_EQ(ranges.find(35), kUnknown);
}

TEST(CodeRanges, fewer_ranges_replace_more) {
  CodeRanges<4> ranges;
  ranges.publish(std::vector<CodeRange>{{10, 20, kSafe}, {20, 30, kSafe}});
  ranges.publish(std::vector<CodeRange>{{10, 20, kSafe}});
  EXPECT_EQ(ranges.find(25), kUnknown);
}

// 13 is in no range before, nor after; half a change would put it into a safe one.
const std::vector<CodeRange> kBefore = {{10, 12, kSafe}};
const std::vector<CodeRange> kAfter = {{14, 20, kSafe}};

TEST(CodeRanges, readers_never_see_half_a_change) {
  auto ranges = std::make_unique<CodeRanges<4>>();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> torn{0};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) torn += ranges->find(13) != kUnknown ? 1 : 0;
  });
  for (int i = 0; i < 200'000; ++i) ranges->publish(i % 2 == 0 ? kBefore : kAfter);
  stop.store(true, std::memory_order_relaxed);
  reader.join();
  EXPECT_EQ(torn.load(), 0u);
}

// One thread publishes a change while the other looks up, in every order and with every stale
// value.
template <Weaken kWeaken>
model::Report change_while_reading() {
  using Ranges = CodeRanges<1, model::Sync<kWeaken>>;
  return model::explore({3, 3}, [](Execution& run) {
    auto ranges = std::make_shared<Ranges>();
    ranges->publish(kBefore);
    run.thread([ranges] { ranges->publish(kAfter); });
    run.thread([ranges, &run] {
      run.expect(ranges->find(13) == kUnknown, "half a change");
      run.expect(ranges->find(11) != kUnsafe, "a range that never was");
    });
    run.finally([ranges, &run] { run.expect(ranges->find(15) == kSafe, "the change is lost"); });
  });
}

TEST(CodeRanges, no_interleaving_shows_half_a_change) {
  const model::Report report = change_while_reading<Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 100u);
}

TEST(CodeRanges, the_checker_would_notice_if_the_orderings_were_dropped) {
  EXPECT_NE(change_while_reading<(Weaken{true, false, false})>().failure, "");
  EXPECT_NE(change_while_reading<(Weaken{false, true, false})>().failure, "");
}

}  // namespace
}  // namespace rubato
