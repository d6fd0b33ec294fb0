// SPDX-License-Identifier: Apache-2.0
//
// Managers of groups in the simulator: mailboxes, and what their messages and steps delay, worked
// out by hand.
#include <gtest/gtest.h>

#include <functional>

#include "policy/altocumulus.h"
#include "sim/mailbox.h"
#include "sim/testing/runs.h"
#include "sim/testing/scripted.h"

namespace rubato::sim {
namespace {

Message note(uint32_t value, uint32_t jobs = 0) {
  return {.from = ManagerId{0}, .kind = 0, .value = value, .jobs = jobs, .job = {}};
}

std::vector<uint32_t> read(Mailbox& mailbox, Instant now) {
  std::vector<uint32_t> values;
  for (Message message; mailbox.take(message, now);) values.push_back(message.value);
  return values;
}

using Values = std::vector<uint32_t>;

TEST(Mailbox, shows_messages_from_when_they_arrive_and_in_that_order) {
  Mailbox mailbox;
  mailbox.put(note(1), Instant(30));
  mailbox.put(note(2), Instant(10));
  mailbox.put(note(3), Instant(20));
  EXPECT_EQ(read(mailbox, Instant(9)), Values());
  EXPECT_EQ(read(mailbox, Instant(20)), (Values{2, 3}));
  EXPECT_EQ(read(mailbox, Instant(30)), Values{1});
}

TEST(Mailbox, messages_of_one_instant_stay_in_the_order_in_which_they_were_sent) {
  Mailbox mailbox;
  for (uint32_t i = 0; i < 5; ++i) mailbox.put(note(i), Instant(i % 2));
  EXPECT_EQ(read(mailbox, Instant(1)), (Values{0, 2, 4, 1, 3}));
}

TEST(Mailbox, is_bounded_and_goes_round) {
  Mailbox mailbox;
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < limits::kMailbox; ++i) ASSERT_TRUE(mailbox.put(note(i), Instant(i)));
    EXPECT_FALSE(mailbox.put(note(9), Instant()));
    const Values all = read(mailbox, Instant(limits::kMailbox));
    ASSERT_EQ(all.size(), limits::kMailbox);
    for (uint32_t i = 0; i < limits::kMailbox; ++i) EXPECT_EQ(all[i], i);
    mailbox.put(note(1), Instant());  // begin elsewhere next time
    EXPECT_EQ(read(mailbox, Instant()), Values{1});
  }
}

TEST(Mailbox, wants_to_be_looked_at_for_the_sake_of_jobs_only) {
  Mailbox mailbox;
  EXPECT_EQ(mailbox.look_at(), Instant::never());
  mailbox.put(note(1), Instant(10));
  EXPECT_EQ(mailbox.look_at(), Instant::never());
  mailbox.put(note(2, 1), Instant(20));
  EXPECT_EQ(mailbox.look_at(), Instant(10));
  EXPECT_EQ(read(mailbox, Instant(10)), Values{1});
  EXPECT_EQ(mailbox.look_at(), Instant(20));
  EXPECT_EQ(read(mailbox, Instant(20)), Values{2});
  EXPECT_EQ(mailbox.look_at(), Instant::never());
}

// Groups of one worker; what comes to a manager is sent to the next one, or handed to its own
// worker.
struct Courier {
  static constexpr const char* kName = "courier";
  static constexpr const char* kSummary = "for this test";
  static constexpr const char* kSource = "this test";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr std::array<QueueDeclaration, 2> kQueues{{
      {"in", Scope::kPerManager, Sharing::kManaged},
      {"local", Scope::kPerWorker, Sharing::kShared},
  }};
  static constexpr std::array<const char*, 4> kMessageKinds{"carry", "", "", ""};
  struct Config {
    bool carry = true;
    Nanos period = Nanos::max();
  };
  using Worker = None;
  using Central = None;
  using Plan = None;
  struct Manager {
    Instant due;
  };

  explicit Courier(Config c) : config(c) {}
  uint32_t managers(uint32_t workers) const { return workers; }
  ManagerId manager_of(WorkerId worker, uint32_t) const { return {worker.value}; }

