// SPDX-License-Identifier: Apache-2.0
//
// What each price of a cost file delays, and by how much: recorded requests whose timeline is
// worked out by hand.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "policy/cfcfs.h"
#include "policy/concord.h"
#include "policy/darc.h"
#include "policy/fcfs.h"
#include "policy/jbsq.h"
#include "policy/las.h"
#include "policy/ps.h"
#include "policy/srpt.h"
#include "policy/steal.h"
#include "policy/synergy.h"
#include "policy/tiny_quanta.h"
#include "sim/testing/runs.h"
#include "sim/testing/scripted.h"

namespace rubato::sim {
namespace {

int64_t overhead_ns(const Outcome& outcome, uint32_t workers) {
  const double worker_ns = static_cast<double>(outcome.simulated.count()) * workers;
  return std::llround((outcome.busy_share - outcome.useful_share) * worker_ns);
}

struct OnePrice {
  const char* name;
  std::function<void(Costs&)> set;
  int64_t delay;
};

constexpr int64_t kService = 5000;
const std::vector<Shot> kAlone = {{1000, kService}};

TEST(Engine, each_price_delays_a_request_that_is_alone_by_what_it_says) {
  const OnePrice prices[] = {
      {"nothing", [](Costs&) {}, 0},
      {"network_rtt", [](Costs& c) { c.network_rtt = Nanos(1000); }, 1000},
      {"pcie, in and out", [](Costs& c) { c.nic.pcie = Nanos(100); }, 200},
      {"dispatcher", [](Costs& c) { c.dispatcher = Nanos(70); }, 70},
      {"receive", [](Costs& c) { c.worker.receive = price(50); }, 50},
      {"send", [](Costs& c) { c.worker.send = price(60); }, 60},
      {"after the reply", [](Costs& c) { c.worker.after_send = Nanos(60); }, 0},
      {"take", [](Costs& c) { c.worker.take = price(30); }, 30},
      {"notice", [](Costs& c) { c.worker.notice = Nanos(40); }, 40},
      {"put, by the NIC", [](Costs& c) { c.worker.put = price(10); }, 0},
      {"poll and put, by the worker",
       [](Costs& c) {
         c.nic.delivery = Delivery::kPolled;
         c.worker.poll = price(20);
         c.worker.put = price(10);
       },
       30},
      {"feedback of a short one", [](Costs& c) { c.worker.feedback = Nanos(25); }, 0},
      {"resume, fresh fiber, transfer of others",
       [](Costs& c) {
         c.worker.resume = c.worker.fresh_fiber = c.worker.steal = price(99);
         c.worker.cache_transfer = Nanos(99);
       },
       0},
  };
  for (const OnePrice& p : prices) {
    sim::Setup setup = scripted(1, kAlone);
    p.set(setup.costs);
    EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 0), kService + p.delay) << p.name;
    EXPECT_EQ(latency_of_shot(run<Fcfs>(setup), 0), kService + p.delay) << p.name;
  }
}

TEST(Engine, a_tail_price_is_drawn_one_time_in_a_thousand) {
  sim::Setup setup = ideal(16, "fixed-1", 0.3, 400'000);
  setup.costs.worker.receive = {Nanos(10), Nanos(5000)};
  const int64_t overhead = overhead_ns(run<Cfcfs>(setup), 16);
  const double tails = static_cast<double>(overhead - 400'000 * 10) / 4990;
  EXPECT_NEAR(tails, 400, 100);  // five standard deviations
}

TEST(Engine, a_long_request_pays_for_its_feedback) {
  sim::Setup setup = scripted(1, kAlone);
  setup.costs.worker.feedback = Nanos(25);
  setup.long_over = Nanos(kService);
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 0), kService + 25);
}

TEST(Engine, slices_of_a_request_that_is_alone_cost_by_who_looks_at_their_end) {
  const Ps::Config slices{.quantum = Nanos(2000)};  // two ends before the request is done
  sim::Setup setup = scripted(1, kAlone);
  Costs::Preemption& preemption = setup.costs.preemption;
  preemption.arm = price(15);
  preemption.send = preemption.propagation = preemption.receive = price(10);
  preemption.done = price(20);
  setup.costs.worker.look = Nanos(1);
  EXPECT_EQ(latency_of_shot(run<Ps>(setup, slices), 0), kService + 15);
  preemption.clock = Clock::kSelf;
  const Outcome own = run<Ps>(setup, slices);
  EXPECT_EQ(latency_of_shot(own, 0), kService + 15 + 2 * (10 + 1 + 20));
  EXPECT_EQ(own.counters.preemptions_avoided, 2u);
  EXPECT_EQ(own.counters.preemptions, 0u);
  // A late end lets the request run on: the ends come at 2.1 and 4.2 us of it.
  preemption.overshoot = price(100);
  EXPECT_EQ(latency_of_shot(run<Ps>(setup, slices), 0), kService + 15 + 2 * (10 + 1 + 20));
}

// Of the checkpoints every 0.5 us of work the worker looks at three of a slice, and at the one that
// ends it; of the last, shorter slice at one.
TEST(Engine, a_slice_ends_at_a_checkpoint_and_looks_at_others_take_time) {
  sim::Setup setup = scripted(1, kAlone);
  setup.costs.preemption.clock = Clock::kSelf;
  setup.costs.preemption.checkpoints = Nanos(500);
  setup.costs.preemption.check = Nanos(10);
  const Outcome outcome = run<Ps>(setup, {.quantum = Nanos(2000)});
  EXPECT_EQ(latency_of_shot(outcome, 0), kService + (2 + 2 + 1) * 10);
  EXPECT_EQ(outcome.counters.preemptions_avoided, 2u);
}

