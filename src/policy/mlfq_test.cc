// SPDX-License-Identifier: Apache-2.0
#include "policy/mlfq.h"

#include <gtest/gtest.h>

#include <array>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

constexpr QueueRef level(uint32_t number) { return {0, number}; }

class MlfqTest : public ::testing::Test {
 protected:
  QueueRef put_back_after(Nanos attained) {
    Job job;
    job.attained = attained;
    return policy_.requeue(job, RequeueReason::kPreempted, WorkerId{0}, host_);
  }
  // How often each level is served, of 10 000 times, when something waits in all.
  std::array<int, 3> picks(Mlfq::Worker worker) {
    std::array<int, 3> picks{};
    for (uint32_t i = 0; i < 3; ++i) host_.push(level(i), &jobs_[i]);
    for (int i = 0; i < 10'000; ++i) {
      Job* const job = policy_.next(worker, WorkerId{0}, host_);
      const auto from = static_cast<uint32_t>(job - jobs_.data());
      ++picks[from];
      host_.push(level(from), job);
    }
    return picks;
  }

  const Mlfq policy_{{}};
  ScriptHost<Mlfq> host_{1};
  std::array<Job, 3> jobs_;
};

TEST_F(MlfqTest, a_request_sinks_after_5_ms_and_after_100_ms) {
  EXPECT_EQ(hook::route(policy_, jobs_[0], WorkerId{0}, host_), level(0));
  EXPECT_EQ(put_back_after(Nanos::micros(4'999)), level(0));
  EXPECT_EQ(put_back_after(Nanos::millis(5)), level(1));
  EXPECT_EQ(put_back_after(Nanos::micros(99'999)), level(1));
  EXPECT_EQ(put_back_after(Nanos::millis(100)), level(2));
}

TEST_F(MlfqTest, the_top_is_drawn_by_its_chance_and_the_middle_four_times_as_often_as_the_last) {
  const auto picked = picks({.chance = 500});
  EXPECT_NEAR(picked[0], 5'000, 250);
  EXPECT_NEAR(picked[1], 4'000, 250);
  EXPECT_NEAR(picked[2], 1'000, 150);
}

TEST_F(MlfqTest, an_empty_level_gives_its_turn_to_another) {
  host_.push(level(2), &jobs_[0]);
  Mlfq::Worker worker{.chance = 980};
  EXPECT_EQ(policy_.next(worker, WorkerId{0}, host_), &jobs_[0]);
  EXPECT_EQ(policy_.next(worker, WorkerId{0}, host_), nullptr);
}

TEST_F(MlfqTest, the_chance_follows_the_share_of_the_work_that_is_done_on_top) {
  Mlfq::Worker worker;
  policy_.finished(worker, Job(), Nanos::millis(995));  // 5 ms of it on top
  EXPECT_EQ(worker.chance, 800u);                       // not a second yet
  policy_.finished(worker, Job(), Nanos::millis(5));
  EXPECT_EQ(worker.chance, 860u);
  for (int i = 0; i < 10; ++i) policy_.finished(worker, Job(), Nanos::seconds(1));
  EXPECT_EQ(worker.chance, 980u);
  for (int i = 0; i < 200; ++i) policy_.finished(worker, Job(), Nanos::millis(5));
  EXPECT_EQ(worker.chance, 920u);
  for (int i = 0; i < 2'000; ++i) policy_.finished(worker, Job(), Nanos::millis(5));
  EXPECT_EQ(worker.chance, 500u);
}

TEST_F(MlfqTest, the_chance_stays_where_the_share_is_near_what_it_should_be) {
  Mlfq::Worker worker;
  for (int i = 0; i < 160; ++i) policy_.finished(worker, Job(), Nanos::millis(5));
  policy_.finished(worker, Job(), Nanos::millis(200));  // 80.5 % on top
  EXPECT_EQ(worker.chance, 800u);
  EXPECT_EQ(worker.in_all, Nanos());
}

TEST_F(MlfqTest, cuts_only_if_somebody_waits_in_whatever_level) {
  EXPECT_EQ(policy_.expired(Job(), WorkerId{0}, host_), SliceDecision::kContinue);
  host_.push(level(2), &jobs_[0]);
  EXPECT_EQ(policy_.expired(Job(), WorkerId{0}, host_), SliceDecision::kPreempt);
}

}  // namespace
}  // namespace rubato