  template <class H>
  QueueRef route(const Job&, WorkerId at, H&) const {
    return {0, at.value};
  }
  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    return host.take({1, me.value});
  }
  template <class H>
  Instant manage(Manager& manager, ManagerId me, H& host) const {
    for (Message mail; host.receive(me, mail);) host.put({1, me.value}, mail.job[0]);
    while (Job* const job = host.take({0, me.value})) {
      Message mail{.from = me, .kind = 0, .value = 0, .jobs = 1, .job = {job}};
      if (config.carry) {
        host.send({(me.value + 1) % host.workers()}, mail);
      } else {
        host.put({1, me.value}, job);
      }
    }
    if (config.period == Nanos::max()) return Instant::never();
    if (host.now() >= manager.due) manager.due = host.now() + config.period;
    return manager.due;
  }
  Config config;
};

constexpr int64_t kService = 5000;

struct OnePrice {
  const char* name;
  std::function<void(Costs&)> set;
  int64_t delay;
};

TEST(Managers, each_price_delays_a_request_that_is_carried_by_what_it_says) {
  const OnePrice prices[] = {
      {"nothing", [](Costs&) {}, 0},
      {"send", [](Costs& c) { c.manager.send = price(50); }, 50},
      {"receive", [](Costs& c) { c.manager.receive = price(20); }, 20},
      {"put", [](Costs& c) { c.manager.put = price(35); }, 35},
      {"dispatcher", [](Costs& c) { c.dispatcher = Nanos(70); }, 70},
      {"put and notice",
       [](Costs& c) {
         c.manager.put = price(35);
         c.worker.notice = Nanos(10);
       },
       45},
      {"one hop", [](Costs& c) { c.noc = {1, Nanos(3)}; }, 3},
      {"looks and takes of the manager, but for the worker's take",
       [](Costs& c) {
         c.worker.look = Nanos(7);
         c.worker.take = price(11);
         c.worker.put = price(13);
       },
       11},
  };
  for (const OnePrice& p : prices) {
    sim::Setup setup = scripted(2, {{1000, kService}});
    p.set(setup.costs);
    EXPECT_EQ(latency_of_shot(run<Courier>(setup), 0), kService + p.delay) << p.name;
  }
}

// A turn, a look at the mailbox, a take and a put; then the worker takes the request.
TEST(Managers, the_step_of_one_without_a_core_has_a_workers_prices) {
  sim::Setup setup = scripted(1, {{1000, kService}});
  setup.costs.dispatch_by = DispatchBy::kWorkers;
  setup.costs.manager.put = price(999);
  setup.costs.worker.turn = Nanos(100);
  setup.costs.worker.look = Nanos(7);
  setup.costs.worker.take = price(11);
  setup.costs.worker.put = price(13);
  const Outcome outcome = run<Courier>(setup, {.carry = false});
  constexpr int64_t kStep = 100 + 7 + 11 + 13;
  EXPECT_EQ(latency_of_shot(outcome, 0), kStep + 11 + kService);
}

// The first request comes to worker 1, whose manager sends it to that of worker 2.
TEST(Managers, a_message_takes_the_hops_between_the_first_workers_of_the_groups) {
  sim::Setup setup = scripted(4, {{1000, kService}});
  setup.costs.noc = {2, Nanos(3)};  // 0 1
                                    // 2 3
  EXPECT_EQ(latency_of_shot(run<Courier>(setup), 0), kService + 2 * 3);
  setup.costs.noc.columns = 4;
  EXPECT_EQ(latency_of_shot(run<Courier>(setup), 0), kService + 3);
  setup.costs.noc.columns = 0;
  EXPECT_EQ(latency_of_shot(run<Courier>(setup), 0), kService);
}

