// SPDX-License-Identifier: Apache-2.0
//
// The claims of papers on load balancing, which they make of their systems and of each other's, in
// simulated time: SBB (Fig. 11 and 13), Altocumulus (Fig. 11 and 13), Synergy (Fig. 6.2 to 6.5).
// Seeded; nothing here depends on the time a run takes. docs/REPRODUCTION.md has the numbers.
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
  FlowSpec flows{};
};

struct Found {
  explicit Found(Outcome outcome) : of(std::move(outcome)) {
    Histogram all;
    for (const TypeOutcome& type : of.types) all.merge(type.slowdown);
    slowdown = summarize_slowdown(all);
    p99 = latency_of(of).percentile(99);
  }
  double share_stolen() const {
    return static_cast<double>(of.counters.stolen) / static_cast<double>(of.requests);
  }

  Outcome of;
  SlowdownSummary slowdown;
  Nanos p99;
};

Found run_on(Costs costs, std::string_view policy, const Traffic& t,
              const Settings& settings = {}) {
  sim::Setup setup = ideal(t.workers, t.mix, t.load, t.requests);
  setup.costs = std::move(costs);
  setup.seed = testing::test_seed(41);
  setup.workload.flows = t.flows;
  return Found(simulate(policy, settings, setup).value());
}

