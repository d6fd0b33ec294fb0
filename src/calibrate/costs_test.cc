// SPDX-License-Identifier: Apache-2.0
//
// How figures become costs. No figure of the machine is judged.
#include <gtest/gtest.h>

#include "calibrate/measurements.h"

namespace rubato::calibrate {
namespace {

Samples sampled() {
  Samples samples;
  const auto set = [&](Operation operation, double median_ns, double tail_ns) {
    samples[operation] = {.median_ns = median_ns, .tail_ns = tail_ns, .batches = 1000};
  };
  set(Operation::kClock, 2, 3);
  set(Operation::kLook, 6, 7);
  set(Operation::kLookHead, 9, 9);
  set(Operation::kPollBetween, 100, 110);
  set(Operation::kSliceBegins, 40, 50);
  set(Operation::kPut, 10, 20);
  set(Operation::kTake, 5, 5);
  set(Operation::kPoll, 32, 64);
  set(Operation::kReceive, 325, 505);
  set(Operation::kPollBurst, 325 + 32 + 32 * 14, 1000);
  set(Operation::kSend, 100, 100);
  set(Operation::kAfterReply, 20, 30);
  set(Operation::kSubmit, 53, 60);
  set(Operation::kIdle, 1000, 2000);
  set(Operation::kRoundOfOne, 100, 110);
  set(Operation::kRoundOfTwo, 130, 150);
  set(Operation::kRoundBesideStuck, 180, 190);
  set(Operation::kStealOne, 50, 90);
  set(Operation::kStealEight, 120, 300);
  set(Operation::kArm, 3, 3);
  set(Operation::kFeedback, 13, 20);
  set(Operation::kSliceEnd, 85, 200);
  set(Operation::kPreemption, 200, 500);
  set(Operation::kParkCore, 1500, 9000);
  set(Operation::kWakeCore, 4000, 9000);
  set(Operation::kPlaceThread, 700, 9000);
  return samples;
}

TEST(CalibrateCosts, the_way_in_is_told_apart) {
  const sim::Costs costs = costs_of(sampled());
  EXPECT_EQ(costs.worker.put.typical, Nanos(10));
  EXPECT_EQ(costs.worker.put.tail, Nanos(20));
  EXPECT_EQ(costs.worker.receive.typical, Nanos(300));  // less a take and what follows a reply
  EXPECT_EQ(costs.worker.admit, Nanos(14 - 10));        // less a put
  // Less the rest, and half a round.
  constexpr int64_t kRest = 53 + 300 + 14 + 5 + 100 + 100 + (100 + 32) / 2;
  EXPECT_EQ(costs.worker.notice, Nanos(1000 - kRest));
  EXPECT_EQ(costs.worker.poll_look, Nanos(0));
}

TEST(CalibrateCosts, who_idles_has_a_part_of_the_poll_behind_it_that_finds_something) {
  Samples samples = sampled();
  samples[Operation::kIdle].median_ns = 53 + 300 + 14 + 5 + 100 + 100 + (100 + 32) / 2 - 20;
  EXPECT_EQ(costs_of(samples).worker.notice, Nanos(0));
  EXPECT_EQ(costs_of(samples).worker.poll_look, Nanos(20));
  samples[Operation::kIdle].median_ns -= 80;
  EXPECT_EQ(costs_of(samples).worker.poll_look, Nanos(32));  // not more than the poll
  samples[Operation::kIdle] = {};                            // not measured
  EXPECT_EQ(costs_of(samples).worker.poll_look, Nanos(0));
}

TEST(CalibrateCosts, a_round_of_an_idle_worker_has_a_part_for_each_worker) {
  Samples samples = sampled();
  EXPECT_EQ(costs_of(samples).worker.idle_round, Nanos(70 - 6));
  EXPECT_EQ(costs_of(samples).worker.idle_round_each, Nanos(30));
  EXPECT_EQ(costs_of(samples).worker.idle_round_stuck, Nanos(180 - 130));
  samples[Operation::kRoundOfTwo] = samples[Operation::kRoundBesideStuck] = {};  // on one CPU
  EXPECT_EQ(costs_of(samples).worker.idle_round, Nanos(100 - 6));
  EXPECT_EQ(costs_of(samples).worker.idle_round_each, Nanos(0));
  EXPECT_EQ(costs_of(samples).worker.idle_round_stuck, Nanos(0));
}

TEST(CalibrateCosts, a_core_that_moves_is_placed_and_woken) {
  Samples samples = sampled();
  EXPECT_EQ(costs_of(samples).cores.park, Nanos(1500));
  EXPECT_EQ(costs_of(samples).cores.wake, Nanos(4700));
  samples[Operation::kPlaceThread] = samples[Operation::kWakeCore] = {};  // on one CPU
  EXPECT_EQ(costs_of(samples).cores.wake, Nanos(0));
}

TEST(CalibrateCosts, a_preemption_is_its_parts) {
  const sim::Costs costs = costs_of(sampled());
  const Nanos parts = costs.preemption.receive.typical + costs.worker.poll.typical +
                      costs.worker.look + costs.worker.put.typical +
                      costs.worker.fresh_fiber.typical + costs.worker.take.typical +
                      costs.worker.resume.typical + costs.preemption.arm.typical;
  EXPECT_EQ(parts, Nanos(200));
  EXPECT_EQ(costs.worker.feedback, Nanos(10));
  EXPECT_EQ(costs.worker.steal_each, Nanos(10));
  EXPECT_EQ(costs.preemption.receive_read, Nanos(2 + 40 - 32));
}

TEST(CalibrateCosts, a_request_that_begins_at_a_cut_has_a_part_of_the_way_in) {
  Samples samples = sampled();
  samples[Operation::kCut] = {.median_ns = 85 + 15 + 70, .batches = 1};
  const sim::Costs costs = costs_of(samples);
  EXPECT_EQ(costs.worker.fresh_fiber.typical, Nanos(50));
  EXPECT_EQ(costs.worker.resume.typical, Nanos(50));
  EXPECT_EQ(costs.worker.receive.typical - costs.worker.cut_saves, Nanos(70 - 50));
  samples[Operation::kCut].median_ns = 85 + 15 + 30;
  EXPECT_EQ(costs_of(samples).worker.fresh_fiber.typical, Nanos(30));
  EXPECT_EQ(costs_of(samples).worker.resume.typical, Nanos(70));
  EXPECT_EQ(costs_of(samples).worker.cut_saves, Nanos(300));
}

TEST(CalibrateCosts, a_request_that_goes_on_after_a_reply_has_a_longer_way) {
  Samples samples = sampled();
  EXPECT_EQ(costs_of(samples).worker.resume_alone, Nanos(0));  // not measured
  samples[Operation::kReplyResume] = {.median_ns = 20 + 5 + 3 + 100 + 60, .batches = 1};
  samples[Operation::kCut] = {.median_ns = 85 + 15, .batches = 1};
  const sim::Costs costs = costs_of(samples);
  EXPECT_EQ(costs.worker.resume.typical, Nanos(100));
  EXPECT_EQ(costs.worker.resume_alone, Nanos(60));
}

TEST(CalibrateCosts, polls_between_requests_and_looks_at_heads_take_more) {
  const sim::Costs costs = costs_of(sampled());
  EXPECT_EQ(costs.worker.poll_between, Nanos(100 - 32));
  EXPECT_EQ(costs.worker.look, Nanos(6));
  EXPECT_EQ(costs.worker.look_head, Nanos(9 - 6));
}

// The quartile of batches of 16 is 0.67 of a sixteenth's root of the deviation of one, and what is
// uniform deviates by its half over the root of three.
TEST(CalibrateCosts, looks_at_slices_spread_as_their_batches_say) {
  Samples samples = sampled();
  samples[Operation::kCheck] = {.median_ns = 100, .lower_ns = 98, .tail_ns = 120, .batches = 1};
  EXPECT_EQ(costs_of(samples).preemption.check_spread, Nanos(21));
  samples[Operation::kCheck].lower_ns = 0;
  EXPECT_EQ(costs_of(samples).preemption.check_spread, Nanos(100));  // none is negative
}

TEST(CalibrateCosts, noise_never_makes_a_price_negative) {
  Samples samples = sampled();
  samples[Operation::kIdle] = {.median_ns = 1, .tail_ns = 1, .batches = 1};
  samples[Operation::kPreemption] = samples[Operation::kReceive] = samples[Operation::kIdle];
  const sim::Costs costs = costs_of(samples);
  EXPECT_EQ(costs.worker.notice, Nanos(0));
  EXPECT_EQ(costs.worker.receive.typical, Nanos(0));
  EXPECT_EQ(costs.worker.resume.typical, Nanos(0));
}

TEST(CalibrateCosts, the_file_is_read_back_and_says_what_is_missing) {
  const std::string text = to_toml(costs_of(sampled()), notes_of(sampled()));
  const auto costs = sim::parse_costs(text, "f.toml");
  ASSERT_TRUE(costs.ok()) << costs.error();
  EXPECT_EQ(to_toml(costs.value()), to_toml(costs_of(sampled())));
  EXPECT_NE(text.find("# resume from afar: not measured"), std::string::npos) << text;
}

TEST(CalibrateMeter, stalls_are_left_out_and_counted) {
  const std::atomic<bool> stop{false};
  const Meter meter(Nanos::millis(1), stop);
  Collector collector(meter);
  for (int i = 0; i < 100; ++i) collector.add(10, kBatch);
  collector.add(7000, kBatch);
  const Sample sample = collector.sample();
  EXPECT_EQ(sample.batches, 100u);
  EXPECT_EQ(sample.stalls, 1u);
  EXPECT_FLOAT_EQ(static_cast<float>(sample.tail_ns), 10);
}

}  // namespace
}  // namespace rubato::calibrate