// Steps at 1200 and 1400 are predictions, and whoever comes then waits; the one that the request of
// 1000 caused is none.
TEST(Managers, a_step_that_is_due_has_a_price_and_one_for_other_reasons_has_none) {
  sim::Setup setup = scripted(1, {{1000, 5}, {1100, 5}, {1210, 5}, {1300, 5}});
  setup.costs.manager.step = Nanos(50);
  const Outcome outcome = run<Courier>(setup, {.carry = false, .period = Nanos(200)});
  EXPECT_EQ(latency_of_shot(outcome, 0), 5);
  EXPECT_EQ(latency_of_shot(outcome, 1), 5);
  EXPECT_EQ(latency_of_shot(outcome, 2), 1250 - 1210 + 5);
  EXPECT_EQ(latency_of_shot(outcome, 3), 5);
}

// Tells all others something whenever a request comes, and then hands that out.
struct Herald : Courier {
  using Courier::Courier;
  template <class H>
  Instant manage(Manager&, ManagerId me, H& host) const {
    for (Message mail; host.receive(me, mail);) {}
    while (Job* const job = host.take({0, me.value})) {
      const Message news{.from = me, .kind = 1, .value = 4, .jobs = 0, .job = {}};
      for (uint32_t m = 0; m < host.workers(); ++m) {
        if (m != me.value) host.send({m}, news);
      }
      host.put({1, me.value}, job);
    }
    return Instant::never();
  }
};

TEST(Managers, telling_all_others_is_one_message_and_hearing_it_is_free) {
  sim::Setup setup = scripted(4, {{1000, 5}, {2000, 5}});
  setup.costs.manager.send = price(50);
  setup.costs.manager.receive = price(999);
  const Outcome outcome = run<Herald>(setup);
  EXPECT_EQ(latency_of_shot(outcome, 0), 50 + 5);
  EXPECT_EQ(latency_of_shot(outcome, 1), 50 + 5);
}

// Requests per second of one group of workers that have far more time than they need.
double throughput(uint32_t groups, const std::function<void(Costs&)>& set) {
  sim::Setup setup = ideal(15 * groups, "fixed-100ns", 0.5, 40'000);
  setup.warmup = 0;
  set(setup.costs);
  const Outcome outcome = run<Altocumulus>(setup, {.group = 15, .migrate = false});
  return static_cast<double>(outcome.requests) / outcome.simulated.seconds();
}

// VIII-B: "a manager's throughput has a theoretical upper bound of 28 MRPS, considering 70
// cycles@2GHz per message".
TEST(Managers, at_35_ns_per_hand_over_a_manager_serves_28_million_requests_per_second) {
  const auto put = [](Costs& c) { c.manager.put = price(35); };
  const auto dispatcher = [](Costs& c) { c.dispatcher = Nanos(35); };
  EXPECT_NEAR(throughput(1, put) / 1e6, 1e3 / 35, 0.1);
  EXPECT_NEAR(throughput(1, dispatcher) / 1e6, 1e3 / 35, 0.1);
  EXPECT_NEAR(throughput(4, put) / 1e6, 4 * 1e3 / 35, 3);  // each its own; random ones get more
  EXPECT_GT(throughput(1, [](Costs&) {}), 70e6);
}

TEST(Managers, every_step_of_a_run_is_accounted_for) {
  sim::Setup setup = ideal(64, "exp-1", 0.95, 50'000);
  setup.warmup = 0;
  setup.costs.noc = {8, Nanos(3)};
  const Outcome outcome = run<Altocumulus>(setup, {.group = 8, .bulk = 8, .concurrency = 4});
  EXPECT_EQ(more(outcome, "managers"), 8u);
  EXPECT_EQ(more(outcome, "left_waiting"), 0u);
  EXPECT_EQ(more(outcome, "messages_migrate"),
            more(outcome, "messages_ack") + more(outcome, "messages_nack"));
  EXPECT_GT(more(outcome, "messages_update"), more(outcome, "messages_migrate"));
  EXPECT_GT(more(outcome, "moved_between_managers"), 1'000u);
  EXPECT_LE(more(outcome, "moved_between_managers"), 16 * more(outcome, "messages_migrate"));
}

}  // namespace
}  // namespace rubato::sim
