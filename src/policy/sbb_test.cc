// SPDX-License-Identifier: Apache-2.0
#include "policy/sbb.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "policy/testing/arrivals.h"
#include "policy/testing/drive.h"
#include "policy/testing/script_host.h"
#include "policy/testing/seed.h"

namespace rubato {
namespace {

using testing::Arrival;
using testing::drive;
using testing::DriveReport;
using testing::make_arrivals;
using testing::ScriptHost;
using testing::test_seed;
using Load = FlowMigration::Load;

constexpr QueueRef queue(uint32_t worker) { return {0, worker}; }
constexpr QueueRef block(uint32_t worker) { return {1, worker}; }

// With the thresholds of the published code, for rounds that can be told apart: 32, 48, 32, 16.
Sbb::Config published() { return {.flows = {.published = true}}; }

// Workers over a script host; the test calls `next` of them by turns.
struct Workers {
  explicit Workers(Sbb::Config config = published(), uint32_t count = 4)
      : policy(config), host(count), worker(count) {}

  std::vector<Job*> arrive(uint32_t at, uint32_t jobs, uint64_t flow = 0) {
    std::vector<Job*> all;
    for (uint32_t i = 0; i < jobs; ++i) {
      Job& job = job_memory.emplace_back();
      job.flow = flow;
      host.push(queue(at), &job);
      all.push_back(&job);
    }
    return all;
  }
  Job* next(uint32_t me) { return policy.next(worker[me], WorkerId{me}, host); }
  void publish_hint(uint32_t of, Load load) {
    ASSERT_TRUE(host.publish_hint(WorkerId{of}, host.hint(WorkerId{of}),
                                  static_cast<uint64_t>(load)));
  }
  void publish(uint32_t of, uint64_t flow) {
    const uint64_t hint_of = static_cast<uint64_t>(Load::kOverloaded) | (flow + 1) << 2;
    ASSERT_TRUE(host.publish_hint(WorkerId{of}, host.hint(WorkerId{of}), hint_of));
  }
  size_t left(QueueRef q) { return host.waiting(q).size(); }
  // Whose queues worker `me` looked at to find nothing.
  std::vector<std::string> looks_of(uint32_t me) {
    host.record_verbs();
    host.forget_verbs();
    EXPECT_EQ(next(me), nullptr);
    std::vector<std::string> looks;
    for (const std::string& verb : host.verbs()) {
      if (verb.starts_with("depth queue")) looks.push_back(verb.substr(6));
    }
    looks.erase(looks.begin());  // its own
    return looks;
  }

