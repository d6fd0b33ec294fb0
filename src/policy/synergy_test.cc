// SPDX-License-Identifier: Apache-2.0
//
// Algorithms 5.2 and 5.3 of the thesis, line by line.
#include "policy/synergy.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "policy/testing/arrivals.h"
#include "policy/testing/drive.h"
#include "policy/testing/flood.h"
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

constexpr QueueRef inbox(uint32_t worker) { return {0, worker}; }
constexpr QueueRef waiting(uint32_t level) { return {1, level}; }
constexpr QueueRef begun(uint32_t level) { return {2, level}; }

using Deque = std::deque<Job*>;
using Verbs = std::vector<std::string>;

class SynergyTest : public ::testing::Test {
 protected:
  explicit SynergyTest(uint32_t workers = 4) : host(workers) {
    host.publish(Synergy({}).initial_plan());
  }

  Job* next(uint32_t me = 0, Synergy::Config config = {}) {
    Synergy::Worker worker;
    return Synergy(config).next(worker, WorkerId{me}, host);
  }
  void raise_flag() { host.publish({.factor = 8, .check_wait_queue = true}); }
  void fill(QueueRef q, size_t count) {
    for (size_t i = 0; i < count; ++i) host.push(q, &jobs[used++]);
  }
  SliceDecision expired(uint8_t priority, Synergy::Config config = {}) {
    Job job;
    job.priority = priority;
    return Synergy(config).expired(job, WorkerId{0}, host);
  }
  // The worker's state after these requests were done.
  static Synergy::Worker after(std::vector<Nanos> short_services, Synergy::Config config = {}) {
    Synergy::Worker worker;
    for (const Nanos service : short_services) Synergy(config).finished(worker, Job(), service);
    return worker;
  }
  Nanos quantum(const Synergy::Worker& worker, Synergy::Config config = {}) {
    return Synergy(config).quantum(worker, Job(), host);
  }

  ScriptHost<Synergy> host;
  std::array<Job, 256> jobs{};
  size_t used = 0;
};

// Request selection, Algorithm 5.2.

using SynergyNext = SynergyTest;

TEST_F(SynergyNext, own_inbox_comes_before_the_wait_queue) {
  Job fresh, preempted;
  host.push(inbox(0), &fresh);
  host.push(waiting(0), &preempted);
  EXPECT_EQ(next(), &fresh);
  EXPECT_EQ(next(), &preempted);
}

TEST_F(SynergyNext, the_flag_puts_the_wait_queue_first) {
  Job fresh, preempted;
  host.push(inbox(0), &fresh);
  host.push(waiting(0), &preempted);
  raise_flag();
  EXPECT_EQ(next(), &preempted);
  EXPECT_EQ(next(), &fresh);
}

TEST_F(SynergyNext, with_the_flag_and_an_empty_wait_queue_it_falls_through_to_the_inbox) {
  Job fresh;
  host.push(inbox(0), &fresh);
  raise_flag();
  EXPECT_EQ(next(), &fresh);
}

TEST_F(SynergyNext, the_wait_queue_comes_before_stealing) {
  Job preempted;
  host.push(waiting(0), &preempted);
  fill(inbox(1), 10);
  EXPECT_EQ(next(), &preempted);
}

TEST_F(SynergyNext, any_worker_resumes_a_preempted_job) {
  Job preempted;
  host.push(waiting(0), &preempted);
  EXPECT_EQ(next(3), &preempted);
}

TEST_F(SynergyNext, steals_only_above_the_threshold) {
  fill(inbox(1), 3);
  EXPECT_EQ(next(0, {.steal_threshold = 3}), nullptr);
  EXPECT_EQ(next(0, {.steal_threshold = 2}), &jobs[0]);
}

TEST_F(SynergyNext, by_default_a_single_waiting_request_is_left_to_its_worker) {
  fill(inbox(1), 1);
  EXPECT_EQ(next(), nullptr);
  EXPECT_EQ(next(0, {.steal_threshold = 0}), &jobs[0]);
}

TEST_F(SynergyNext, steals_half_rounded_up_and_the_rest_lands_in_its_inbox_in_order) {
  fill(inbox(1), 5);
  EXPECT_EQ(next(), &jobs[0]);
  EXPECT_EQ(host.waiting(inbox(0)), (Deque{&jobs[1], &jobs[2]}));
  EXPECT_EQ(host.waiting(inbox(1)), (Deque{&jobs[3], &jobs[4]}));
}