// A slice without an end is looked at, too: after 64 checkpoints, and then every 100 us.
TEST(Engine, rare_looks_at_a_request_that_runs_to_its_end_take_time) {
  sim::Setup setup = scripted(1, {{1000, 6400}, {20'000, 100'000}, {200'000, 110'000}});
  setup.costs.preemption.clock = Clock::kSelf;
  setup.costs.preemption.checkpoints = Nanos(100);
  setup.costs.preemption.check = Nanos(50);
  const Outcome outcome = run<Cfcfs>(setup);
  EXPECT_EQ(latency_of_shot(outcome, 0), 6400);
  EXPECT_EQ(latency_of_shot(outcome, 1), 100'000 + 50);
  EXPECT_EQ(latency_of_shot(outcome, 2), 110'000 + 2 * 50);
}

// Looks that take more or less end the slices of one request at several of its checkpoints.
TEST(Engine, looks_at_checkpoints_may_spread) {
  sim::Setup setup = scripted(1, {{1000, 100'000}});
  setup.costs.preemption.clock = Clock::kSelf;
  setup.costs.preemption.checkpoints = Nanos(100);
  setup.costs.preemption.check = Nanos(50);
  const int64_t alike = latency_of_shot(run<Ps>(setup, {.quantum = Nanos(2000)}), 0);
  EXPECT_EQ((alike - 100'000) % 50, 0);
  setup.costs.preemption.check_spread = Nanos(40);
  const int64_t spread = latency_of_shot(run<Ps>(setup, {.quantum = Nanos(2000)}), 0);
  EXPECT_NE((spread - 100'000) % 50, 0);
  EXPECT_NEAR(static_cast<double>(spread), static_cast<double>(alike), 0.02 * 100'000);
}

// The way to the request is part of its first slice, so that a second one ends before it is done.
TEST(Engine, slices_may_count_from_the_last_reading_of_the_clock) {
  sim::Setup setup = scripted(1, {{1000, 3900}});
  setup.costs.preemption.clock = Clock::kSelf;
  setup.costs.worker.receive = price(300);
  EXPECT_EQ(run<Ps>(setup, {.quantum = Nanos(2000)}).counters.preemptions_avoided, 1u);
  setup.costs.worker.clock = WorkerClock::kReadings;
  const Outcome outcome = run<Ps>(setup, {.quantum = Nanos(2000)});
  EXPECT_EQ(outcome.counters.preemptions_avoided, 2u);
  EXPECT_EQ(latency_of_shot(outcome, 0), 300 + 3900);
}

// What a worker learns of a request holds the way there and the reply, as its clock does: 2 us of
// the short one, so that the long one has 5 slices instead of 10.
TEST(Engine, a_quantum_that_follows_services_follows_what_the_clock_says_of_them) {
  sim::Setup setup = scripted(1, {{1000, 1000}, {10'000, 10'000}});
  setup.long_over = Nanos(10'000);
  setup.costs.preemption.clock = Clock::kSelf;
  setup.costs.worker.receive = setup.costs.worker.send = price(500);
  const Synergy::Config config{.quantum_factor = 1, .ema_shift = 0, .ema_clip = 0};
  EXPECT_EQ(run<Synergy>(setup, config).counters.preemptions_avoided, 9u);
  setup.costs.worker.clock = WorkerClock::kReadings;
  EXPECT_EQ(run<Synergy>(setup, config).counters.preemptions_avoided, 4u);
}

// The first one waits with the service until its worker had polled. The second one, whose slice
// ends up to a checkpoint later, has less at its end: the poll does not count yet.
TEST(Engine, a_policy_is_asked_with_the_service_before_the_poll_at_the_end_of_a_slice) {
  for (int64_t later = 0; later < 50; later += 5) {
    sim::Setup setup = scripted(1, {{1000, 3000}, {1001, 3000}});
    setup.costs.preemption.clock = Clock::kSelf;
    setup.costs.preemption.checkpoints = Nanos(50);
    setup.costs.preemption.receive = price(200);
    setup.costs.preemption.receive_read = Nanos(200);
    setup.costs.worker.clock = WorkerClock::kReadings;
    setup.costs.worker.fresh_fiber = price(later);
    const Outcome outcome = run<Las>(setup, {.quantum = Nanos(1930)});
    EXPECT_EQ(outcome.counters.preemptions, 1u) << later;
    EXPECT_EQ(outcome.counters.preemptions_avoided, 1u) << later;
  }
}

TEST(Engine, an_idle_worker_sees_what_has_come_when_it_comes_round) {
  sim::Setup setup = scripted(1, {{1000, kService}, {10'100, 1000}});
  setup.costs.nic.delivery = Delivery::kPolled;
  setup.costs.worker.idle_round = Nanos(300);
  setup.costs.worker.idle_round_each = Nanos(100);
  const Outcome outcome = run<Cfcfs>(setup);  // it goes round from 6000 on, every 400
  EXPECT_EQ(latency_of_shot(outcome, 0), kService);
  EXPECT_EQ(latency_of_shot(outcome, 1), 300 + 1000);
}

// A worker of two that idles goes round every 500, or every 400 if it helps nobody.
void go_round(sim::Setup& setup) {
  setup.costs.nic.delivery = Delivery::kPolled;
  setup.costs.nic.steering = Steering::kRoundRobin;
  setup.costs.nic.help_after = Nanos::micros(100);
  setup.costs.worker.idle_round = Nanos(300);
  setup.costs.worker.idle_round_each = Nanos(100);
}

// It idles from 6000 on.
TEST(Engine, an_idle_worker_that_helps_nobody_does_not_look_at_the_others) {
  sim::Setup setup = scripted(2, {{1000, kService}, {1000, kService}, {10'100, 1000}});
  go_round(setup);
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 2), 400 + 1000);
  EXPECT_EQ(latency_of_shot(run<Fcfs>(setup), 2), 300 + 1000);
}

// Worker 0 has a long request, and is late from 101'000 on. Worker 1 goes round, every 500 or, from
// then on, every 700: it has taken the third request and idles from 101'200 or 101'400 on.
TEST(Engine, a_round_takes_longer_beside_workers_that_do_not_come_to_their_rings) {
  sim::Setup setup = scripted(2, {{1000, 1'000'000}, {1000, 100}, {2000, 100}, {200'150, 100}});
  go_round(setup);
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 3), 50 + 100);
  setup.costs.worker.idle_round_stuck = Nanos(200);
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 3), 650 + 100);
}

// Worker 0 takes the first request, which worker 1 has polled, at 1000 and idles from 2100 on. It
// polls the second one at 2600, to take it at 2800; worker 1, which found nothing at 1200, comes by
// at 2700. If it takes 150 until they see that, worker 0 polls at 2750, and takes it at 2950.
TEST(Engine, who_goes_round_may_be_faster_than_the_worker_that_has_polled) {
  sim::Setup setup = scripted(2, {{1000, 1100}, {2550, 1000}});
  go_round(setup);
  setup.costs.worker.clock = WorkerClock::kReadings;
  setup.costs.worker.notice = Nanos(200);
  const Outcome outcome = run<Cfcfs>(setup);
  EXPECT_EQ(latency_of_shot(outcome, 0), 1100);
  EXPECT_EQ(latency_of_shot(outcome, 1), 150 + 1000);
  EXPECT_EQ(latency_of_shot(run<Steal>(setup), 0), 1100);  // stolen from its own queue
  setup.costs.preemption.propagation = price(150);
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 1), 400 + 1000);
}

// The worker polls from 3100 to 4100 what came at 1500, and from 5200 on what came at 3500.
TEST(Engine, a_poll_takes_what_was_there_when_it_began) {
  sim::Setup setup = scripted(1, {{1000, 1000}, {1500, 1000}, {3500, 1000}});
  go_round(setup);
  setup.costs.worker.clock = WorkerClock::kReadings;
  setup.costs.worker.poll = price(500);
  setup.costs.worker.admit = Nanos(500);
  setup.costs.worker.after_send = Nanos(100);
  const Outcome outcome = run<Fcfs>(setup);
  EXPECT_EQ(latency_of_shot(outcome, 1), 5100 - 1500);
  EXPECT_EQ(latency_of_shot(outcome, 2), 7200 - 3500);
  setup.costs.worker.poll_look = Nanos(500);  // at 3600 or earlier: the third one is there
  EXPECT_LT(latency_of_shot(run<Fcfs>(setup), 2), 7200 - 3500);
}

// The slices of workers 0 and 1 end at once, and both poll a request for another one: worker 2, and
// worker 3 only if what the first has put is seen at once.
TEST(Engine, two_workers_that_route_at_once_choose_the_same_idle_one) {
  sim::Setup setup = scripted(4, {{1000, 90'000}, {1000, 90'000}, {1000, 100}, {1000, 100},
                                  {2000, 1000}, {2000, 1000}});
  go_round(setup);
  setup.costs.preemption.clock = Clock::kSelf;
  setup.costs.worker.clock = WorkerClock::kReadings;
  const TinyQuanta::Config config{.quantum = Nanos(3000)};
  const auto later = [&] {
    const Outcome outcome = run<TinyQuanta>(setup, config);
    return latency_of_shot(outcome, 5) - latency_of_shot(outcome, 4);
  };
  EXPECT_LT(later(), 1000);
  setup.costs.preemption.propagation = price(50);
  EXPECT_EQ(later(), 1000);
}

// At 4500 worker 0 has polled a request. It leaves it to worker 1, which is done at 3800 and polls
// until 4800; if that one were done at 4580 it would keep it.
TEST(Engine, a_worker_between_two_requests_seems_free) {
  const auto latency_beside = [](int64_t arrives, int64_t service) {
    sim::Setup setup = scripted(2, {{1000, 90'000}, {arrives, service}, {2000, 100}});
    setup.costs.nic.delivery = Delivery::kPolled;
    setup.costs.nic.steering = Steering::kRoundRobin;
    setup.costs.preemption.clock = Clock::kSelf;
    setup.costs.worker.clock = WorkerClock::kReadings;
    setup.costs.worker.poll = price(1000);
    setup.costs.worker.after_send = Nanos(100);
    return latency_of_shot(run<TinyQuanta>(setup, {.quantum = Nanos(1500)}), 2);
  };
  EXPECT_EQ(latency_beside(1300, 1400), 2800 + 100);
  EXPECT_EQ(latency_beside(1990, 1490), 2500 + 100);
}

// Both arrive together, and the second worker waits until the first has left the queue.
TEST(Engine, an_ordered_queue_is_one_workers_at_a_time) {
  sim::Setup setup = scripted(2, {{1000, kService}, {1000, kService}});
  setup.costs.worker.take = price(7);
  setup.costs.worker.ordered_take = price(30);
  EXPECT_EQ(latency_of_shot(run<Srpt>(setup), 1), kService + 7);
  setup.costs.worker.ordered_alone = Nanos(40);
  const Outcome outcome = run<Srpt>(setup);
  EXPECT_EQ(latency_of_shot(outcome, 0), kService + 30);
  EXPECT_EQ(latency_of_shot(outcome, 1), kService + 40 + 30);
}

// Worker 0 has the second request, then the fourth, and steals the third from worker 1 at 2114,
// where the fifth is left. Worker 1 takes that at 6007.
TEST(Engine, who_was_stolen_from_waits_for_the_thief_and_then_for_its_lines) {
  sim::Setup setup =
      scripted(2, {{1000, 5000}, {1000, 1000}, {1010, 9000}, {1020, 100}, {1030, 100}});
  setup.costs.worker.take = price(7);
  setup.costs.worker.steal = price(200);
  const auto begins = [&] { return latency_of_shot(run<Steal>(setup), 4) + 1030 - 100; };
  EXPECT_EQ(begins(), 6007 + 7);
  setup.costs.worker.stolen_from = Nanos(50);
  EXPECT_EQ(begins(), 6007 + 50 + 7);
  setup.costs.worker.steal = price(6000);
  EXPECT_EQ(begins(), 2114 + 6000 + 50 + 7);
}

// Of three that begin at once each waits for the transfers of those before it. Worker 0, which is
// done first, then takes two: the first from worker 2's cache.
TEST(Engine, workers_wait_by_turns_for_the_line_of_a_queue_that_they_share) {
  sim::Setup setup =
      scripted(3, {{1000, 1000}, {1000, 5000}, {1000, 5000}, {1500, 100}, {1500, 100}});
  setup.costs.worker.take = price(7);
  setup.costs.worker.shared_line = Nanos(70);
  const Outcome shared = run<Cfcfs>(setup);
  EXPECT_EQ(latency_of_shot(shared, 0), 1000 + 7);
  EXPECT_EQ(latency_of_shot(shared, 1), 5000 + 70 + 7);
  EXPECT_EQ(latency_of_shot(shared, 2), 5000 + 2 * 70 + 7);
  EXPECT_EQ(latency_of_shot(shared, 3), 2007 + 70 + 7 + 100 - 1500);
  EXPECT_EQ(latency_of_shot(shared, 4), 2184 + 7 + 100 - 1500);
  EXPECT_EQ(latency_of_shot(run<Fcfs>(setup), 2), 5000 + 7);  // nobody else uses its inbox
}

// In ns: what takes 5000 alone takes 7500 beside a busy sibling.
TEST(Engine, siblings_that_are_both_busy_take_longer) {
  sim::Setup setup = scripted(2, {{1000, 5000}, {3000, 9000}});
  setup.costs.hyperthreads = {.threads = 2, .slowdown = 150, .placement = Placement::kPack};
  // The second one has the core to itself for the last 6000 of its work.
  const Outcome packed = run<Cfcfs>(setup);
  EXPECT_NEAR(static_cast<double>(latency_of_shot(packed, 0)), 2000 + 3000 * 1.5, 5);
  EXPECT_NEAR(static_cast<double>(latency_of_shot(packed, 1)), 3000 * 1.5 + 6000, 5);
  EXPECT_NEAR(static_cast<double>(overhead_ns(packed, 2)), 2 * 1500, 10);
  setup.costs.hyperthreads.threads = 4;
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 0), latency_of_shot(packed, 0));
  setup.costs.hyperthreads.placement = Placement::kSpread;
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 0), 5000);
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 1), 9000);
}

// In ns: what takes 5000 takes 10000 on a worker of half the speed, and a slice likewise.
TEST(Engine, slow_workers_take_longer) {
  sim::Setup setup = scripted(2, {{1000, 5000}, {1000, 5000}, {3000, 9000}});
  setup.worker_speeds = {1, 0.5};
  const Outcome whole = run<Cfcfs>(setup);
  const auto first = static_cast<double>(latency_of_shot(whole, 0));
  const auto second = static_cast<double>(latency_of_shot(whole, 1));
  EXPECT_NEAR(std::min(first, second), 5000, 5);
  EXPECT_NEAR(std::max(first, second), 10'000, 5);
  EXPECT_NEAR(static_cast<double>(latency_of_shot(whole, 2)), 3000 + 9000, 10);
  setup = scripted(1, {{1000, 12'000}, {1000, 4'000}});
  setup.worker_speeds = {0.5};
  const Outcome sliced = run<Ps>(setup, {.quantum = Nanos::micros(4)});
  EXPECT_NEAR(static_cast<double>(latency_of_shot(sliced, 1)), 16'000, 20);
  EXPECT_NEAR(static_cast<double>(latency_of_shot(sliced, 0)), 32'000, 40);
}

// Three requests take turns at two siblings, which are always busy. A slice of 4000 of work lasts
// 6000, so that the third, which has two of them, waits for the first slices and runs in the next.
TEST(Engine, slices_beside_a_busy_sibling_are_of_work) {
  sim::Setup setup = scripted(2, {{1000, 12'000}, {1000, 12'000}, {1000, 8'000}});
  setup.costs.hyperthreads = {.threads = 2, .slowdown = 150, .placement = Placement::kPack};
  const Outcome outcome = run<Ps>(setup, {.quantum = Nanos::micros(4)});
  EXPECT_NEAR(static_cast<double>(latency_of_shot(outcome, 2)), 18'000, 30);
}

// ---- Critical sections ------------------------------------------------------------------------

constexpr Ps::Config kSlices{.quantum = Nanos(2000)};

// One worker, and a request that comes while another one runs, from 1000 on.
sim::Setup one_behind(uint32_t sections, int64_t length_ns, Clock clock) {
  sim::Setup setup = scripted(1, {{1000, kService}, {1100, 1000}});
  setup.costs.critical_sections = {.count = sections, .length = Nanos(length_ns)};
  setup.costs.preemption.clock = clock;
  return setup;
}

TEST(Engine, a_slice_that_ends_in_a_critical_section_ends_with_it) {
  for (const Clock clock : {Clock::kSelf, Clock::kTimerCore}) {
    for (const int64_t checkpoints_ns : {0, 500}) {
      if (clock == Clock::kTimerCore && checkpoints_ns > 0) continue;
      sim::Setup setup = one_behind(1, 3000, clock);
      setup.costs.preemption.checkpoints = Nanos(checkpoints_ns);
      const Outcome deferred = run<Ps>(setup, kSlices);
      EXPECT_EQ(latency_of_shot(deferred, 1), 4000 + 1000 - 1100);
      EXPECT_EQ(latency_of_shot(deferred, 0), 4000 + 1000 + 2000 - 1000);
      EXPECT_EQ(deferred.counters.preemptions, 1u);
      setup.costs.critical_sections.length = Nanos(1000);
      EXPECT_EQ(latency_of_shot(run<Ps>(setup, kSlices), 1), 3000 + 1000 - 1100);
    }
  }
}

// The slice ends at 3000, before the second section, in which the notification comes: the worker
// feels it when the request is done.
TEST(Engine, a_notification_that_comes_in_a_section_waits_for_its_end) {
  sim::Setup setup = one_behind(2, 1000, Clock::kTimerCore);
  setup.costs.preemption.propagation = price(1500);
  setup.costs.preemption.receive = price(30);
  const Outcome before = run<Ps>(setup, kSlices);
  EXPECT_EQ(latency_of_shot(before, 1), 4500 + 30 + 1000 - 1100);
  setup.costs.preemption.propagation = price(2500);
  const Outcome within = run<Ps>(setup, kSlices);
  EXPECT_EQ(latency_of_shot(within, 0), kService);
  EXPECT_EQ(latency_of_shot(within, 1), 6000 + 30 + 1000 - 1100);
  EXPECT_EQ(more(within, "late_notifications"), 1u);
  setup.costs.critical_sections.count = 3;  // the second one from 3000 on, the third from 5000
  setup.costs.preemption.propagation = price(500);
  EXPECT_EQ(latency_of_shot(run<Ps>(setup, kSlices), 1), 4000 + 30 + 1000 - 1100);
}

// Worker 0 has the lock from 1000 to 2000, worker 1 then until 3000, and so on at their ends.
TEST(Engine, a_lock_is_one_workers_at_a_time) {
  sim::Setup setup = scripted(2, {{1000, kService}, {1000, kService}});
  setup.costs.critical_sections = {.count = 2, .length = Nanos(1000), .lock = Lock::kSpin};
  const Outcome outcome = run<Cfcfs>(setup);
  EXPECT_EQ(latency_of_shot(outcome, 0), kService);
  EXPECT_EQ(latency_of_shot(outcome, 1), 1000 + kService);
  EXPECT_EQ(more(outcome, "lock_waits"), 1u);
  EXPECT_EQ(overhead_ns(outcome, 2), 1000);
  // With its line each of them pays before its second section, and the second worker before.
  setup.costs.worker.shared_line = Nanos(100);
  const Outcome shared = run<Cfcfs>(setup);
  EXPECT_EQ(latency_of_shot(shared, 0), kService + 100);
  EXPECT_EQ(latency_of_shot(shared, 1), 1000 + kService + 2 * 100);
  setup.costs.critical_sections.lock = Lock::kNone;
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 0), kService);
}

// Two long requests find the lock taken at worker 1. Each gives way to the other, at 30 ns; one
// then waits on the worker, and the other comes back at 3010.
TEST(Engine, a_long_request_that_yields_for_a_lock_lets_another_run_first) {
  sim::Setup setup = scripted(2, {{1000, kService}, {1000, 1000}, {1000, 500}});
  setup.costs.critical_sections = {.count = 1, .length = Nanos(1000), .lock = Lock::kYield};
  setup.costs.worker.take = price(10);
  setup.costs.worker.fresh_fiber = price(30);
  setup.costs.worker.resume = price(20);
  EXPECT_EQ(more(run<Cfcfs>(setup), "lock_yields"), 0u);
  setup.long_over = Nanos(1);
  const Outcome outcome = run<Cfcfs>(setup);
  EXPECT_EQ(more(outcome, "lock_yields"), 2u);
  EXPECT_EQ(more(outcome, "lock_waits"), 1u);
  EXPECT_EQ(latency_of_shot(outcome, 0), 10 + kService);
  EXPECT_EQ(latency_of_shot(outcome, 1), 3010 - 1000);
  EXPECT_EQ(latency_of_shot(outcome, 2), 3010 + 20 + 500 - 1000);
}

// The sections of a closed system that is always busy are all of its time: so many per second.
TEST(Engine, a_lock_bounds_the_throughput_of_all_workers_together) {
  sim::Setup setup = ideal(4, "fixed-1", 0.9, 20'000);
  setup.costs.critical_sections = {.count = 1, .length = Nanos(500), .lock = Lock::kSpin};
  const Outcome outcome = run<Cfcfs>(setup);
  EXPECT_NEAR(outcome.simulated.seconds(), 20'000 * 500e-9, 20'000 * 500e-9 * 0.01);
}

TEST(Engine, no_core_parks_beside_a_request_that_yields_for_a_lock) {
  sim::Setup setup = ideal(4, "fixed-1", 0.5, 1000);
  setup.costs.critical_sections = {.count = 1, .length = Nanos(10), .lock = Lock::kYield};
  setup.elastic.emplace();
  setup.elastic->cores = "coresync";
  EXPECT_EQ(simulate("cfcfs", {}, setup).error(),
            "costs: critical_sections.lock = \"yield\" does not go with sessions and cores");
}

TEST(Engine, a_machine_has_a_hardware_thread_for_every_worker) {
  sim::Setup setup = ideal(4, "fixed-1", 0.5, 1000);
  setup.costs.hyperthreads.threads = 3;
  EXPECT_EQ(simulate("cfcfs", {}, setup).error(),
            "costs: hyperthreads.threads: the machine has fewer than there are workers");
}

// Persephone, Algorithm 1: the long ones go to the first worker that is free of those that may
// serve them, which is 1 of 8, and the short ones to worker 0.
TEST(Engine, of_the_idle_workers_darc_takes_those_that_are_reserved) {
  sim::Setup setup = ideal(8, "high-bimodal", 0.2, 40'000);
  const Outcome outcome = run<Darc>(setup, {.window = 1000});
  for (uint32_t w = 2; w < 8; ++w) {
    EXPECT_LT(outcome.worker_busy[w], 0.9 * outcome.worker_busy[w - 1]) << w;
  }
}

// A look at the central queue, two at the worker, and one at the central queue, now empty.
TEST(Engine, what_a_worker_dispatches_comes_that_much_later) {
  sim::Setup setup = scripted(1, kAlone);
  setup.costs.worker.look = Nanos(5);
  EXPECT_EQ(latency_of_shot(run<Jbsq>(setup), 0), kService);
  setup.costs.dispatch_by = DispatchBy::kWorkers;
  EXPECT_EQ(latency_of_shot(run<Jbsq>(setup), 0), kService + 4 * 5);
}

// A and B take turns of 4 us and what the notification takes.
TEST(Engine, preemption_by_the_timer_core_takes_its_way) {
  sim::Setup setup = scripted(1, {{1000, 10'000}, {1001, 10'000}});
  setup.costs.worker.take = price(3);
  setup.costs.worker.put = price(7);
  setup.costs.worker.receive = price(11);
  setup.costs.worker.send = price(13);
  setup.costs.worker.fresh_fiber = price(30);
  setup.costs.worker.resume = price(40);
  setup.costs.worker.resume_alone = Nanos(8);
  Costs::Preemption& preemption = setup.costs.preemption;
  preemption.arm = price(5);
  preemption.send = price(200);
  preemption.propagation = price(300);
  preemption.receive = price(20);
  preemption.done = price(999);  // only a worker that goes on with the same request pays it
  const Outcome outcome = run<Ps>(setup, {.quantum = Nanos(4000)});
  constexpr int64_t kTurn = 4000 + 200 + 300;
  constexpr int64_t kStart = 3 + 11 + 5;             // take, receive, arm
  constexpr int64_t kCut = 20 + 7 + 30;              // receive, put, fresh fiber
  constexpr int64_t kAgain = 3 + 40 + 5;             // take, resume, arm
  constexpr int64_t kRest = 10'000 - 2 * kTurn;      // of each, for its third turn
  constexpr int64_t kADone = 1000 + kStart + kTurn + (kCut + kStart) + kTurn + (kCut + kAgain) +
                             kTurn + (kCut + kAgain) + kTurn + (kCut + kAgain) + kRest;
  EXPECT_EQ(latency_of_shot(outcome, 0), kADone + 13 - 1000);
  // B goes on after a reply, not after a cut.
  EXPECT_EQ(latency_of_shot(outcome, 1), kADone + 13 + kAgain + 8 + kRest + 13 - 1001);
  EXPECT_EQ(outcome.counters.preemptions, 4u);
  EXPECT_EQ(outcome.counters.migrations, 0u);
}

TEST(Engine, preemption_by_the_workers_own_timer_takes_its_way) {
  sim::Setup setup = scripted(1, {{1000, 6000}, {1001, 1000}});
  Costs::Preemption& preemption = setup.costs.preemption;
  preemption.clock = Clock::kSelf;
  preemption.overshoot = price(100);
  preemption.receive = price(20);
  preemption.send = preemption.propagation = price(999);  // no worker is notified
  setup.costs.worker.look = Nanos(2);
  const Outcome outcome = run<Ps>(setup, {.quantum = Nanos(4000)});
  EXPECT_EQ(latency_of_shot(outcome, 1), 4000 + 100 + 20 + 2 + 1000 - 1);
  EXPECT_EQ(latency_of_shot(outcome, 0), 6000 + 20 + 2 + 1000);
}

TEST(Engine, the_timer_core_sends_one_notification_after_the_other) {
  sim::Setup setup = scripted(2, {{1000, 10'000}, {1000, 10'000}, {1001, 1000}, {1001, 1000}});
  setup.costs.preemption.send = price(200);
  const Outcome outcome = run<Ps>(setup, {.quantum = Nanos(4000)});
  EXPECT_EQ(latency_of_shot(outcome, 2), 5000 + 200 + 1000 - 1001);
  EXPECT_EQ(latency_of_shot(outcome, 3), 5000 + 400 + 1000 - 1001);
}

TEST(Engine, the_timer_core_sees_the_end_of_a_slice_within_one_scan) {
  const std::vector<Shot> shots = {{1000, 10'000}, {1001, 1000}};
  int64_t least = INT64_MAX, most = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    sim::Setup setup = scripted(1, shots);
    setup.seed = seed;
    setup.costs.preemption.scan = Nanos(500);
    const Outcome outcome = run<Ps>(setup, {.quantum = Nanos(4000)});
    const int64_t late = latency_of_shot(outcome, 1) - (5000 + 1000 - 1001);
    least = std::min(least, late);
    most = std::max(most, late);
  }
  EXPECT_GE(least, 0);
  EXPECT_LT(least, 50);
  EXPECT_GT(most, 450);
  EXPECT_LT(most, 500);
}

TEST(Engine, a_notification_that_comes_too_late_interrupts_what_follows) {
  sim::Setup setup = scripted(1, {{1000, 10'000}, {1001, 10'000}});
  setup.costs.preemption.send = price(500);
  setup.costs.preemption.receive = price(20);
  setup.costs.preemption.done = price(30);
  const Outcome outcome = run<Ps>(setup, {.quantum = Nanos(9900)});
  EXPECT_EQ(latency_of_shot(outcome, 0), 10'000);
  EXPECT_EQ(latency_of_shot(outcome, 1), 11'000 + 20 + 30 + 10'000 - 1001);
  EXPECT_EQ(more(outcome, "late_notifications"), 1u);
  EXPECT_EQ(outcome.counters.preemptions, 0u);
}

TEST(Engine, a_request_becomes_long_by_its_age_or_by_what_the_application_says) {
  const std::vector<Shot> shots = {{1000, 100'000}, {2000, 1000}};
  sim::Setup setup = scripted(1, shots);
  // The application does not say so: the short one waits for all of the other.
  EXPECT_EQ(latency_of_shot(run<Synergy>(setup), 1), 101'000 + 1000 - 2000);
  // A first slice is 5 us (no sample yet) times 2.
  setup.classify = Classify::kAge;
  EXPECT_EQ(latency_of_shot(run<Synergy>(setup), 1), 11'000 + 1000 - 2000);
  setup.classify = Classify::kFeedback;
  setup.long_over = Nanos::micros(50);
  EXPECT_EQ(latency_of_shot(run<Synergy>(setup), 1), 11'000 + 1000 - 2000);
  EXPECT_EQ(latency_of_shot(run<Synergy>(setup), 0), 101'000);
}

// By turns the requests go to workers 1, 0, 1, 0, 1, 0, 1. Worker 0 is done with its short ones
// when three wait at worker 1, and takes two.
TEST(Engine, a_thief_pays_for_the_first_and_for_each_further_request) {
  sim::Setup setup = scripted(
      2, {{0, 50'000}, {1, 10'000}, {2, 1000}, {3, 1000}, {4, 1000}, {5, 1000}, {6, 1000}});
  setup.costs.worker.steal = price(100);
  setup.costs.worker.steal_each = Nanos(20);
  const Outcome outcome = run<Steal>(setup);
  EXPECT_EQ(latency_of_shot(outcome, 2), 12'001 + 120 + 1000 - 2);
  EXPECT_EQ(latency_of_shot(outcome, 4), 12'001 + 120 + 2000 - 4);
  EXPECT_EQ(latency_of_shot(outcome, 6), 12'001 + 120 + 2000 + 100 + 1000 - 6);
  EXPECT_EQ(outcome.counters.steals, 2u);
  EXPECT_EQ(outcome.counters.stolen, 3u);
}

TEST(Engine, a_request_that_goes_on_elsewhere_pays_for_its_way) {
  sim::Setup setup = ideal(4, "exp-10", 0.9, 20'000);
  setup.costs.worker.cache_transfer = Nanos(50);
  setup.costs.noc.columns = 1;  // four workers in a column
  Outcome outcome = run<Ps>(setup, {.quantum = Nanos(3000)});
  const auto migrations = static_cast<int64_t>(outcome.counters.migrations);
  EXPECT_GT(migrations, 1000);
  EXPECT_EQ(overhead_ns(outcome, 4), migrations * 50);
  setup.costs.noc.per_hop = Nanos(10);
  outcome = run<Ps>(setup, {.quantum = Nanos(3000)});
  const double each = static_cast<double>(overhead_ns(outcome, 4)) /
                      static_cast<double>(outcome.counters.migrations);
  EXPECT_GT(each, 50 + 10 * 1.2);  // 1 to 3 hops; all pairs alike would make 5/3
  EXPECT_LT(each, 50 + 10 * 2.1);
}

TEST(Engine, overheads_add_up_to_what_was_done_times_its_price) {
  sim::Setup setup = ideal(4, "exp-10", 0.7, 20'000);
  setup.costs.worker.receive = price(11);
  setup.costs.worker.resume = price(13);
  setup.costs.worker.fresh_fiber = price(17);
  setup.costs.preemption.receive = price(19);
  setup.costs.preemption.propagation = price(100);
  const Outcome outcome = run<Ps>(setup, {.quantum = Nanos(3000)});
  const auto preemptions = static_cast<int64_t>(outcome.counters.preemptions);
  const auto late = static_cast<int64_t>(more(outcome, "late_notifications"));
  EXPECT_GT(preemptions, 1000);
  EXPECT_GT(late, 10);
  // Of late notices only those that a worker was left to feel.
  const int64_t expected = 20'000 * 11 + preemptions * (13 + 17 + 19) + late * 19;
  EXPECT_NEAR(static_cast<double>(overhead_ns(outcome, 4)), static_cast<double>(expected), 19);
}

TEST(Engine, a_worker_that_still_sends_a_reply_starts_the_next_request_after_that) {
  sim::Setup setup = scripted(1, {{1000, 1000}, {2100, 1000}});
  setup.costs.worker.send = price(500);
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 1), 2500 + 1000 + 500 - 2100);
}

TEST(Engine, the_dispatcher_handles_one_request_after_the_other) {
  sim::Setup setup = scripted(3, {{1000, 500}, {1010, 500}, {1020, 500}});
  setup.costs.dispatcher = Nanos(100);
  const Outcome outcome = run<Cfcfs>(setup);
  EXPECT_EQ(latency_of_shot(outcome, 0), 1100 + 500 - 1000);
  EXPECT_EQ(latency_of_shot(outcome, 1), 1200 + 500 - 1010);
  EXPECT_EQ(latency_of_shot(outcome, 2), 1300 + 500 - 1020);
}

// The worker gets the second request when the dispatcher has handled the first one's completion;
// one with a queue of its own has it already.
TEST(Engine, a_worker_waits_for_the_dispatcher_between_requests_of_a_queue_that_all_share) {
  sim::Setup setup = scripted(1, {{1000, 500}, {1010, 500}});
  setup.costs.dispatcher = Nanos(100);
  setup.costs.dispatching.completion = Nanos(70);
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 1), 1600 + 70 + 500 - 1010);
  EXPECT_EQ(latency_of_shot(run<Fcfs>(setup), 1), 1600 + 500 - 1010);
}

// It is busy with the completion of the first when the second comes.
TEST(Engine, completions_delay_the_requests_that_come_meanwhile) {
  sim::Setup setup = scripted(3, {{1000, 500}, {1610, 500}});
  setup.costs.dispatcher = Nanos(100);
  setup.costs.dispatching.completion = Nanos(70);
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 1), 1670 + 100 + 500 - 1610);
}

TEST(Engine, a_dispatcher_with_a_bound_loses_what_finds_it_full) {
  sim::Setup setup = scripted(8, {{1000, 10}, {1001, 10}, {1002, 10}, {1003, 10}, {1205, 10}});
  setup.costs.dispatcher = Nanos(100);
  setup.costs.dispatching.ring_capacity = 2;
  const RequestCounts counts = counts_of(run<Cfcfs>(setup));
  EXPECT_EQ(counts.done, 3u);  // the first two, and the last
  EXPECT_EQ(counts.lost, 2u);
}

TEST(Engine, what_a_net_worker_receives_comes_to_the_dispatcher_one_by_one) {
  sim::Setup setup = scripted(3, {{1000, 500}, {1010, 500}, {1020, 500}});
  setup.costs.net_worker.receive = Nanos(100);
  setup.costs.dispatcher = Nanos(130);
  const Outcome outcome = run<Cfcfs>(setup);
  EXPECT_EQ(latency_of_shot(outcome, 0), 1100 + 130 + 500 - 1000);
  EXPECT_EQ(latency_of_shot(outcome, 1), 1230 + 130 + 500 - 1010);
  EXPECT_EQ(latency_of_shot(outcome, 2), 1360 + 130 + 500 - 1020);
  setup.costs.net_worker.receive = Nanos(200);  // it is the slower one now
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 2), 1600 + 130 + 500 - 1020);
}

TEST(Engine, a_net_worker_with_a_bound_loses_what_finds_it_full) {
  sim::Setup setup = scripted(8, {{1000, 10}, {1001, 10}, {1002, 10}, {1003, 10}, {1205, 10}});
  setup.costs.net_worker.receive = Nanos(100);
  setup.costs.net_worker.ring_capacity = 2;
  const RequestCounts counts = counts_of(run<Cfcfs>(setup));
  EXPECT_EQ(counts.done, 3u);
  EXPECT_EQ(counts.lost, 2u);
}

// It takes 100 for each that comes: of the second one from 1100 on, which finds the only other
// worker busy, and which it serves from 1200 on, but for the 100 of the third one.
TEST(Engine, a_dispatcher_serves_between_all_that_it_does_for_others) {
  sim::Setup setup = scripted(2, {{1000, 500}, {1010, 500}, {1300, 10}});
  setup.costs.dispatcher = Nanos(100);
  setup.costs.dispatching.idle = IdleDispatcher::kServes;
  const Concord::Config config{.k = 1, .conserves = true};
  const Outcome outcome = run<Concord>(setup, config);
  EXPECT_EQ(latency_of_shot(outcome, 0), 100 + 500);
  EXPECT_EQ(latency_of_shot(outcome, 1), 1200 + 500 + 100 - 1010);
  EXPECT_EQ(latency_of_shot(outcome, 2), 1600 + 10 - 1300);
}

TEST(Engine, a_dispatcher_does_not_cut_what_it_serves_itself) {
  sim::Setup setup = scripted(1, {{1000, 500}, {1010, 10}});
  setup.costs.preemption.clock = Clock::kDispatcher;
  setup.costs.preemption.cuts = Cuts::kAll;
  setup.costs.dispatching.idle = IdleDispatcher::kServes;
  const Concord::Config config{.quantum = Nanos(100), .conserves = true};
  const Outcome outcome = run<Concord>(setup, config);
  EXPECT_EQ(latency_of_shot(outcome, 0), 500);
  EXPECT_EQ(outcome.counters.preemptions, 0u);
}

// At 1100 the dispatcher has ended the slice since 1000 (70), at 1170 it takes the request back
// (30) and hands it out again.
TEST(Engine, a_dispatcher_pays_for_its_interrupts_and_for_what_comes_back) {
  sim::Setup setup = scripted(1, {{1000, 150}});
  setup.costs.preemption.clock = Clock::kDispatcher;
  setup.costs.preemption.cuts = Cuts::kAll;
  setup.costs.preemption.send = price(70);
  setup.costs.dispatching.put_back = Nanos(30);
  const Outcome outcome = run<Ps>(setup, {.quantum = Nanos(100)});
  EXPECT_EQ(outcome.counters.preemptions, 0u);  // the notification comes after the request is done
  sim::Setup longer = scripted(1, {{1000, 300}});
  longer.costs = setup.costs;
  const Outcome cut = run<Ps>(longer, {.quantum = Nanos(100)});
  EXPECT_EQ(cut.counters.preemptions, 1u);
  EXPECT_EQ(latency_of_shot(cut, 0), 300 + 30);
}

TEST(Engine, slices_end_with_a_cut_if_a_request_gains_or_on_some_machines_all) {
  sim::Setup setup = scripted(1, {{1000, 1000}});
  EXPECT_EQ(run<Ps>(setup, {.quantum = Nanos(300)}).counters.preemptions, 0u);
  setup.costs.preemption.cuts = Cuts::kAll;
  EXPECT_EQ(run<Ps>(setup, {.quantum = Nanos(300)}).counters.preemptions, 3u);
}

std::vector<Shot> volley(size_t count) {
  std::vector<Shot> shots;
  for (size_t i = 0; i < count; ++i) shots.push_back({1000 + static_cast<int64_t>(i), 10'000});
  return shots;
}

// One runs, four wait.
TEST(Engine, a_full_ring_loses_requests_and_a_full_queue_refuses_them) {
  sim::Setup setup = scripted(1, volley(12));
  setup.costs.queue_capacity = 4;
  RequestCounts counts = counts_of(run<Fcfs>(setup));
  EXPECT_EQ(counts.done, 5u);
  EXPECT_EQ(counts.refused, 7u);
  setup.costs = Costs();
  setup.costs.nic.delivery = Delivery::kPolled;
  setup.costs.nic.ring_capacity = 4;
  counts = counts_of(run<Fcfs>(setup));
  EXPECT_EQ(counts.done, 5u);
  EXPECT_EQ(counts.lost, 7u);
  EXPECT_EQ(counts.refused, 0u);
}

TEST(Engine, a_preempted_request_whose_queue_is_full_keeps_its_worker) {
  sim::Setup setup = scripted(1, volley(3));
  setup.costs.queue_capacity = 2;
  const Outcome outcome = run<Ps>(setup, {.quantum = Nanos(4000)});
  EXPECT_EQ(latency_of_shot(outcome, 0), 10'000);  // no room until it is done
  EXPECT_EQ(counts_of(outcome).done, 3u);
}

// A poll takes four at once, and three others may help at once.
TEST(Engine, what_a_poll_brings_is_seen_by_idle_workers) {
  sim::Setup setup = scripted(4, volley(5));
  setup.costs.nic.delivery = Delivery::kPolled;
  setup.costs.nic.steering = Steering::kRss;  // one flow, one ring
  const Outcome outcome = run<Steal>(setup);
  for (size_t i = 0; i < 4; ++i) EXPECT_LE(latency_of_shot(outcome, i), 20'000) << i;
  EXPECT_EQ(counts_of(outcome).done, 5u);
}

// The third waits in the ring of the worker that runs the first for long.
TEST(Engine, idle_workers_help_one_that_has_not_polled_for_long) {
  sim::Setup setup = scripted(2, {{1000, 500'000}, {1010, 1000}, {1020, 1000}});
  setup.costs.nic.delivery = Delivery::kPolled;
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 2), 501'000 + 1000 - 1020);
  setup.costs.nic.help_after = Nanos::micros(100);
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(setup), 2), 101'000 + 1000 - 1020);
  // Nobody else may have it.
  EXPECT_EQ(latency_of_shot(run<Fcfs>(setup), 2), 501'000 + 1000 - 1020);
  // A worker that becomes idle later helps then.
  sim::Setup later = scripted(2, {{1000, 500'000}, {1010, 200'000}, {1020, 1000}});
  later.costs = setup.costs;
  EXPECT_EQ(latency_of_shot(run<Cfcfs>(later), 2), 201'010 + 1000 - 1020);
}

// The short one comes when all long ones have been taken from the ring.
TEST(Engine, a_busy_worker_polls_every_now_and_then) {
  std::vector<Shot> shots(11, {1000, 40'000});
  shots.push_back({42'000, 1000});
  sim::Setup setup = scripted(1, shots);
  setup.classify = Classify::kDeclared;
  setup.costs.nic.delivery = Delivery::kPolled;
  const Srpt::Config in_one_slice{.quantum = Nanos::seconds(1)};
  EXPECT_EQ(latency_of_shot(run<Srpt>(setup, in_one_slice), 11), 441'000 + 1000 - 42'000);
  setup.costs.nic.poll_every = Nanos::micros(50);
  EXPECT_EQ(latency_of_shot(run<Srpt>(setup, in_one_slice), 11), 121'000 + 1000 - 42'000);
  setup.costs.nic.poll_picks = 1;
  EXPECT_EQ(latency_of_shot(run<Srpt>(setup, in_one_slice), 11), 81'000 + 1000 - 42'000);
}

TEST(Engine, warm_up_is_cut_by_time) {
  sim::Setup setup = ideal(4, "fixed-1", 0.5, 100'000);
  setup.warmup = 0.25;
  const Outcome outcome = run<Cfcfs>(setup);
  EXPECT_EQ(outcome.requests, 100'000u);
  EXPECT_NEAR(static_cast<double>(outcome.measured), 75'000, 1'000);
  EXPECT_EQ(counts_of(outcome).done, outcome.measured);
}

TEST(Engine, a_watcher_can_stop_a_run) {
  uint64_t calls = 0;
  Watch watch;
  watch.progress = [&](double done) {
    EXPECT_NEAR(done, 1.0 / 3, 0.1);
    return ++calls == 0;
  };
  constexpr uint64_t kRequests = 3u << 17;  // two events each, and the watcher is asked every 2^18
  const Outcome outcome =
      Engine<Fcfs>(ideal(4, "fixed-1", 0.5, kRequests), Fcfs::Config{}, watch).run();
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(outcome.events, 1u << 18);
  EXPECT_TRUE(outcome.stopped);
  EXPECT_NEAR(static_cast<double>(outcome.requests), kRequests / 3.0, 10);
}

TEST(Engine, a_run_can_be_stopped_while_it_serves_what_is_left) {
  Watch watch;
  watch.progress = [](double done) { return done < 1; };
  constexpr uint64_t kRequests = 400'000;  // which arrive while a quarter of them are served
  const Outcome outcome =
      Engine<Fcfs>(ideal(1, "fixed-1", 4, kRequests), Fcfs::Config{}, watch).run();
  EXPECT_TRUE(outcome.stopped);
  EXPECT_EQ(outcome.requests, kRequests);
  EXPECT_EQ(outcome.events, 2u << 18);
}

// One queue for all that writes down how many came. `seen` outlives the run.
class CountedArrivals : public Cfcfs {
 public:
  struct Config {
    uint64_t* seen = nullptr;
  };
  explicit CountedArrivals(Config config) : Cfcfs(None{}), seen_(config.seen) {}

  template <class H>
  None adapt(None&, H& host) const {
    *seen_ = host.arrived(1);
    return {};
  }
  Nanos adapt_period() const { return Nanos::micros(1); }

 private:
  uint64_t* seen_;
};

TEST(Engine, policies_are_told_of_requests_that_were_refused_as_well) {
  sim::Setup setup = ideal(1, "fixed-1", 4, 10'000);
  setup.costs.queue_capacity = 16;
  setup.warmup = 0;
  uint64_t seen = 0;
  const Outcome outcome = run<CountedArrivals>(setup, {&seen});
  EXPECT_GT(counts_of(outcome).refused, 5'000u);
  EXPECT_EQ(seen, 10'000u);
}

}  // namespace
}  // namespace rubato::sim
