// SPDX-License-Identifier: Apache-2.0
//
// The schedulers made of hardware, each on its machine: what Altocumulus (VIII-A) says of them in
// relation to each other. Seeded; nothing here depends on the time a run takes.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "metrics/run_report.h"
#include "policy/testing/seed.h"
#include "sim/cost_file.h"
#include "sim/testing/runs.h"

namespace rubato::sim {
namespace {

struct Traffic {
  uint32_t workers;
  const char* mix;
  double load;
  uint64_t requests;
};

Outcome simulate_on(std::string_view policy, const std::string& costs, const Traffic& t,
                    const Settings& settings = {}) {
  sim::Setup setup = ideal(t.workers, t.mix, t.load, t.requests);
  setup.costs = load_costs(costs).value();
  setup.seed = testing::test_seed(21);
  return simulate(policy, settings, setup).value();
}

SlowdownSummary slowdown_of(const Outcome& outcome) {
  Histogram all;
  for (const TypeOutcome& type : outcome.types) all.merge(type.slowdown);
  return summarize_slowdown(all);
}

// 71 million requests per second; Persephone's dispatcher in software takes seven (4.2).
TEST(Hardware, the_nic_keeps_up_where_a_software_dispatcher_is_the_limit) {
  const Traffic traffic{64, "fixed-850ns", 0.95, 100'000};
  EXPECT_LT(slowdown_of(simulate_on("nebula", "nebula", traffic)).p99, 4);
  sim::Setup software = ideal(traffic.workers, traffic.mix, traffic.load, traffic.requests);
  software.costs.dispatcher = Nanos(143);
  EXPECT_GT(slowdown_of(simulate("jbsq", {}, software).value()).p50, 1000);
}

// On the same machine and with more work than it can do, so that only the gaps differ.
TEST(Hardware, a_second_request_at_each_core_hides_the_way_from_the_nic) {
  const Traffic traffic{16, "fixed-850ns", 1.2, 100'000};
  const Outcome one = simulate_on("rpcvalet", "nebula", traffic);
  const Outcome two = simulate_on("nebula", "nebula", traffic);
  const double gap = load_costs("nebula").value().worker.notice.seconds();
  EXPECT_NEAR(one.simulated.seconds() / two.simulated.seconds(), 1 + gap / 850e-9, 0.01);
}

// "Since Nebula's JBSQ only makes decisions based on per-core request number, it lacks awareness of
// long requests. Therefore, even at low load, its tail latency is up to 4.7x worse than Shinjuku.
// nanoPU avoids this drawback of JBSQ scheduler by piggybacking a preemption mechanism on each
// core." The mix is that of Figure 10; half the load is where the first requests wait.
TEST(Hardware, short_requests_wait_for_long_ones_at_nebula_but_not_at_nanopu) {
  const Traffic low{16, "extreme-bimodal", 0.5, 200'000};
  const double nebula = slowdown_of(simulate_on("nebula", "nebula", low)).p999;
  EXPECT_GT(nebula, 4.7 * slowdown_of(simulate_on("nanopu", "nanopu", low)).p999);
  const Outcome shinjuku = simulate_on("shinjuku", "persephone-fig1", low, {{"quantum", "5us"}});
  EXPECT_GT(nebula, 4.7 * slowdown_of(shinjuku).p999);
}

TEST(Hardware, nanopu_has_a_far_shorter_tail_than_nebula_at_a_high_load) {
  const Traffic high{16, "extreme-bimodal", 0.8, 500'000};
  const Histogram nebula = latency_of(simulate_on("nebula", "nebula", high));
  const Histogram nanopu = latency_of(simulate_on("nanopu", "nanopu", high));
  EXPECT_GT(nebula.percentile(90), nanopu.percentile(90) * 10);
  EXPECT_GT(nebula.percentile(99), nanopu.percentile(99));
}

}  // namespace
}  // namespace rubato::sim
