// SPDX-License-Identifier: Apache-2.0
#include "policy/cfcfs.h"

#include <gtest/gtest.h>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

constexpr QueueRef kGlobal{0, 0};

TEST(Cfcfs, every_request_goes_to_the_one_queue) {
  ScriptHost<Cfcfs> host(4);
  Job job;
  for (uint32_t worker = 0; worker < 4; ++worker) {
    EXPECT_EQ(hook::route(Cfcfs({}), job, WorkerId{worker}, host), kGlobal);
  }
}

TEST(Cfcfs, workers_take_turns_in_arrival_order) {
  ScriptHost<Cfcfs> host(2);
  Job first, second, third;
  for (Job* job : {&first, &second, &third}) host.push(kGlobal, job);
  None worker;
  EXPECT_EQ(Cfcfs({}).next(worker, WorkerId{1}, host), &first);
  EXPECT_EQ(Cfcfs({}).next(worker, WorkerId{0}, host), &second);
  EXPECT_EQ(Cfcfs({}).next(worker, WorkerId{1}, host), &third);
  EXPECT_EQ(Cfcfs({}).next(worker, WorkerId{0}, host), nullptr);
}

}  // namespace
}  // namespace rubato
