// SPDX-License-Identifier: Apache-2.0
//
// Recording in virtual time: the test is the clock and the workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/arrival_recorder.h"
#include "runtime/traffic_recorder.h"
#include "workload/source.h"

namespace rubato {
namespace {

constexpr Instant kStart{int64_t{5} << 40};
constexpr Nanos kSlot = ArrivalScales::kSlot;

class ArrivalRecording : public ::testing::Test {
 protected:
  explicit ArrivalRecording(Nanos length = Nanos::max()) {
    for (int i = 0; i < 2; ++i) slots_.push_back(std::make_unique<ArrivalSlots>());
    recorder_ = std::make_unique<ArrivalRecorder>(
        std::vector<ArrivalSlots*>{slots_[0].get(), slots_[1].get()}, kStart, length);
  }

  void note(size_t worker, Nanos at) { slots_[worker]->note(kStart + at); }
  void collect(Nanos at, bool all = false) { recorder_->collect(kStart + at, all); }
  // As often as the thread does.
  void collect_between(Nanos from, Nanos to) {
    for (Nanos at = from; at <= to; at += Nanos::millis(200)) collect(at);
  }

  std::vector<std::unique_ptr<ArrivalSlots>> slots_;
  std::unique_ptr<ArrivalRecorder> recorder_;
};

TEST_F(ArrivalRecording, sums_up_workers_and_leaves_out_the_quiet_before_and_after) {
  collect_between(Nanos(), Nanos::seconds(60));
  for (int i = 0; i <= 100; ++i) {
    note(static_cast<size_t>(i % 2), Nanos::seconds(60) + Nanos::millis(10) * i);
    if (i % 20 == 0) collect(Nanos::seconds(60) + Nanos::millis(10) * i);
  }
  collect_between(Nanos::seconds(61), Nanos::seconds(90));
  collect(Nanos::seconds(90), true);
  EXPECT_NEAR(recorder_->span_s(), 1, 1e-4);
  EXPECT_NEAR(recorder_->arrivals().rate_rps, 100, 0.01);
  EXPECT_EQ(recorder_->late() + recorder_->gaps(), 0u);
}

TEST_F(ArrivalRecording, a_pause_is_part_of_the_arrivals) {
  note(0, Nanos::millis(1));
  collect_between(Nanos(), Nanos::seconds(40));
  note(1, Nanos::seconds(40));
  collect(Nanos::seconds(40), true);
  EXPECT_NEAR(recorder_->span_s(), 39.999, 1e-3);
  EXPECT_NEAR(recorder_->arrivals().rate_rps, 1 / 39.999, 1e-5);
}

TEST_F(ArrivalRecording, without_two_slots_there_is_no_rate) {
  EXPECT_EQ(recorder_->arrivals().rate_rps, 0);
  note(0, Nanos());
  note(0, Nanos(1));
  collect(Nanos::seconds(1), true);
  EXPECT_TRUE(recorder_->begun());
  EXPECT_EQ(recorder_->arrivals().rate_rps, 0);
}

// Both are in the rate, but only one in the slots.
TEST_F(ArrivalRecording, what_is_noticed_too_late_is_counted_apart) {
  note(0, Nanos::millis(100));
  collect(Nanos::millis(500));
  note(1, Nanos::millis(100));
  note(1, Nanos::millis(600));
  collect(Nanos::seconds(1), true);
  EXPECT_EQ(recorder_->late(), 1u);
  EXPECT_NEAR(recorder_->arrivals().rate_rps, 2 / 0.5, 1e-3);
}

TEST_F(ArrivalRecording, counts_that_were_not_taken_in_time_are_a_gap_and_no_pause) {
  for (int i = 0; i < 300; ++i) {
    note(0, Nanos::millis(10) * i);
    if (i == 50 || i == 299) collect(Nanos::millis(10) * i);
  }
  collect(Nanos::seconds(3), true);
  EXPECT_EQ(recorder_->gaps(), 1u);
  EXPECT_NEAR(recorder_->arrivals().rate_rps, 100, 2);
}

class LimitedRecording : public ArrivalRecording {
 protected:
  LimitedRecording() : ArrivalRecording(Nanos::seconds(2)) {}
};

TEST_F(LimitedRecording, ends_its_length_after_the_first_request) {
  for (int i = 0; i < 1000; ++i) {
    note(0, Nanos::seconds(7) + Nanos::millis(i < 500 ? 10 : 1) * i);
    if (i % 10 == 0) collect(Nanos::seconds(7) + Nanos::millis(10) * i);
    EXPECT_EQ(recorder_->complete(), i >= 230) << i;
    if (i == 300) break;
  }
  EXPECT_NEAR(recorder_->span_s(), 2, 0.011);
  EXPECT_NEAR(recorder_->arrivals().rate_rps, 100, 1);
}

TEST(ArrivalSlots, a_word_is_not_taken_for_that_of_a_second_before) {
  ArrivalSlots slots;
  const Instant at = kStart;
  slots.note(at);
  slots.note(at + Nanos(1));
  EXPECT_EQ(slots.count(ArrivalSlots::slot_of(at)), 2u);
  const uint64_t later = ArrivalSlots::slot_of(at) + ArrivalSlots::kSlots;
  EXPECT_EQ(slots.count(later), 0u);
  slots.note(at + kSlot * static_cast<int64_t>(ArrivalSlots::kSlots));
  EXPECT_EQ(slots.count(later), 1u);
  EXPECT_EQ(slots.count(ArrivalSlots::slot_of(at)), 0u);
  slots.note(at);  // its second is over
  EXPECT_EQ(slots.late(), 1u);
  EXPECT_EQ(slots.newest(), later);
}

TEST(ArrivalSlots, a_full_slot_counts_the_rest_as_late) {
  ArrivalSlots slots;
  for (int i = 0; i < 70'000; ++i) slots.note(kStart);
  EXPECT_EQ(slots.count(ArrivalSlots::slot_of(kStart)), 65'535u);
  EXPECT_EQ(slots.late(), 70'000u - 65'535u);
}

ServedType served(const std::string& name, uint64_t count) {
  ServedType type{name, {}, {}};
  type.service.record_many(Nanos(10'001), count);
  type.latency.record_many(Nanos(20'000), count);
  return type;
}

TEST(ProfileTypes, only_those_that_were_served_with_the_extremes_that_were_seen) {
  std::vector<ServedType> all;
  all.push_back(served("none", 0));
  all.push_back(served("get", 3));
  all.back().service.record(Nanos(70));
  const auto types = profile_types(std::move(all));
  ASSERT_EQ(types.size(), 1u);
  EXPECT_EQ(types[0].name, "get");
  EXPECT_EQ(types[0].count, 4u);
  ASSERT_EQ(types[0].service.size(), 2u);
  EXPECT_EQ(types[0].service[0].low, Nanos(70));
  EXPECT_EQ(types[0].service[1].high, Nanos(10'002));
  EXPECT_EQ(types[0].latency.max_us, 20);
}

TEST(ProfileTypes, of_more_than_a_workload_can_have_the_rarest_are_one) {
  std::vector<ServedType> all;
  for (uint64_t i = 1; i <= 100; ++i) all.push_back(served("t" + std::to_string(i), i));
  const auto types = profile_types(std::move(all));
  ASSERT_EQ(types.size(), Mix::kMaxRecordedTypes);
  EXPECT_EQ(types.front().name, "t100");
  EXPECT_EQ(types.back().name, "(others)");
  EXPECT_EQ(types.back().count, 37u * 38 / 2);
}

}  // namespace
}  // namespace rubato
