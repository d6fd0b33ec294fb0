// SPDX-License-Identifier: Apache-2.0
//
// Clients with sessions, credits, and cores that come and go, as whole simulated runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "overload/credit_pool.h"
#include "sim/core_allocation.h"
#include "sim/cost_file.h"
#include "sim/simulation.h"
#include "sim/testing/digest.h"

namespace rubato::sim {
namespace {

constexpr double kCapacityRps = 1.2e6;  // of coresync-testbed with 16 cores and exp-10

Setup at_load(double load, const std::string& cores, uint64_t requests = 60'000) {
  sim::Setup setup;
  setup.classify = Classify::kFeedback;
  setup.workers = 16;
  setup.costs = load_costs("coresync-testbed").value();
  setup.workload.mixes.push_back(parse_mix("exp-10").value());
  setup.workload.rate = load * kCapacityRps;
  setup.workload.flows.count = 100;
  setup.requests = requests;
  setup.elastic.emplace();
  setup.elastic->cores = cores;
  return setup;
}

Outcome run(const Setup& setup, const std::string& policy = "steal", const Settings& set = {}) {
  Result<Outcome> outcome = simulate(policy, set, setup);
  if (!outcome) {
    ADD_FAILURE() << outcome.error();
    return {};
  }
  return std::move(*outcome);
}

uint64_t unsent(const Outcome& outcome) {
  const auto& by_type = outcome.elastic->unsent;
  return std::accumulate(by_type.begin(), by_type.end(), uint64_t{0});
}

uint64_t counter(const Outcome& outcome, const std::string& name) {
  for (const auto& [key, value] : outcome.counters.more) {
    if (key == name) return value;
  }
  return UINT64_MAX;
}

double p99_us(const Outcome& outcome) {
  return outcome.types[0].latency.percentile(99).micros();
}

double goodput(const Outcome& outcome) {
  return static_cast<double>(outcome.done_in_time) / outcome.measured_time.seconds();
}

TEST(Elastic, without_credits_and_with_all_cores_it_serves_as_a_fixed_site) {
  sim::Setup setup;
  setup.classify = Classify::kFeedback;
  setup.workers = 4;
  setup.workload.mixes.push_back(parse_mix("exp-1").value());
  setup.workload.rate = 3e6;
  setup.requests = 50'000;
  for (const char* policy : {"steal", "cfcfs", "synergy"}) {
    setup.elastic.reset();
    const Outcome fixed = run(setup, policy);
    setup.elastic.emplace();
    setup.elastic->uses_credits = false;
    const Outcome elastic = run(setup, policy);
    EXPECT_EQ(elastic.measured, fixed.measured) << policy;
    EXPECT_EQ(elastic.types[0].latency.percentile(99), fixed.types[0].latency.percentile(99))
        << policy;
    EXPECT_DOUBLE_EQ(elastic.elastic->granted_share, 1) << policy;
  }
}

TEST(Elastic, an_interrupt_that_comes_too_late_and_costs_nothing_changes_nothing) {
  // What a worker owes for messages it still owes after an interrupt that missed its request.
  sim::Setup setup = at_load(0.8, "static", 20'000);
  setup.costs = Costs{};
  setup.costs.network_rtt = Nanos::micros(10);
  setup.costs.preemption.propagation.typical = Nanos::millis(1'000);
  setup.costs.cores.credit_message = Nanos::micros(2);
  const Outcome late = run(setup, "synergy", {{"fixed_quantum", "2us"}});
  const Outcome never = run(setup, "synergy", {{"fixed_quantum", "900ms"}});
  EXPECT_GT(counter(late, "late_notifications"), 1'000u);
  EXPECT_EQ(counter(never, "late_notifications"), 0u);
  EXPECT_EQ(late.measured, never.measured);
  EXPECT_EQ(late.types[0].latency.mean(), never.types[0].latency.mean());
  EXPECT_EQ(late.types[0].latency.percentile(99), never.types[0].latency.percentile(99));
}

// An update that has read the total overwrites what a core withholds before it writes; what that
// core returns later is then too much (CoreSync's published code).
TEST(Elastic, an_update_of_the_credits_overwrites_what_cores_withhold_meanwhile) {
  overload::CreditPool<overload::PlainCell> pool({}, 10);
  for (int i = 0; i < 100; ++i) pool.note_opened();
  for (int64_t us = 10; us < 100'000; us += 10) pool.update(Instant() + Nanos::micros(us), Nanos());
  IdleCores cores;
  cores.pool = &pool;
  cores.update = Nanos(200);
  const int64_t grown = pool.total();
  ASSERT_GT(grown, 500);
  cores.now = pool.updated_at() + Nanos(199);
  cores.withhold(100);
  EXPECT_EQ(pool.total(), grown);
  cores.now = pool.updated_at() + Nanos(200);
  cores.give_back(100);
  EXPECT_EQ(pool.total(), grown + 100);
  cores.withhold(100);
  EXPECT_EQ(pool.total(), grown);
}

TEST(Elastic, the_same_seed_gives_the_same_run) {
  const sim::Setup setup = at_load(0.7, "coresync");
  EXPECT_EQ(digest_of(run(setup)), digest_of(run(setup)));
}

TEST(Elastic, every_request_is_served_refused_or_shed_whoever_allocates) {
  constexpr std::pair<bool, bool> kWays[] = {{false, false}, {false, true}, {true, false}};
  for (const char* cores :
       {"static", "reactive", "caladan", "util-range", "delay-range", "coresync"}) {
    for (const auto& [credits, refuses_late] : kWays) {
      for (const double load : {0.05, 0.6, 1.5}) {
        sim::Setup setup = at_load(load, cores, 10'000);
        setup.elastic->uses_credits = credits;
        if (refuses_late) setup.refusal_rule.emplace();
        const Outcome outcome = run(setup);
        const TypeOutcome& type = outcome.types[0];
        EXPECT_EQ(type.latency.count() + type.refused + unsent(outcome), outcome.measured)
            << cores << " at " << load;
        EXPECT_EQ(counter(outcome, "left_waiting"), 0u) << cores << " at " << load;
        if (!credits && !refuses_late) {
          EXPECT_EQ(type.refused + unsent(outcome), 0u);
        }
      }
    }
  }
}

TEST(Elastic, every_policy_that_it_goes_with_gives_cores_away_and_serves_all) {
  for (const char* policy : {"cfcfs", "steal", "zygos", "darc", "synergy", "sbb"}) {
    for (const char* machine : {"coresync-testbed", "sbb-testbed"}) {  // direct and polled rings
      sim::Setup setup = at_load(0.3, "reactive", 20'000);
      setup.costs = load_costs(machine).value();
      setup.elastic->uses_credits = false;
      const Outcome outcome = run(setup, policy);
      EXPECT_EQ(outcome.types[0].latency.count(), outcome.measured) << policy << " " << machine;
      EXPECT_LT(outcome.elastic->granted_share, 0.7) << policy << " " << machine;
      EXPECT_GT(outcome.elastic->parks, 100u) << policy << " " << machine;
    }
  }
}

// In the work that it has room for: 7 cores shared by two and 2 that are not, or 8 shared ones.
TEST(Elastic, workers_that_are_spread_over_cores_do_more_than_those_that_are_packed) {
  const auto served = [](Placement placement) {
    sim::Setup setup = at_load(1.5, "static", 60'000);
    setup.costs.hyperthreads = {.threads = 18, .slowdown = 120, .placement = placement};
    return goodput(run(setup));
  };
  const double gain = served(Placement::kSpread) / served(Placement::kPack);
  EXPECT_NEAR(gain, (14 + 2 * 1.2) / 16, 0.01);
}

// The allocator never grants on delay, so that only an SBB worker itself comes back to its queue.
TEST(Elastic, a_core_that_was_taken_in_a_stall_leaves_nobody_behind) {
  sim::Setup setup = at_load(0.03, "util-range", 5'000);
  setup.workers = 8;
  setup.costs = load_costs("sbb-testbed").value();
  setup.costs.stalls = {Nanos::millis(1), Nanos::micros(200), StallLengths::kConstant,
                        StallsHit::kCore};
  setup.workload.rate = 0.03 * 8 * 1e5;
  setup.workload.flows.count = 100;
  setup.elastic->cores_settings = {{"threshold", "0us"}, {"pause", "on"}};
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    setup.seed = seed;
    const Outcome outcome = run(setup, "sbb");
    EXPECT_EQ(counter(outcome, "left_waiting"), 0u) << seed;
  }
}

// A worker that the machine holds, or that wakes up, after the last answer has nothing to come back
// for: no policy that makes plans waits for it.
TEST(Elastic, a_run_ends_with_the_last_answer_whoever_has_no_core_then) {
  constexpr int kMostLooks = 20;  // of some hundred thousand events each
  sim::Setup setup = at_load(1.2, "coresync", 20'000);
  setup.costs = Costs{};
  setup.costs.stalls = {Nanos::millis(1), Nanos::micros(50), StallLengths::kConstant,
                        StallsHit::kCore};
  setup.workload.mixes = {parse_mix("exp-1").value()};
  setup.workload.rate = 1.2 * 16e6;
  setup.elastic->clients.expiry = Nanos::max();
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    setup.seed = seed;
    int looks = 0;
    Watch watch;
    watch.progress = [&looks](double) { return ++looks < kMostLooks; };
    Result<Outcome> outcome = simulate("darc", {}, setup, watch);
    ASSERT_TRUE(outcome.ok());
    EXPECT_FALSE(outcome->stopped) << seed;
    EXPECT_EQ(counter(*outcome, "left_waiting"), 0u) << seed;
  }
}

TEST(Elastic, policies_that_would_have_to_know_who_is_parked_are_refused_by_name) {
  for (const char* policy : {"fcfs", "jbsq", "altocumulus"}) {
    const Result<Outcome> outcome = simulate(policy, {}, at_load(0.5, "static", 1000));
    ASSERT_FALSE(outcome.ok()) << policy;
    EXPECT_NE(outcome.error().find("not '" + std::string(policy) + "'"), std::string::npos);
  }
  sim::Setup setup = at_load(0.5, "none", 1000);
  EXPECT_EQ(simulate("steal", {}, setup).error(),
            "cores: 'none' is not one of " + overload::core_rule_names());
}

// `steal` or `sbb` on cores that it leaves at once, and that only the NIC gives back (SBB 4.2): no
// request waits for long enough for the allocator.
Setup interrupted(double rate_rps, Nanos interrupt = Nanos(3400), uint64_t requests = 20'000) {
  sim::Setup setup = at_load(0, "reactive", requests);
  setup.costs = load_costs("sbb-testbed").value();
  setup.costs.cores.interrupt = interrupt;
  setup.workload.mixes = {parse_mix("fixed-1").value()};
  setup.workload.rate = rate_rps;
  setup.warmup = 0;
  setup.elastic->uses_credits = false;
  setup.elastic->cores_settings = {{"poll", "0us"}, {"threshold", "1s"}};
  return setup;
}

int that_have_worked(const Outcome& outcome) {
  return static_cast<int>(std::count_if(outcome.worker_busy.begin(), outcome.worker_busy.end(),
                                        [](double busy) { return busy > 0; }));
}

TEST(Elastic, an_interrupt_of_the_nic_wakes_the_worker_of_the_packet_and_no_other) {
  sim::Setup setup = interrupted(20e3);
  setup.elastic->clients.sessions = 1;
  setup.workload.flows.count = 1;
  for (const char* policy : {"steal", "sbb"}) {
    const Outcome own = run(setup, policy);
    EXPECT_EQ(that_have_worked(own), 1) << policy;
    EXPECT_GT(own.elastic->wakes, 10'000u) << policy;
    EXPECT_EQ(own.elastic->parks, own.elastic->wakes + 16) << policy;  // all had a core at first
  }
}

TEST(Elastic, whom_an_interrupt_wakes_begins_that_much_later) {
  const auto median_us = [](Nanos interrupt) {
    return run(interrupted(1e3, interrupt, 2'000), "sbb").types[0].latency.percentile(50).micros();
  };
  EXPECT_NEAR(median_us(Nanos::micros(20)) - median_us(Nanos::micros(10)), 10, 0.2);
}

TEST(Elastic, what_workers_have_of_the_cores_is_what_they_do_and_what_moving_costs) {
  for (const double rate_rps : {0.1e6, 2e6, 6e6}) {
    sim::Setup setup = interrupted(rate_rps, Nanos(3400), 100'000);
    setup.costs.cores.park = Nanos();
    const Outcome free = run(setup, "sbb");
    EXPECT_NEAR(free.elastic->granted_share, free.busy_share, 0.005) << rate_rps;
    setup.costs.cores.park = Nanos::micros(10);
    const Outcome slow = run(setup, "sbb");
    EXPECT_GT(slow.elastic->granted_share, slow.busy_share) << rate_rps;
    EXPECT_LT(slow.elastic->granted_share, 1.001) << rate_rps;  // no core is in use twice
  }
}

TEST(Elastic, a_worker_that_is_about_to_leave_its_core_leaves_it_before_it_is_back) {
  const auto longest_us = [](Nanos park) {
    sim::Setup setup = interrupted(20e3);
    setup.costs.cores.park = park;
    return run(setup, "sbb").types[0].latency.max().micros();
  };
  EXPECT_NEAR(longest_us(Nanos::micros(100)) - longest_us(Nanos()), 100, 15);
}

TEST(Elastic, where_the_nic_wakes_workers_nothing_waits_for_ever) {
  for (const char* policy : {"cfcfs", "steal", "zygos", "darc", "synergy", "sbb"}) {
    for (const char* machine : {"coresync-testbed", "sbb-testbed"}) {
      for (const char* cores : {"reactive", "util-range", "coresync"}) {
        sim::Setup setup = at_load(0.3, cores, 5'000);
        setup.costs = load_costs(machine).value();
        setup.costs.cores.interrupt = Nanos(3400);
        setup.costs.stalls = {Nanos::millis(1), Nanos::micros(50), StallLengths::kConstant,
                              StallsHit::kCore};
        const Outcome outcome = run(setup, policy);
        EXPECT_EQ(counter(outcome, "left_waiting"), 0u) << policy << " " << machine << " " << cores;
      }
    }
  }
}

TEST(Elastic, credits_keep_goodput_and_latency_where_an_unprotected_server_drowns) {
  sim::Setup setup = at_load(1.5, "static", 200'000);
  const Outcome guarded = run(setup);
  setup.elastic->uses_credits = false;
  const Outcome drowned = run(setup);
  const Outcome at_08 = run(at_load(0.8, "static", 200'000));
  EXPECT_GT(goodput(guarded), 0.95 * kCapacityRps);
  EXPECT_LT(p99_us(guarded), 3 * p99_us(at_08));
  EXPECT_GT(p99_us(drowned), 100 * p99_us(at_08));
}

TEST(Elastic, an_aqm_alone_bounds_what_a_request_waits) {
  sim::Setup setup = at_load(1.5, "static", 200'000);
  setup.elastic->uses_credits = false;
  setup.refusal_rule = {.target_delay = Nanos::micros(80), .patience = Nanos(), .budget = 1};
  const Outcome outcome = run(setup);
  EXPECT_LT(p99_us(outcome), 400);
  EXPECT_GT(outcome.types[0].refused, 10'000u);
  EXPECT_EQ(unsent(outcome), 0u);
}

TEST(Elastic, guaranteed_cores_are_never_given_away) {
  sim::Setup setup = at_load(0.05, "reactive", 20'000);
  setup.elastic->guaranteed = 6;
  const Outcome outcome = run(setup);
  EXPECT_GE(outcome.elastic->cores, 6);
  EXPECT_LT(outcome.elastic->cores, 7);
}

// Half of the work is that of short requests, so half of the 16 workers are theirs: of nine or ten
// cores four or five, where the last nine workers would leave them one.
TEST(Elastic, of_the_cores_as_large_a_part_is_reserved_as_of_all_workers) {
  sim::Setup setup = at_load(1, "util-range", 300'000);
  setup.costs = load_costs("ideal").value();
  setup.workload.mixes = {parse_mix("short:1us:99,long:100us:1").value()};
  setup.workload.rate = 0.5 * 16e9 / mean_service_ns(setup.workload);
  setup.elastic->cores_settings = {{"threshold", "0us"}, {"interval", "100us"}, {"low", "0.85"}};
  const Outcome outcome = run(setup, "darc", {{"window", "20000"}});
  EXPECT_LT(outcome.elastic->cores, 10);
  EXPECT_LT(p99_us(outcome), 20);  // 34 with the last workers
}

// docs/decisions/011-overload-by-class.md
TEST(Elastic, a_preempted_long_request_does_not_read_as_overload) {
  sim::Setup setup = at_load(1, "coresync", 400'000);
  setup.costs = load_costs("synergy-testbed").value();
  setup.workload.mixes = {parse_mix("extreme-bimodal").value()};
  setup.workload.rate = 0.7 * 16e9 / mean_service_ns(setup.workload);
  setup.warmup = 0.5;
  setup.elastic->credits.session_limit = 8;
  const Outcome by_class = run(setup, "synergy");
  setup.elastic->delay_by_class = false;
  const Outcome oldest = run(setup, "synergy");
  EXPECT_LT(unsent(by_class), by_class.measured / 100);
  EXPECT_GT(unsent(oldest), oldest.measured / 10);
}

}  // namespace
}  // namespace rubato::sim