// SBB: each worker polls its own ring, RSS spreads few flows of uneven weight, a steal is 200 ns
// (3.3), a rule 10 us.
Costs decentral() {
  Costs costs;
  costs.nic.delivery = Delivery::kPolled;
  costs.nic.steering = Steering::kRss;
  costs.nic.burst = 64;
  costs.nic.ring_capacity = 1u << 16;
  costs.nic.rule_update = Nanos::micros(10);
  costs.worker.steal = {Nanos(200), {}};
  return costs;
}
constexpr FlowSpec kUneven{.count = 128, .zipf = 0.9, .in_turn = false};
constexpr Traffic kMostlyIdle{16, "fixed-1", 0.3, 200'000, kUneven};
constexpr Traffic kBusy{16, "fixed-1", 0.95, 500'000, kUneven};
const Settings kNone{{"stealing", "off"}, {"enhanced", "off"}, {"migration", "off"}};
const Settings kBaseline{{"enhanced", "off"}, {"migration", "off"}};
const Settings kEnhanced{{"migration", "off"}};

// "Without any balancing policy, SBB reaches its SLO limit much earlier because [...] system
// capacity is constrained by the most heavily loaded worker."
TEST(Sbb, without_balancing_the_most_loaded_worker_is_the_limit) {
  const double none = run_on(decentral(), "sbb", kBusy, kNone).slowdown.p999;
  EXPECT_GT(none, 20 * run_on(decentral(), "sbb", kBusy).slowdown.p999);
  EXPECT_GT(none, 20 * run_on(decentral(), "sbb", kBusy, kBaseline).slowdown.p999);
}

// "[The optimizations] mainly reduce unnecessary stealings."
TEST(Sbb, enhanced_stealing_steals_less_and_the_less_the_lower_the_load) {
  EXPECT_LT(run_on(decentral(), "sbb", kBusy, kEnhanced).share_stolen(),
            run_on(decentral(), "sbb", kBusy, kBaseline).share_stolen() * 0.75);
  EXPECT_LT(run_on(decentral(), "sbb", kMostlyIdle, kEnhanced).share_stolen(),
            run_on(decentral(), "sbb", kMostlyIdle, kBaseline).share_stolen() * 0.5);
  const Settings published{{"migration", "off"}, {"published_thresholds", "on"}};
  EXPECT_EQ(run_on(decentral(), "sbb", kMostlyIdle, published).share_stolen(), 0);
}

// Fig. 4: the hybrid policy's tail is close to a single queue's, and below that of stealing alone,
// with fewer steals.
TEST(Sbb, comes_close_to_a_single_queue_and_beats_stealing_alone) {
  const Found hybrid = run_on(decentral(), "sbb", kBusy);
  const Found stealing = run_on(decentral(), "steal", kBusy);
  const double single = run_on(decentral(), "cfcfs", kBusy).slowdown.p999;
  EXPECT_LT(hybrid.slowdown.p999, stealing.slowdown.p999);
  EXPECT_LT(hybrid.slowdown.p999, 1.5 * single);
  EXPECT_LT(hybrid.share_stolen(), 0.75 * stealing.share_stolen());
}

// "SBB's two-level load balancing policy effectively mitigates this problem": of what enhanced
// stealing still steals, flow migration saves a part, with few rules.
TEST(Sbb, flow_migration_makes_stealing_rarer_by_few_rules) {
  for (const char* published : {"off", "on"}) {
    const Settings hybrid{{"published_thresholds", published}};
    const Settings enhanced{{"published_thresholds", published}, {"migration", "off"}};
    const Found run = run_on(decentral(), "sbb", kBusy, hybrid);
    EXPECT_GT(more(run.of, "flow_rules_written"), 0u);
    EXPECT_LT(more(run.of, "flow_rules_written"), 1'000u);  // of 500 000 requests
    EXPECT_LT(run.share_stolen(), run_on(decentral(), "sbb", kBusy, enhanced).share_stolen());
  }
}

// Rules are taken back when the worker that gave a flow away is Light again.
TEST(Sbb, flow_rules_do_not_outlive_their_reason) {
  const Traffic traffic{16, "fixed-1", 0.95, 2'000'000, kUneven};
  const Settings settings{{"rule_life", "1ms"}, {"published_thresholds", "on"}};
  const Found run = run_on(decentral(), "sbb", traffic, settings);
  EXPECT_GT(more(run.of, "flow_rules_removed"), 0u);
  EXPECT_EQ(more(run.of, "flow_rules") + more(run.of, "flow_rules_removed"),
            more(run.of, "flow_rules_written"));
}

// Fig. 11: "the timer UINTR mechanism introduces no scalability issues": more workers, same tail.
TEST(Sbb, scales_with_its_workers) {
  const Costs testbed = load_costs("sbb-testbed").value();
  const auto tail = [&](uint32_t workers) {
    return run_on(testbed, "sbb", {workers, "high-bimodal", 0.7, workers * 10'000ull}).slowdown;
  };
  EXPECT_NEAR(tail(48).p999 / tail(16).p999, 1, 0.25);
}

// A timer core that sends 100 000 interrupts per worker and second is one for all: it is late. Own
// timers are not (4.3; Synergy quotes the same of Shinjuku's dispatcher).
TEST(Sbb, own_timers_scale_where_a_timer_core_saturates) {
  const auto p99 = [](Clock clock, uint32_t workers) {
    Costs costs;
    costs.preemption.clock = clock;
    costs.preemption.send = {Nanos(100), {}};
    costs.preemption.receive = {Nanos(360), {}};
    const Traffic traffic{workers, "extreme-bimodal", 0.6, 300'000};
    return run_on(costs, "sbb", traffic, {{"published_thresholds", "on"}}).slowdown.p99;
  };
  EXPECT_NEAR(p99(Clock::kTimerCore, 8) / p99(Clock::kSelf, 8), 1, 0.15);
  EXPECT_GT(p99(Clock::kTimerCore, 256), 1.5 * p99(Clock::kSelf, 256));
}

// The same with what signals and POSIX timers were measured to cost (docs/BENCHMARKS.md, `bench
// preempt`), 100 us slices and 8 to 64 workers: one core cannot send more than one signal in 5.8
// us, so slices grow with the workers; with timers of their own they do not.
TEST(Sbb, slices_grow_with_the_workers_of_a_timer_core_but_not_with_own_timers) {
  const auto cuts_per_worker = [](Clock clock, uint32_t workers) {
    Costs costs;
    costs.preemption.clock = clock;
    if (clock == Clock::kTimerCore) {
      costs.preemption.send = {Nanos(5'800), {}};
      costs.preemption.propagation = {Nanos(10'000), {}};
      costs.preemption.receive = {Nanos(6'400), {}};
    } else {
      costs.preemption.arm = {Nanos(5'800), {}};
      costs.preemption.overshoot = {Nanos(8'200), {}};
      costs.preemption.receive = {Nanos(12'500), {}};
    }
    const Settings apart{{"quantum", "100us"}, {"stealing", "off"}, {"migration", "off"}};
    const Traffic traffic{workers, "short:10us:50,long:2ms:50", 0.7, workers * 2'000ull};
    const Found run = run_on(costs, "sbb", traffic, apart);
    return static_cast<double>(run.of.counters.preemptions) / workers /
           static_cast<double>(run.of.simulated.count());
  };
  const double few = cuts_per_worker(Clock::kTimerCore, 8);
  EXPECT_LT(cuts_per_worker(Clock::kTimerCore, 64), 0.65 * few);
  const double few_own = cuts_per_worker(Clock::kSelf, 8);
  EXPECT_NEAR(cuts_per_worker(Clock::kSelf, 64) / few_own, 1, 0.15);
}

// Altocumulus, VIII-C: sixteen groups behind RSS, 630 ns, an objective of ten times that.
Costs rss_machine() {
  Costs costs = load_costs("ac-int").value();
  costs.nic.steering = Steering::kRss;
  costs.nic.pcie = Nanos(400);
  return costs;
}
constexpr Traffic kGroups{240, "all:exp(630ns):100", 0.9, 500'000, {.count = 4096}};

TEST(Altocumulus, migration_saves_what_rss_spreads_unevenly) {
  const Found with = run_on(rss_machine(), "altocumulus", kGroups);
  const Found without = run_on(rss_machine(), "altocumulus", kGroups, {{"migrate", "off"}});
  EXPECT_GT(without.p99, with.p99 * 10);
  EXPECT_LT(with.p99, Nanos(630 * 12));
  EXPECT_GT(more(with.of, "moved_between_managers"), 0u);
  EXPECT_EQ(more(without.of, "moved_between_managers"), 0u);
}

// "Varying the migration period from 10 ns to 400 ns does not significantly affect [...] latency";
// "if migrating every 1000 ns [...] migration opportunity is lost".
TEST(Altocumulus, the_period_matters_little_up_to_400_ns) {
  const auto p99 = [](const char* period) {
    return run_on(rss_machine(), "altocumulus", kGroups, {{"period", period}}).p99.seconds();
  };
  EXPECT_NEAR(p99("400ns") / p99("100ns"), 1, 0.2);
  EXPECT_NEAR(p99("200ns") / p99("100ns"), 1, 0.2);
  EXPECT_GT(p99("5us"), 1.1 * p99("200ns"));
}

TEST(Altocumulus, groups_scale_where_a_single_manager_saturates) {
  Costs costs = rss_machine();
  costs.manager.put = {Nanos(35), {}};  // 70 cycles: 28 million per second (VIII-B)
  const Traffic traffic{60, "fixed-850ns", 0.8, 300'000, {.count = 4096}};
  const Found four = run_on(costs, "altocumulus", traffic);
  const Found one = run_on(costs, "altocumulus", traffic, {{"group", "60"}});
  EXPECT_GT(one.slowdown.p50, 20 * four.slowdown.p50);
}

// Run to completion in a group, short requests wait for long ones (VIII-A, of Nebula); with Synergy
// inside they do not.
TEST(Altocumulus, synergy_inside_keeps_short_requests_from_waiting_for_long_ones) {
  const Traffic traffic{60, "extreme-bimodal", 0.7, 300'000};
  const Found plain = run_on(Costs(), "altocumulus", traffic);
  const Found inside = run_on(Costs(), "altocumulus", traffic, {{"inside_synergy", "on"}});
  EXPECT_GT(plain.slowdown.p99, 2 * inside.slowdown.p99);
}

// Fig. 6.3 and 6.4: who has the shortest tail of slowdowns when one request in 200 is a thousand
// times as long, from the best to the worst.
TEST(Synergy, has_the_shortest_tail_of_them_all_under_extreme_dispersion) {
  const Traffic traffic{14, "extreme-bimodal", 0.8, 500'000};
  const auto tail = [&](const char* policy) {
    return run_on(Costs(), policy, traffic).slowdown.p999;
  };
  const double synergy = tail("synergy");
  EXPECT_LT(synergy * 2, tail("shinjuku"));
  EXPECT_LT(synergy * 10, tail("steal"));
  EXPECT_LT(synergy * 10, tail("cfcfs"));
  EXPECT_LT(tail("cfcfs"), tail("fcfs"));
}

// Fig. 6.5: +ws, +wq, +cp each add throughput; at one load the first two shorten the tail, and the
// third cuts less often.
TEST(Synergy, each_component_shortens_the_tail_or_saves_preemptions) {
  const Costs testbed = load_costs("synergy-testbed").value();
  const Traffic traffic{14, "zippydb", 0.8, 500'000, {.count = 512}};
  const auto with = [&](const char* stealing, const char* queue, const char* conditional) {
    const Settings settings{{"stealing", stealing},
                            {"wait_queue", queue},
                            {"conditional", conditional},
                            {"fixed_quantum", "5us"}};
    return run_on(testbed, "synergy", traffic, settings);
  };
  const Found none = with("off", "off", "off");
  const Found ws = with("on", "off", "off");
  const Found wq = with("on", "on", "off");
  const Found cp = with("on", "on", "on");
  EXPECT_LT(ws.slowdown.p999, none.slowdown.p999);
  EXPECT_LT(wq.slowdown.p999, ws.slowdown.p999);
  EXPECT_LE(cp.slowdown.p999, wq.slowdown.p999);
  EXPECT_LT(cp.of.counters.preemptions * 5, wq.of.counters.preemptions * 4);
}

}  // namespace
}  // namespace rubato::sim
