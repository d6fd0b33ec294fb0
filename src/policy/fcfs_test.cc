// SPDX-License-Identifier: Apache-2.0
#include "policy/fcfs.h"

#include <gtest/gtest.h>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

constexpr QueueRef inbox(uint32_t worker) { return {0, worker}; }

TEST(Fcfs, a_request_waits_at_the_worker_it_arrived_at) {
  ScriptHost<Fcfs> host(3);
  Job job;
  EXPECT_EQ(hook::route(Fcfs({}), job, WorkerId{2}, host), inbox(2));
}

TEST(Fcfs, an_inbox_is_served_in_order) {
  ScriptHost<Fcfs> host(2);
  Job first, second;
  host.push(inbox(1), &first);
  host.push(inbox(1), &second);
  None worker;
  EXPECT_EQ(Fcfs({}).next(worker, WorkerId{1}, host), &first);
  EXPECT_EQ(Fcfs({}).next(worker, WorkerId{1}, host), &second);
  EXPECT_EQ(Fcfs({}).next(worker, WorkerId{1}, host), nullptr);
}

TEST(Fcfs, another_worker_s_inbox_is_not_even_looked_at) {
  ScriptHost<Fcfs> host(2);
  Job job;
  host.push(inbox(1), &job);
  host.record_verbs();
  None worker;
  EXPECT_EQ(Fcfs({}).next(worker, WorkerId{0}, host), nullptr);
  EXPECT_EQ(host.verbs(), std::vector<std::string>{"take inbox[0]"});
}

TEST(Fcfs, a_slice_has_no_end) {
  ScriptHost<Fcfs> host(1);
  EXPECT_EQ(hook::quantum(Fcfs({}), None(), Job(), host), Nanos::max());
  EXPECT_EQ(hook::adapt_period(Fcfs({})), Nanos::max());
}

}  // namespace
}  // namespace rubato
