// SPDX-License-Identifier: Apache-2.0
#include "policy/edf.h"

#include <gtest/gtest.h>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

class EdfTest : public ::testing::Test {
 protected:
  // Type 1 takes 10 us, type 2 takes 1 us.
  EdfTest() {
    Profile profile;
    for (int i = 0; i < 100; ++i) {
      host_.note_served(1, Nanos::micros(10), Nanos());
      host_.note_served(2, Nanos::micros(1), Nanos());
    }
    host_.publish(policy_.adapt(profile, host_));
  }

  static Job job(uint32_t type, Instant arrived, Instant deadline = Instant::never()) {
    Job job;
    job.type = type;
    job.arrived = arrived;
    job.deadline = deadline;
    return job;
  }
  void arrive(Job& job) { host_.push(policy_.route(job, WorkerId{0}, host_), &job); }
  Job* next() {
    None none;
    return policy_.next(none, WorkerId{0}, host_);
  }

  const Edf policy_{{.slowdown = 10, .window = 1}};
  ScriptHost<Edf> host_{1};
};

TEST_F(EdfTest, the_request_s_own_deadline_decides) {
  Job relaxed = job(2, Instant(), Instant(500'000));
  Job urgent = job(1, Instant(), Instant(20'000));
  for (Job* job : {&relaxed, &urgent}) arrive(*job);
  EXPECT_EQ(next(), &urgent);
  EXPECT_EQ(next(), &relaxed);
  EXPECT_EQ(next(), nullptr);
}

TEST_F(EdfTest, one_without_is_due_a_multiple_of_its_type_s_service_time_after_it_came) {
  Job first = job(1, Instant()), third = job(1, Instant(10'000));  // due at 100 us and at 110 us
  Job second = job(2, Instant(95'000));                            // at 105 us
  Job between = job(1, Instant(), Instant(107'000));
  for (Job* job : {&first, &third, &second, &between}) arrive(*job);
  EXPECT_EQ(next(), &first);
  EXPECT_EQ(next(), &second);
  EXPECT_EQ(next(), &between);
  EXPECT_EQ(next(), &third);
}

TEST_F(EdfTest, who_has_no_deadline_and_no_known_type_comes_last_in_order_of_arrival) {
  Job first = job(9, Instant()), second = job(0, Instant(1));
  Job due = job(1, Instant::never() - Nanos::seconds(1));
  for (Job* job : {&first, &second, &due}) arrive(*job);
  EXPECT_EQ(next(), &due);
  EXPECT_EQ(next(), &first);
  EXPECT_EQ(next(), &second);
}

TEST_F(EdfTest, types_beyond_the_last_share_its_service_time) {
  Profile profile;
  host_.note_served(limits::kTypes + 5, Nanos::micros(2), Nanos());
  host_.publish(policy_.adapt(profile, host_));
  Job beyond = job(limits::kTypes + 70, Instant());
  arrive(beyond);
  EXPECT_EQ(beyond.policy_word, 20'000u);
}

}  // namespace
}  // namespace rubato