  std::deque<Job> job_memory;
  Sbb policy;
  ScriptHost<Sbb> host;
  std::vector<Sbb::Worker> worker;
};

using Looks = std::vector<std::string>;

// O1: what the owner has taken into its block nobody else sees.
TEST(Sbb, the_first_sixteen_of_a_round_are_the_owners_alone) {
  Workers workers;
  const auto jobs = workers.arrive(1, 16);
  EXPECT_EQ(workers.next(1), jobs[0]);
  workers.publish_hint(1, Load::kBusy);
  EXPECT_EQ(workers.next(0), nullptr);
  for (size_t i = 1; i < 16; ++i) EXPECT_EQ(workers.next(1), jobs[i]);
  EXPECT_EQ(workers.next(1), nullptr);
}

TEST(Sbb, thieves_see_what_is_beyond_the_block) {
  Workers workers;
  const auto jobs = workers.arrive(1, 20);
  EXPECT_EQ(workers.next(1), jobs[0]);
  workers.publish_hint(1, Load::kBusy);
  EXPECT_EQ(workers.next(0), jobs[16]);
  EXPECT_EQ(workers.left(queue(1)), 2u);
  EXPECT_EQ(workers.left(block(1)), 15u);
}

// O3, of the owner.
TEST(Sbb, a_round_is_taken_sixteen_at_a_time_and_in_order) {
  Workers workers;
  const auto jobs = workers.arrive(1, 40);
  for (Job* const job : jobs) {
    EXPECT_LE(workers.left(block(1)), 15u);
    EXPECT_EQ(workers.next(1), job);
  }
}

TEST(Sbb, a_round_has_64_requests_at_most_and_what_comes_later_is_of_the_next) {
  Workers workers;
  workers.arrive(1, 100);
  EXPECT_NE(workers.next(1), nullptr);
  EXPECT_EQ(workers.worker[1].round_left, 48u);
  for (int i = 1; i < 64; ++i) EXPECT_NE(workers.next(1), nullptr);
  EXPECT_EQ(workers.worker[1].round_left, 0u);
  EXPECT_NE(workers.next(1), nullptr);
  EXPECT_EQ(workers.worker[1].round_left, 36u - 16);
}

// O2 and O3, of the thief.
TEST(Sbb, half_of_what_is_visible_is_stolen_and_nobody_steals_it_again) {
  Workers workers;
  const auto jobs = workers.arrive(1, 10);
  workers.publish_hint(1, Load::kBusy);
  workers.publish_hint(0, Load::kBusy);
  EXPECT_EQ(workers.next(0), jobs[0]);
  EXPECT_EQ(workers.left(queue(1)), 5u);
  EXPECT_EQ(workers.left(block(0)), 4u);
  EXPECT_EQ(workers.left(queue(0)), 0u);
  workers.publish_hint(1, Load::kLight);
  EXPECT_EQ(workers.next(2), nullptr);
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(workers.next(0), jobs[i]);
}

// A thief takes one between the owner's look and its take, which then has nothing.
struct FasterThief : ScriptHost<Sbb> {
  using ScriptHost<Sbb>::ScriptHost;
  Job* steal(QueueRef victim, QueueRef into, uint32_t max) {
    if (!std::exchange(was_faster, true)) {
      EXPECT_NE(take(victim), nullptr);
      return nullptr;
    }
    return ScriptHost<Sbb>::steal(victim, into, max);
  }
  bool was_faster = false;
};

TEST(Sbb, what_a_faster_thief_leaves_is_taken_at_once) {
  const Sbb policy(published());
  FasterThief host(2);
  std::vector<Job> jobs(2);
  for (Job& job : jobs) host.push(queue(0), &job);
  Sbb::Worker worker;
  EXPECT_EQ(policy.next(worker, WorkerId{0}, host), &jobs[1]);
  EXPECT_EQ(policy.next(worker, WorkerId{0}, host), nullptr);
}

TEST(Sbb, an_odd_request_goes_to_the_thief) {
  Workers workers;
  workers.arrive(1, 1);
  workers.publish_hint(1, Load::kBusy);
  EXPECT_NE(workers.next(0), nullptr);
}

TEST(Sbb, a_batch_is_bounded) {
  Workers workers;
  workers.arrive(1, 4 * limits::kStealMax);
  workers.publish_hint(1, Load::kBusy);
  EXPECT_NE(workers.next(0), nullptr);
  EXPECT_EQ(workers.left(block(0)), limits::kStealMax - 1);
}

TEST(Sbb, a_light_worker_is_left_alone) {
  Workers workers;
  workers.arrive(1, 30);
  EXPECT_EQ(workers.next(0), nullptr);
  workers.arrive(3, 2);
  workers.publish_hint(3, Load::kBusy);
  EXPECT_NE(workers.next(0), nullptr);
  EXPECT_EQ(workers.left(queue(1)), 30u);
}

TEST(Sbb, an_overloaded_worker_gives_a_flow_first_and_then_requests) {
  Workers workers;
  const auto jobs = workers.arrive(1, 4);
  workers.publish(1, 7);
  EXPECT_EQ(workers.next(0), jobs[0]);
  EXPECT_EQ(workers.host.arrives_at(7, WorkerId{1}), WorkerId{0});
  EXPECT_EQ(workers.host.hint(WorkerId{1}), static_cast<uint64_t>(Load::kOverloaded));
}

// Three rounds of 33 to 64 requests, then three of 49 to 64: nobody steals.
TEST(Sbb, a_worker_that_receives_much_becomes_overloaded_and_publishes_what_it_runs) {
  Workers workers;
  for (uint32_t round = 0; round < 6; ++round) {
    EXPECT_EQ(FlowMigration::load_of(workers.host.hint(WorkerId{1})),
              round < 3 ? Load::kLight : Load::kBusy);
    workers.arrive(1, 64, /*flow=*/round);
    for (int i = 0; i < 64; ++i) EXPECT_NE(workers.next(1), nullptr);
  }
  EXPECT_EQ(workers.host.hint(WorkerId{1}),
            static_cast<uint64_t>(Load::kOverloaded) | (5 + 1) << 2);
}

// O5.
// Its flow still arrives at the worker that it was stolen from.
TEST(Sbb, the_flow_of_a_stolen_request_is_not_the_thiefs_to_publish) {
  Workers workers;
  workers.worker[0].flows.load = Load::kOverloaded;
  workers.worker[0].flows.publish = true;
  const auto jobs = workers.arrive(1, 40, /*flow=*/7);
  EXPECT_EQ(workers.next(1), jobs[0]);
  workers.publish_hint(1, Load::kBusy);
  EXPECT_EQ(workers.next(0), jobs[16]);
  EXPECT_EQ(workers.next(0), jobs[17]);
  EXPECT_EQ(workers.host.hint(WorkerId{0}) >> 2, 0u);
}

TEST(Sbb, each_worker_begins_at_another_victim_and_goes_round) {
  Workers workers;
  EXPECT_EQ(workers.looks_of(0), (Looks{"queue[1]", "queue[2]", "queue[3]", "queue[0]"}));
  EXPECT_EQ(workers.looks_of(2), (Looks{"queue[3]", "queue[0]", "queue[1]", "queue[2]"}));
  EXPECT_EQ(workers.looks_of(3), (Looks{"queue[0]", "queue[1]", "queue[2]", "queue[3]"}));
}

TEST(Sbb, a_thief_begins_at_the_worker_it_stole_from_last) {
  Workers workers;
  workers.arrive(3, 2);
  workers.publish_hint(3, Load::kBusy);
  EXPECT_NE(workers.next(0), nullptr);
  EXPECT_NE(workers.next(0), nullptr);
  EXPECT_EQ(workers.looks_of(0), (Looks{"queue[3]", "queue[0]", "queue[1]", "queue[2]"}));
}

TEST(Sbb, a_thief_looks_at_as_many_victims_as_it_is_told) {
  Workers workers({.victims = 2});
  EXPECT_EQ(workers.looks_of(1), (Looks{"queue[2]", "queue[3]"}));
  EXPECT_EQ(workers.looks_of(2), (Looks{"queue[3]", "queue[0]"}));
  workers.arrive(1, 8);
  workers.publish_hint(1, Load::kBusy);
  EXPECT_EQ(workers.next(2), nullptr);  // the third
  EXPECT_NE(workers.next(3), nullptr);  // its second
  EXPECT_FALSE(workers.policy.interchangeable());
  EXPECT_TRUE(Sbb({}).interchangeable());
}

TEST(Sbb, oneself_is_not_one_of_the_victims) {
  Workers workers({.victims = 2});
  workers.worker[1].last_victim = 0;
  EXPECT_EQ(workers.looks_of(1), (Looks{"queue[0]", "queue[1]", "queue[2]"}));
  EXPECT_EQ(Workers({.victims = 9}).looks_of(0).size(), 4u);
}

TEST(Sbb, a_request_is_cut_when_others_wait_at_its_worker_and_goes_behind_them) {
  Workers workers;
  const auto jobs = workers.arrive(1, 2);
  EXPECT_EQ(workers.next(1), jobs[0]);
  EXPECT_EQ(workers.policy.quantum(workers.worker[1], *jobs[0], workers.host), Nanos::micros(5));
  EXPECT_EQ(workers.policy.expired(Job(), WorkerId{1}, workers.host), SliceDecision::kPreempt);
  EXPECT_EQ(workers.policy.requeue(*jobs[0], RequeueReason::kPreempted, WorkerId{1}, workers.host),
            queue(1));
  EXPECT_EQ(workers.next(1), jobs[1]);
  EXPECT_EQ(workers.policy.expired(Job(), WorkerId{1}, workers.host), SliceDecision::kContinue);
}

// The ablation of Fig. 13.
TEST(SbbAblation, without_stealing_each_worker_is_on_its_own) {
  Workers workers({.stealing = false});
  workers.arrive(1, 40);
  workers.publish(1, 7);
  EXPECT_EQ(workers.next(0), nullptr);
  EXPECT_EQ(workers.host.arrives_at(7, WorkerId{1}), WorkerId{1});
}

TEST(SbbAblation, without_the_enhancements_all_is_visible_and_may_be_stolen_again) {
  Workers workers({.enhanced = false});
  const auto jobs = workers.arrive(1, 16);
  EXPECT_EQ(workers.next(1), jobs[0]);
  EXPECT_EQ(workers.left(block(1)), 0u);
  EXPECT_EQ(workers.next(0), jobs[1]);  // of a Light worker
  EXPECT_EQ(workers.left(queue(0)), 7u);
  EXPECT_EQ(workers.left(queue(1)), 7u);
  workers.arrive(1, 1);
  std::vector<Job*> again;
  for (int i = 0; i < 20; ++i) {
    if (Job* job = workers.next(3)) again.push_back(job);
  }
  EXPECT_EQ(again.size(), 15u);  // from both
}

TEST(SbbAblation, without_migration_flows_stay_and_requests_are_stolen) {
  Workers workers({.migration = false});
  for (uint32_t round = 0; round < 6; ++round) {
    workers.arrive(1, 64, 7);
    for (int i = 0; i < 64; ++i) EXPECT_NE(workers.next(1), nullptr);
  }
  EXPECT_EQ(workers.host.hint(WorkerId{1}), static_cast<uint64_t>(Load::kOverloaded));
  workers.publish(1, 7);
  workers.arrive(1, 4);
  EXPECT_NE(workers.next(0), nullptr);
  EXPECT_EQ(workers.host.arrives_at(7, WorkerId{1}), WorkerId{1});
}

// All flows come to one worker, at a load that three could carry.
std::vector<Arrival> lopsided(uint64_t seed) {
  std::vector<Arrival> arrivals = make_arrivals(
      seed, {.jobs = 20'000, .load = 0.6, .long_share = 0, .flows = 12});
  for (Arrival& arrival : arrivals) arrival.worker = WorkerId{0};
  return arrivals;
}

Nanos worst_latency(const Sbb::Config& config, const std::vector<Arrival>& arrivals) {
  const DriveReport report = drive<Sbb>(config, arrivals, {.patience = 100'000});
  EXPECT_EQ(report.departures.size(), arrivals.size());
  for (const std::string& violation : report.violations) ADD_FAILURE() << violation;
  Nanos worst;
  for (const auto& departure : report.departures) {
    worst = std::max(worst, departure.at - arrivals[departure.arrival].at);
  }
  return worst;
}

TEST(SbbRuns, each_part_of_the_ablation_helps_where_one_worker_gets_all_flows) {
  const auto arrivals = lopsided(test_seed(51));
  const Nanos alone = worst_latency({.stealing = false}, arrivals);
  const Nanos enhanced = worst_latency({.migration = false}, arrivals);
  const Nanos hybrid = worst_latency({}, arrivals);
  EXPECT_LT(enhanced * 10, alone);
  EXPECT_LE(hybrid, enhanced);
}

TEST(SbbRuns, low_thresholds_move_flows_and_lose_nothing_when_all_goes_wrong) {
  const uint64_t seed = test_seed(52);
  Sbb::Config config;
  config.flows = {.light_to_busy = 1, .busy_to_overloaded = 2, .overloaded_to_busy = 2,
                  .busy_to_light = 1, .rounds = 1, .rule_life = Nanos::micros(50)};
  config.block = 2;
  for (uint64_t round = 0; round < 5; ++round) {
    SCOPED_TRACE(seed + round);
    const std::vector<Arrival> arrivals = make_arrivals(seed + round, {.load = 0.9});
    const DriveReport report =
        drive<Sbb>(config, arrivals, {.seed = seed + round, .chaos = true});
    EXPECT_EQ(report.departures.size() + report.refused.size(), arrivals.size());
    for (const std::string& violation : report.violations) ADD_FAILURE() << violation;
  }
}

}  // namespace
}  // namespace rubato
