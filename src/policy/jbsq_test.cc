// SPDX-License-Identifier: Apache-2.0
#include "policy/jbsq.h"

#include <gtest/gtest.h>

#include <array>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

constexpr QueueRef kCentral{0, 0};
QueueRef local(uint32_t worker) { return {1, worker}; }

class JbsqTest : public ::testing::Test {
 protected:
  void arrive(size_t jobs) {
    for (size_t i = 0; i < jobs; ++i) host_.push(kCentral, &jobs_[i]);
  }
  size_t waiting(uint32_t worker) { return host_.waiting(local(worker)).size(); }

  ScriptHost<Jbsq> host_{3};
  Jbsq::Central central_;
  std::array<Job, 20> jobs_;
};

TEST_F(JbsqTest, requests_go_to_workers_that_hold_least) {
  host_.set_busy(WorkerId{0}, true);
  arrive(2);
  Jbsq({}).dispatch(central_, host_);
  EXPECT_EQ(waiting(0), 0u);
  EXPECT_EQ(waiting(1), 1u);
  EXPECT_EQ(waiting(2), 1u);
}

TEST_F(JbsqTest, no_worker_holds_more_than_k_the_one_that_runs_included) {
  host_.set_busy(WorkerId{0}, true);
  arrive(20);
  Jbsq({.k = 3}).dispatch(central_, host_);
  EXPECT_EQ(waiting(0), 2u);
  EXPECT_EQ(waiting(1), 3u);
  EXPECT_EQ(waiting(2), 3u);
  EXPECT_EQ(host_.waiting(kCentral).size(), 12u);
}

TEST_F(JbsqTest, a_worker_serves_what_it_was_given_and_nothing_else) {
  arrive(1);
  None none;
  EXPECT_EQ(Jbsq({}).next(none, WorkerId{0}, host_), nullptr);
  Jbsq({}).dispatch(central_, host_);
  EXPECT_EQ(Jbsq({}).next(none, WorkerId{1}, host_), nullptr);
  EXPECT_EQ(Jbsq({}).next(none, WorkerId{0}, host_), &jobs_[0]);
}

TEST_F(JbsqTest, a_request_that_found_no_room_is_given_first_next_time) {
  arrive(2);
  host_.set_capacity(0);
  Jbsq({.k = 1}).dispatch(central_, host_);
  EXPECT_EQ(central_.in_hand, &jobs_[0]);
  host_.set_capacity(8);
  Jbsq({.k = 1}).dispatch(central_, host_);
  EXPECT_EQ(central_.in_hand, nullptr);
  EXPECT_EQ(host_.waiting(local(0)).front(), &jobs_[0]);
  EXPECT_EQ(host_.waiting(local(1)).front(), &jobs_[1]);
}

}  // namespace
}  // namespace rubato