TEST_F(SynergyNext, a_stolen_batch_is_bounded) {
  fill(inbox(1), 100);
  EXPECT_EQ(next(), &jobs[0]);
  EXPECT_EQ(host.waiting(inbox(0)).size(), limits::kStealMax - 1);
  EXPECT_EQ(host.waiting(inbox(1)).size(), 100 - limits::kStealMax);
}

TEST_F(SynergyNext, victims_are_tried_in_ring_order_from_the_next_worker) {
  host.record_verbs();
  EXPECT_EQ(next(2), nullptr);
  EXPECT_EQ(host.verbs(), (Verbs{"take inbox[2]", "take begun[0]", "take waiting[0]",
        "depth inbox[3]",
                                 "depth inbox[0]", "depth inbox[1]"}));
}

TEST_F(SynergyNext, a_victim_below_the_threshold_is_passed_over) {
  fill(inbox(3), 1);
  fill(inbox(0), 2);
  EXPECT_EQ(next(2), &jobs[1]);
}

// The published code (ENABLE_WORKSTEALING_BW), not the thesis.
class SynergyBesideLong : public SynergyTest {
 protected:
  Job* steals(uint32_t me) { return policy_.next(workers_[me], WorkerId{me}, host); }
  void begins(uint32_t me, JobClass job_class) {
    Job job;
    job.job_class = job_class;
    steals(me);
    policy_.begins(workers_[me], job, WorkerId{me}, host);
  }

  const Synergy policy_{{.long_victims_first = true}};
  std::array<Synergy::Worker, 4> workers_;
};

TEST_F(SynergyBesideLong, one_request_is_stolen_from_a_worker_in_a_long_one_before_any_other) {
  begins(2, JobClass::kLong);
  fill(inbox(1), 4);
  fill(inbox(2), 3);
  EXPECT_EQ(steals(0), &jobs[4]);
  EXPECT_TRUE(host.waiting(inbox(0)).empty());
  EXPECT_EQ(steals(0), &jobs[5]);
  EXPECT_EQ(steals(0), &jobs[6]);  // below the threshold
  EXPECT_EQ(steals(0), &jobs[0]);
  EXPECT_EQ(host.waiting(inbox(0)), (Deque{&jobs[1]}));
}

TEST_F(SynergyBesideLong, a_worker_that_has_left_its_long_request_is_as_any_other) {
  begins(2, JobClass::kLong);
  begins(2, JobClass::kShort);
  fill(inbox(2), 1);
  EXPECT_EQ(steals(0), nullptr);
  begins(1, JobClass::kShort);  // is never told
  fill(inbox(1), 1);
  EXPECT_EQ(steals(0), nullptr);
}

// Such as the next request of its flow.
TEST_F(SynergyBesideLong, a_short_request_that_the_policy_did_not_choose_ends_the_long_one) {
  begins(2, JobClass::kLong);
  policy_.begins(workers_[2], Job(), WorkerId{2}, host);
  fill(inbox(2), 1);
  EXPECT_EQ(steals(0), nullptr);
}

// The core asks of requests that a worker refuses, and before any has begun.
TEST_F(SynergyBesideLong, a_question_for_the_quantum_tells_nobody_of_a_long_request) {
  Job job;
  job.job_class = JobClass::kLong;
  policy_.quantum(workers_[2], job, host);
  for (uint32_t worker = 0; worker < 4; ++worker) EXPECT_EQ(host.hint(WorkerId{worker}), 0u);
}

TEST_F(SynergyNext, without_stealing_other_inboxes_are_not_looked_at) {
  fill(inbox(1), 10);
  host.record_verbs();
  EXPECT_EQ(next(0, {.stealing = false}), nullptr);
  EXPECT_EQ(host.verbs(), (Verbs{"take inbox[0]", "take begun[0]", "take waiting[0]"}));
}

TEST_F(SynergyNext, levels_of_the_wait_queue_are_served_most_urgent_first) {
  Job urgent, middle, patient;
  host.push(waiting(2), &patient);
  host.push(waiting(0), &urgent);
  host.push(waiting(1), &middle);
  const Synergy::Config config{.waiting = {.levels = 3}};
  EXPECT_EQ(next(0, config), &urgent);
  raise_flag();
  EXPECT_EQ(next(0, config), &middle);
  EXPECT_EQ(next(0, config), &patient);
}

