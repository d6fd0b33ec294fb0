// SPDX-License-Identifier: Apache-2.0
#include "runtime/slice_clock.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rubato {
namespace {

constexpr Instant kStart(1'000'000);

int32_t budget() { return *checkpoint_budget_address(); }

TEST(SliceClock, first_checkpoint_of_a_slice_looks_at_the_clock) {
  SliceClock slice(SliceWatch::kSelf);
  slice.start(kStart, Nanos::micros(10), Job(), Nanos());
  EXPECT_EQ(budget(), 0);
  slice.stop();
}

TEST(SliceClock, stride_grows_with_the_density_of_checkpoints_and_ends_with_the_slice) {
  SliceClock slice(SliceWatch::kSelf);
  slice.start(kStart, Nanos::micros(10), Job(), Nanos());
  EXPECT_FALSE(slice.over(kStart + Nanos(10)));  // one checkpoint per 10 ns
  EXPECT_GT(budget(), 50);
  EXPECT_LE(budget(), 200);  // at most 2 us ahead
  EXPECT_TRUE(slice.over(kStart + Nanos::micros(10)));
  slice.stop();
}

TEST(SliceClock, looks_come_closer_as_the_end_nears) {
  SliceClock slice(SliceWatch::kSelf);
  slice.start(kStart, Nanos::micros(10), Job(), Nanos());
  EXPECT_FALSE(slice.over(kStart + Nanos(100)));
  const int32_t early = budget();
  const int64_t passed = 100 * (early + 1);
  EXPECT_FALSE(slice.over(kStart + Nanos(100 + passed)));
  EXPECT_FALSE(slice.over(kStart + Nanos(9'800)));
  EXPECT_LT(budget(), early);
  slice.stop();
}

TEST(SliceClock, few_looks_see_the_end_soon) {
  constexpr int64_t kCheckpoint = 50;
  SliceClock slice(SliceWatch::kSelf);
  slice.start(kStart, Nanos::micros(10), Job(), Nanos());
  Instant at = kStart;
  int looks = 0;
  do {
    at = at + Nanos(kCheckpoint * (budget() + 1));
    ++looks;
  } while (!slice.over(at));
  EXPECT_LE(looks, 8);
  EXPECT_LE(at - slice.end(), Nanos(kCheckpoint));
  slice.stop();
}

// Checkpoints may grow dearer at any point: the end is late by no more at the last one, which is
// looked at from afar, than it may be earlier.
TEST(SliceClock, end_of_a_slice_is_as_late_as_dearer_checkpoints_in_it) {
  constexpr int64_t kCheckpoint = 50, kDearer = 8;
  Nanos latest[2];
  for (int64_t cheap_for = 100; cheap_for < 10'000; cheap_for += 50) {
    SliceClock slice(SliceWatch::kSelf);
    slice.start(kStart, Nanos::micros(10), Job(), Nanos());
    Instant at = kStart;
    do {
      for (int32_t passed = budget() + 1; passed > 0; --passed) {
        const bool cheap = at < kStart + Nanos(cheap_for);
        at = at + Nanos(cheap ? kCheckpoint : kCheckpoint * kDearer);
      }
    } while (!slice.over(at));
    const bool near = cheap_for >= 9000;
    latest[near] = std::max(latest[near], at - slice.end());
    slice.stop();
  }
  EXPECT_LE(latest[1], latest[0]);
}

TEST(SliceClock, slice_without_end_is_looked_at_rarely) {
  SliceClock slice(SliceWatch::kSelf);
  slice.start(kStart, Nanos::max(), Job(), Nanos());
  const int32_t first = budget();
  EXPECT_FALSE(slice.over(kStart + Nanos(10) * (first + 1)));  // one checkpoint per 10 ns
  EXPECT_EQ(budget(), 1024);
  EXPECT_FALSE(slice.over(kStart + Nanos::seconds(1)));
  EXPECT_LT(budget(), 10) << "of checkpoints that are far between none are skipped";
  slice.stop();
}

TEST(SliceClock, stopped_slice_never_looks) {
  SliceClock slice(SliceWatch::kSelf);
  slice.start(kStart, Nanos::micros(1), Job(), Nanos());
  slice.stop();
  EXPECT_EQ(budget(), kCheckpointNever);
}

TEST(SliceClock, timer_core_is_told_of_the_slice_and_its_request_is_honoured) {
  SliceClock slice(SliceWatch::kTimerCore);
  slice.attach();
  Job job;
  job.priority = 3;
  slice.start(kStart, Nanos::micros(10), job, Nanos());
  TimerSlot& slot = slice.slot();
  EXPECT_EQ(slot.deadline_ns.load(), (kStart + Nanos::micros(10)).ns());
  EXPECT_EQ(slot.job.load(kStart), job);
  EXPECT_FALSE(slice.over(kStart));
  slot.asked.store(slot.armed.load());
  checkpoint_expire(slot.budget.load());
  EXPECT_EQ(budget(), 0);
  EXPECT_TRUE(slice.over(kStart));
  slice.stop();
}

// Imitates a decrement under way that overwrites the timer core's store.
TEST(SliceClock, request_is_seen_soon_though_its_store_to_the_budget_is_lost) {
  SliceClock slice(SliceWatch::kTimerCore);
  slice.attach();
  slice.start(kStart, Nanos::micros(10), Job(), Nanos());
  for (int looks = 0; looks < 3; ++looks) {
    EXPECT_LE(budget(), 64);
    EXPECT_FALSE(slice.over(kStart));
  }
  slice.slot().asked.store(slice.slot().armed.load());
  EXPECT_LE(budget(), 64);
  EXPECT_TRUE(slice.over(kStart));
  slice.stop();
}

TEST(SliceClock, request_for_a_slice_that_has_ended_is_ignored) {
  SliceClock slice(SliceWatch::kTimerCore);
  slice.attach();
  slice.start(kStart, Nanos::micros(10), Job(), Nanos());
  const uint64_t first = slice.slot().armed.load();
  slice.start(kStart, Nanos::micros(10), Job(), Nanos());
  slice.slot().asked.store(first);
  EXPECT_FALSE(slice.over(kStart));
  slice.stop();
  EXPECT_FALSE(slice.over(kStart));
}

TEST(SliceClock, interrupted_slice_is_taken_once) {
  SliceClock slice(SliceWatch::kInterrupts);
  slice.start(kStart, Nanos::micros(10), Job(), Nanos());
  PreemptState& state = slice.slot().state;
  EXPECT_EQ(slice.slot().deadline_ns.load(), (kStart + Nanos::micros(10)).ns());
  EXPECT_FALSE(slice.over(kStart + Nanos::micros(20)));
  EXPECT_TRUE(state.request(state.look()));
  EXPECT_TRUE(slice.over(kStart));
  EXPECT_FALSE(slice.over(kStart));
  slice.stop();
  EXPECT_EQ(state.look().phase(), PreemptPhase::kIdle);
}

TEST(SliceClock, slice_that_nobody_watches_has_no_end) {
  SliceClock slice(SliceWatch::kNobody);
  slice.start(kStart, Nanos::micros(10), Job(), Nanos());
  EXPECT_EQ(slice.end(), Instant::never());
  EXPECT_FALSE(slice.over(kStart + Nanos::seconds(1)));
}

}  // namespace
}  // namespace rubato