TEST_F(SynergyNext, levels_beyond_those_in_use_are_not_looked_at) {
  host.record_verbs();
  next(0, {.waiting = {.levels = 2}});
  EXPECT_EQ(host.verbs(), (Verbs{"take inbox[0]", "take begun[0]", "take waiting[0]",
        "take begun[1]", "take waiting[1]",
                                 "depth inbox[1]", "depth inbox[2]", "depth inbox[3]"}));
}

TEST_F(SynergyNext, an_arrival_waits_at_its_worker) {
  Job job;
  EXPECT_EQ(hook::route(Synergy({}), job, WorkerId{3}, host), inbox(3));
}

// The quantum, 5.1.1.2.

using SynergyQuantum = SynergyTest;

TEST_F(SynergyQuantum, is_the_average_short_service_times_the_factor) {
  const Synergy::Config config{.quantum_factor = 3};
  host.publish(Synergy(config).initial_plan());
  EXPECT_EQ(quantum(after({Nanos(2'000)}, config), config), Nanos(6'000));
}

TEST_F(SynergyQuantum, starts_from_the_initial_estimate) {
  const Synergy::Config config{.quantum_initial = Nanos::micros(7)};
  EXPECT_EQ(quantum({}, config), Nanos::micros(14));
}

TEST_F(SynergyQuantum, uses_the_congested_factor_while_congested) {
  const Synergy::Config config{.quantum_factor = 2, .congested_quantum_factor = 10};
  host.publish({.factor = config.congested_quantum_factor, .check_wait_queue = true});
  EXPECT_EQ(quantum(after({Nanos(2'000)}, config), config), Nanos(20'000));
}

TEST_F(SynergyQuantum, is_clamped_on_both_sides) {
  const Synergy::Config config{.quantum_min = Nanos::micros(4), .quantum_max = Nanos::micros(9)};
  EXPECT_EQ(quantum(after({Nanos(100)}, config), config), Nanos::micros(4));
  EXPECT_EQ(quantum(after({Nanos::millis(1)}, config), config), Nanos::micros(9));
}

TEST_F(SynergyQuantum, the_upper_bound_wins_if_the_bounds_contradict) {
  const Synergy::Config config{.quantum_min = Nanos::micros(9), .quantum_max = Nanos::micros(4)};
  EXPECT_EQ(quantum(after({Nanos::micros(1)}, config), config), Nanos::micros(4));
}

TEST_F(SynergyQuantum, is_what_was_asked_for_if_fixed) {
  const Synergy::Config config{.quantum_max = Nanos::micros(4), .fixed_quantum = Nanos::micros(5)};
  EXPECT_EQ(quantum(after({Nanos(500)}, config), config), Nanos::micros(5));
  raise_flag();
  EXPECT_EQ(quantum(after({Nanos(500)}, config), config), Nanos::micros(5));
}

TEST_F(SynergyQuantum, the_average_moves_by_its_weight) {
  EXPECT_EQ(after({Nanos(1'000)}).short_service, Nanos(1'000));
  EXPECT_EQ(after({Nanos(1'000), Nanos(1'800)}).short_service, Nanos(1'100));
  EXPECT_EQ(after({Nanos(1'000), Nanos(200)}).short_service, Nanos(900));
  EXPECT_EQ(after({Nanos(1'000), Nanos(2'000)}, {.ema_shift = 1}).short_service, Nanos(1'500));
  EXPECT_EQ(after({Nanos(1'000), Nanos(2'000)}, {.ema_shift = 0}).short_service, Nanos(2'000));
}

TEST_F(SynergyQuantum, an_outlier_counts_as_a_few_averages) {
  EXPECT_EQ(after({Nanos(1'000), Nanos::millis(4)}).short_service, Nanos(1'375));
  EXPECT_EQ(after({Nanos::millis(4)}).short_service, Nanos::micros(20));
  const Synergy::Config as_in_the_thesis{.ema_clip = 0};
  EXPECT_EQ(after({Nanos::millis(4)}, as_in_the_thesis).short_service, Nanos::millis(4));
}

TEST_F(SynergyQuantum, long_requests_do_not_count) {
  Synergy::Worker worker = after({Nanos(1'000)});
  Job long_job;
  long_job.job_class = JobClass::kLong;
  Synergy({}).finished(worker, long_job, Nanos::millis(13));
  EXPECT_EQ(worker.short_service, Nanos(1'000));
}

TEST_F(SynergyQuantum, each_worker_has_an_average_of_its_own) {
  const Synergy::Worker fast = after({Nanos::micros(1)});
  const Synergy::Worker slow = after({Nanos::micros(20)});
  EXPECT_EQ(quantum(fast), Nanos::micros(2));
  EXPECT_EQ(quantum(slow), Nanos::micros(40));
}

// The timer core, Algorithm 5.3.

class SynergyTimerCore : public SynergyTest {
 protected:
  Synergy::Plan check(Synergy::Config config = {.thresh_wqd = Nanos::micros(100)}) {
    return Synergy(config).adapt(central, host);
  }
  Synergy::Central central;
};

TEST_F(SynergyTimerCore, a_begun_request_is_resumed_first_until_its_turn_is_over) {
  const Synergy policy({.waiting = {.long_turn = Nanos::millis(2)}});
  Job job;
  job.job_class = JobClass::kLong;
  job.preemptions = 1;  // cut for the first time: behind those that waited before
  EXPECT_EQ(policy.requeue(job, RequeueReason::kPreempted, WorkerId{0}, host), waiting(0));
  job.preemptions = 2;
  job.attained = Nanos::millis(1);
  EXPECT_EQ(policy.requeue(job, RequeueReason::kPreempted, WorkerId{0}, host), begun(0));
  job.attained = Nanos::millis(2);
  EXPECT_EQ(policy.requeue(job, RequeueReason::kPreempted, WorkerId{0}, host), waiting(0));
  const Synergy as_in_the_thesis({.waiting = {.long_turn = Nanos()}});
  job.attained = Nanos(1);
  EXPECT_EQ(as_in_the_thesis.requeue(job, RequeueReason::kPreempted, WorkerId{0}, host),
            waiting(0));
}

TEST_F(SynergyTimerCore, begun_requests_come_before_waiting_ones_and_can_be_congested) {
  Job first;
  Job second;
  host.push(waiting(0), &first);
  host.push(begun(0), &second);
  check();
  EXPECT_TRUE(check().check_wait_queue);
  Synergy::Worker worker;
  EXPECT_EQ(Synergy({}).next(worker, WorkerId{0}, host), &second);
  EXPECT_EQ(Synergy({}).next(worker, WorkerId{0}, host), &first);
  EXPECT_FALSE(check().check_wait_queue);
}

TEST_F(SynergyTimerCore, starts_uncongested_with_the_plain_factor) {
  const Synergy::Plan plan = hook::initial_plan(Synergy({.quantum_factor = 4}));
  EXPECT_EQ(plan.factor, 4u);
  EXPECT_FALSE(plan.check_wait_queue);
}

TEST_F(SynergyTimerCore, a_job_that_waited_a_whole_interval_is_congestion) {
  fill(waiting(0), 1);
  EXPECT_FALSE(check().check_wait_queue);  // it may just have come
  const Synergy::Plan plan = check();
  EXPECT_TRUE(plan.check_wait_queue);
  EXPECT_EQ(plan.factor, Synergy::Config{}.congested_quantum_factor);
}

TEST_F(SynergyTimerCore, jobs_that_come_and_go_are_none) {
  for (int interval = 0; interval < 5; ++interval) {
    fill(waiting(0), 3);
    EXPECT_FALSE(check().check_wait_queue);
    while (host.take(waiting(0)) != nullptr) continue;
  }
}

TEST_F(SynergyTimerCore, it_suffices_that_the_consumer_reached_the_old_producer) {
  fill(waiting(0), 2);
  check();
  fill(waiting(0), 5);  // a backlog, but a new one
  host.take(waiting(0));
  EXPECT_TRUE(check().check_wait_queue);  // the second of the old ones still waits
  for (int i = 0; i < 6; ++i) host.take(waiting(0));
  EXPECT_FALSE(check().check_wait_queue);
}

TEST_F(SynergyTimerCore, the_flag_and_the_factor_fall_back_when_congestion_ends) {
  fill(waiting(0), 1);
  check();
  ASSERT_TRUE(check().check_wait_queue);
  host.take(waiting(0));
  const Synergy::Plan plan = check();
  EXPECT_FALSE(plan.check_wait_queue);
  EXPECT_EQ(plan.factor, Synergy::Config{}.quantum_factor);
}

TEST_F(SynergyTimerCore, congestion_of_any_level_counts) {
  const Synergy::Config config{.thresh_wqd = Nanos::micros(1), .waiting = {.levels = 3}};
  fill(waiting(1), 1);
  check(config);
  EXPECT_TRUE(check(config).check_wait_queue);
}

TEST_F(SynergyTimerCore, checks_once_per_threshold_and_never_with_threshold_zero) {
  EXPECT_EQ(Synergy({.thresh_wqd = Nanos::micros(30)}).adapt_period(), Nanos::micros(30));
  EXPECT_EQ(Synergy({}).adapt_period(), Nanos::max());
}

TEST_F(SynergyTimerCore, an_expired_job_goes_on_if_no_request_waits_at_its_worker) {
  fill(inbox(1), 5);  // at another worker
  EXPECT_EQ(expired(0), SliceDecision::kContinue);
}

TEST_F(SynergyTimerCore, an_expired_job_makes_room_for_a_request_at_its_worker) {
  fill(inbox(0), 1);
  EXPECT_EQ(expired(0), SliceDecision::kPreempt);
}

TEST_F(SynergyTimerCore, unconditional_preemption_cuts_although_nobody_waits) {
  EXPECT_EQ(expired(0, {.conditional = false}), SliceDecision::kPreempt);
}

TEST_F(SynergyTimerCore, without_the_wait_queue_a_cut_request_returns_to_the_inbox_it_came_from) {
  Job job;
  job.priority = 1;
  job.preemptions = 2;
  const Synergy policy({.wait_queue = false, .waiting = {.levels = 2}});
  EXPECT_EQ(policy.requeue(job, RequeueReason::kPreempted, WorkerId{3}, host), inbox(3));
}

TEST_F(SynergyTimerCore, waiting_jobs_of_the_same_level_are_no_reason) {
  fill(waiting(0), 5);
  EXPECT_EQ(expired(0), SliceDecision::kContinue);
  fill(waiting(1), 5);
  fill(waiting(2), 5);
  host.take(waiting(0));
  while (host.take(waiting(0)) != nullptr) continue;
  EXPECT_EQ(expired(1, {.waiting = {.levels = 3}}), SliceDecision::kContinue);
}

TEST_F(SynergyTimerCore, a_waiting_job_of_a_more_urgent_level_is_one) {
  fill(waiting(1), 1);
  EXPECT_EQ(expired(2, {.waiting = {.levels = 3}}), SliceDecision::kPreempt);
  EXPECT_EQ(expired(0, {.waiting = {.levels = 3}}), SliceDecision::kContinue);
}

TEST_F(SynergyTimerCore, priorities_beyond_the_levels_share_the_last_level) {
  const Synergy::Config config{.waiting = {.levels = 2}};
  Job job;
  job.priority = 7;
  EXPECT_EQ(Synergy(config).requeue(job, RequeueReason::kPreempted, WorkerId{0}, host), waiting(1));
  fill(waiting(1), 1);
  EXPECT_EQ(expired(7, config), SliceDecision::kContinue);
  EXPECT_EQ(expired(7), SliceDecision::kContinue);
}

// Whole runs.

TEST(Synergy, a_preempted_job_waits_at_the_level_of_its_priority) {
  ScriptHost<Synergy> host(1);
  Job job;
  job.priority = 1;
  const Synergy policy({.waiting = {.levels = 3}});
  EXPECT_EQ(policy.requeue(job, RequeueReason::kPreempted, WorkerId{0}, host), waiting(1));
}

TEST(Synergy, a_short_request_waits_for_one_quantum_at_most) {
  const std::array<Arrival, 2> arrivals{
      {{.service = Nanos::millis(1), .job_class = JobClass::kLong},
       {.at = Instant(1'000), .service = Nanos::micros(2)}}};
  const DriveReport report = drive<Synergy>({}, arrivals, {.workers = 1});
  ASSERT_EQ(report.departures.size(), 2u);
  EXPECT_EQ(report.departures[0].arrival, 1u);
  EXPECT_EQ(report.departures[0].at, Instant() + Nanos::micros(12));  // 5 us * 2, then its 2 us
  EXPECT_EQ(report.departures[1].preemptions, 1u);
}

TEST(Synergy, short_requests_are_never_preempted) {
  const std::array<Arrival, 2> arrivals{
      {{.service = Nanos::millis(1)}, {.at = Instant(1'000), .service = Nanos::micros(2)}}};
  const DriveReport report = drive<Synergy>({}, arrivals, {.workers = 1});
  EXPECT_EQ(report.departures[0].arrival, 0u);
  EXPECT_EQ(report.preemptions, 0u);
}

TEST(Synergy, is_work_conserving_with_steal_threshold_zero) {
  const uint64_t seed = test_seed(21);
  const std::vector<Arrival> arrivals = make_arrivals(seed, {.load = 0.9});
  const DriveReport report = drive<Synergy>({.steal_threshold = 0}, arrivals, {.seed = seed});
  EXPECT_EQ(report.idle_while_waiting, 0u);
}

TEST(Synergy, preempted_jobs_make_progress_under_an_overload_of_short_ones) {
  const uint64_t seed = test_seed(22);
  const std::vector<Arrival> arrivals =
      make_arrivals(seed, {.jobs = 20'000, .load = 1.3, .long_share = 0.01});
  const auto longest_wait = [&](Nanos thresh_wqd) {
    Nanos longest;
    for (const auto& departure : drive<Synergy>({.thresh_wqd = thresh_wqd}, arrivals).departures) {
      const Arrival& arrival = arrivals[departure.arrival];
      if (arrival.job_class == JobClass::kLong) {
        longest = std::max(longest, departure.at - arrival.at);
      }
    }
    return longest;
  };
  EXPECT_LT(longest_wait(Nanos::micros(20)), longest_wait(Nanos()));
}

TEST(Synergy, cut_requests_starve_in_a_flood_only_if_the_wait_queue_is_never_checked) {
  using testing::FloodKind;
  const testing::Flood flood =
      testing::FloodMaker(test_seed(25), 4).make(FloodKind::kShort, FloodKind::kLong, 8'000);
  const auto starves = [&](Nanos thresh_wqd) {
    const testing::DriveOptions options{.queue_capacity = 64};
    return starved(flood, drive<Synergy>({.thresh_wqd = thresh_wqd}, flood.arrivals, options));
  };
  EXPECT_TRUE(starves(Nanos()));
  EXPECT_FALSE(starves(Nanos::micros(20)));
}

// Fig. 6.5, from nothing to all of it.
TEST(Synergy, every_job_finishes_once_with_any_of_its_components) {
  const uint64_t seed = test_seed(24);
  const std::vector<Arrival> arrivals = make_arrivals(seed, {.load = 0.7});
  const Nanos fixed = Nanos::micros(5);
  const std::array<Synergy::Config, 4> configs{
      {{.stealing = false, .wait_queue = false, .conditional = false, .fixed_quantum = fixed},
       {.wait_queue = false, .conditional = false, .fixed_quantum = fixed},
       {.conditional = false, .fixed_quantum = fixed},
       {.fixed_quantum = fixed}}};
  for (const Synergy::Config& config : configs) {
    for (const bool chaos : {false, true}) {
      const DriveReport report =
          drive<Synergy>(config, arrivals, {.seed = seed, .chaos = chaos});
      EXPECT_EQ(report.departures.size() + report.refused.size(), arrivals.size());
      EXPECT_TRUE(report.violations.empty());
    }
  }
}

TEST(Synergy, every_job_finishes_once_with_all_options_in_use_and_all_going_wrong) {
  const uint64_t seed = test_seed(23);
  const std::vector<Arrival> arrivals = make_arrivals(seed, {.load = 0.9});
  const Synergy::Config config{.thresh_wqd = Nanos::micros(10),
                               .long_victims_first = true,
                               .waiting = {.levels = 3}};
  const DriveReport report = drive<Synergy>(config, arrivals, {.seed = seed, .chaos = true});
  EXPECT_EQ(report.departures.size() + report.refused.size(), arrivals.size());
  EXPECT_TRUE(report.violations.empty());
}

}  // namespace
}  // namespace rubato
