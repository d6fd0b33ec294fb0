// SPDX-License-Identifier: Apache-2.0
#include "policy/altocumulus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string_view>
#include <vector>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;
using Config = Altocumulus::Config;

constexpr QueueRef netrx(uint32_t manager) { return {0, manager}; }
constexpr QueueRef local(uint32_t worker) { return {1, worker}; }
constexpr QueueRef waiting(uint32_t manager) { return {2, manager}; }

// Groups of workers under scripted managers.
struct Groups {
  Groups(Config config, uint32_t workers)
      : policy(config),
        count(policy.managers(workers)),
        host(workers, 1, {}, count),
        manager(count) {}

  // So many more jobs come to a group.
  void arrive(uint32_t at, uint32_t jobs, uint32_t moves = 0) {
    for (uint32_t i = 0; i < jobs; ++i) {
      Job& job = job_memory.emplace_back();
      job.moves = moves;
      ASSERT_TRUE(host.push(netrx(at), &job));
    }
  }
  // All workers have what they may have, so that managers hand out nothing.
  void busy() {
    for (uint32_t w = 0; w < host.workers(); ++w) {
      host.set_busy(WorkerId{w}, true);
      host.push(local(w), &job_memory.emplace_back());
    }
  }
  Instant step(uint32_t m) { return policy.manage(manager[m], ManagerId{m}, host); }
  void step_all() {
    for (uint32_t m = 0; m < count; ++m) step(m);
  }
  // As if they had told each other just now.
  void all_know() {
    for (Altocumulus::Manager& one : manager) {
      for (uint32_t m = 0; m < count; ++m) one.q[m] = length(m);
    }
  }
  void next_period() { host.set_now(host.now() + Nanos(200)); }
  uint32_t length(uint32_t m) { return static_cast<uint32_t>(host.waiting(netrx(m)).size()); }
  std::vector<uint32_t> lengths() {
    std::vector<uint32_t> all;
    for (uint32_t m = 0; m < count; ++m) all.push_back(length(m));
    return all;
  }
  // Messages of a kind on their way to a manager.
  std::vector<Message> mail(uint32_t to, std::string_view kind) {
    std::vector<Message> found;
    for (const Message& message : host.mailbox(ManagerId{to})) {
      if (Altocumulus::kMessageKinds[message.kind] == kind) found.push_back(message);
    }
    return found;
  }
  // What another manager, which the test plays, sends.
  void send_migrate(uint32_t from, uint32_t to, uint32_t jobs) {
    Message message{.from = ManagerId{from}, .kind = 1, .value = 0, .jobs = jobs, .job = {}};
    for (uint32_t i = 0; i < jobs; ++i) message.job[i] = &job_memory.emplace_back();
    ASSERT_TRUE(host.send(ManagerId{to}, message));
  }
  void fill_mailbox(uint32_t to) {
    Message update{.from = ManagerId{to == 0 ? 1u : 0u}, .kind = 0, .value = 0, .jobs = 0,
                   .job = {}};
    while (host.send(ManagerId{to}, update)) {}
  }

  std::deque<Job> job_memory;
  Altocumulus policy;
  uint32_t count;
  ScriptHost<Altocumulus> host;
  std::vector<Altocumulus::Manager> manager;
};

// A threshold that only a hill of the tests exceeds.
constexpr uint32_t kHigh = 100;
Config paper() { return {.group = 1, .bulk = 40, .concurrency = 4, .upper_bound = kHigh}; }

// Section VI, "Walk-through example": 4 groups with 30, 30, 70 and 30 requests.
struct WalkThrough : Groups {
  explicit WalkThrough(Config config = paper()) : Groups(config, 4) {
    busy();
    for (const uint32_t m : {0u, 1u, 3u}) arrive(m, 30);
    arrive(2, 70);
    for (const uint32_t m : {0u, 1u, 3u, 2u}) step(m);
  }
};

TEST(Altocumulus, groups_are_of_equal_size_as_near_as_can_be) {
  for (const uint32_t group : {1u, 2u, 7u, 15u, 16u, 256u}) {
    const Altocumulus policy({.group = group});
    for (uint32_t workers = 1; workers <= limits::kMaxWorkers; ++workers) {
      const uint32_t managers = policy.managers(workers);
      ASSERT_LE(managers, limits::kMaxManagers);
      std::vector<uint32_t> size(managers);
      uint32_t before = 0;
      for (uint32_t w = 0; w < workers; ++w) {
        const uint32_t m = policy.manager_of(WorkerId{w}, workers).value;
        ASSERT_LT(m, managers);
        ASSERT_TRUE(m == before || m == before + 1) << "neighbours";
        before = m;
        ++size[m];
      }
      const auto [least, most] = std::minmax_element(size.begin(), size.end());
      ASSERT_LE(*most - *least, 1u) << workers << " in groups of " << group;
      if (managers < limits::kMaxManagers) { ASSERT_LE(*most, group); }
    }
  }
}

TEST(Altocumulus, a_request_comes_to_the_group_of_its_worker) {
  Groups groups({.group = 2}, 5);
  EXPECT_EQ(groups.count, 3u);
  for (uint32_t w = 0; w < 5; ++w) {
    const ManagerId manager = groups.policy.manager_of(WorkerId{w}, 5);
    EXPECT_EQ(groups.policy.route(Job(), WorkerId{w}, groups.host), netrx(manager.value));
  }
}

TEST(Altocumulus, a_manager_hands_out_to_all_workers_of_its_group_and_to_no_other) {
  for (uint32_t workers = 1; workers <= 40; ++workers) {
    Groups groups({.group = 7, .k = 1}, workers);
    for (uint32_t m = 0; m < groups.count; ++m) groups.arrive(m, 50);
    for (uint32_t m = 0; m < groups.count; ++m) {
      groups.step(m);
      for (uint32_t w = 0; w < workers; ++w) {
        const uint32_t of = groups.policy.manager_of(WorkerId{w}, workers).value;
        ASSERT_EQ(groups.host.waiting(local(w)).size(), of <= m ? 1u : 0u) << "worker " << w;
      }
    }
  }
}

// JBSQ(2), the request that runs included: the emptiest first.
TEST(Altocumulus, a_worker_has_two_requests_at_most_and_the_emptiest_gets_the_next) {
  Groups groups({.group = 3}, 3);
  groups.host.set_busy(WorkerId{0}, true);
  groups.arrive(0, 7);
  groups.step(0);
  const auto job = [&](size_t i) { return &groups.job_memory[i]; };
  EXPECT_EQ(groups.host.waiting(local(0)), (std::deque<Job*>{job(2)}));
  EXPECT_EQ(groups.host.waiting(local(1)), (std::deque<Job*>{job(0), job(3)}));
  EXPECT_EQ(groups.host.waiting(local(2)), (std::deque<Job*>{job(1), job(4)}));
  EXPECT_EQ(groups.host.waiting(netrx(0)), (std::deque<Job*>{job(5), job(6)}));
}

TEST(Altocumulus, k_says_how_many_a_worker_may_have) {
  Groups groups({.group = 2, .k = 3}, 2);
  groups.arrive(0, 10);
  groups.step(0);
  EXPECT_EQ(groups.host.waiting(local(0)).size(), 3u);
  EXPECT_EQ(groups.host.waiting(local(1)).size(), 3u);
  EXPECT_EQ(groups.length(0), 4u);
}

TEST(Altocumulus, what_finds_no_room_at_a_worker_stays_in_hand_and_is_looked_after_soon) {
  Groups groups({.group = 1}, 1);
  groups.host.set_capacity(1);
  groups.host.push(local(0), &groups.job_memory.emplace_back());
  groups.arrive(0, 1);
  EXPECT_EQ(groups.step(0), groups.host.now() + Nanos(200));
  EXPECT_EQ(groups.manager[0].held, 1u);
  groups.host.set_capacity(8);
  groups.step(0);
  EXPECT_EQ(groups.manager[0].held, 0u);
  EXPECT_EQ(groups.host.waiting(local(0)).size(), 2u);
}

// Or nobody ever makes room.
TEST(Altocumulus, a_manager_with_its_hands_and_its_queue_full_hands_out) {
  Groups groups(paper(), 2);
  groups.busy();
  groups.arrive(0, 20);
  groups.host.set_capacity(20);
  groups.send_migrate(1, 0, 10);
  groups.step(0);
  EXPECT_EQ(groups.manager[0].held, 10u);
  groups.host.set_busy(WorkerId{0}, false);
  groups.step(0);
  EXPECT_EQ(groups.host.waiting(local(0)).size(), 2u);
  EXPECT_EQ(groups.length(0), 19u);
  groups.step(0);
  EXPECT_EQ(groups.length(0), 20u);
  EXPECT_EQ(groups.manager[0].held, 9u);
}

TEST(Altocumulus, the_papers_example_sends_ten_requests_to_each_other_group) {
  WalkThrough example;
  EXPECT_EQ(example.length(2), 40u);
  for (const uint32_t m : {0u, 1u, 3u}) {
    const auto migrate = example.mail(m, "migrate");
    ASSERT_EQ(migrate.size(), 1u);
    EXPECT_EQ(migrate[0].jobs, 10u);
    EXPECT_EQ(migrate[0].from, ManagerId{2});
  }
  for (const uint32_t m : {0u, 1u, 3u}) example.step(m);
  EXPECT_EQ(example.lengths(), (std::vector<uint32_t>{40, 40, 40, 40}));
  EXPECT_EQ(example.mail(2, "ack").size(), 3u);
}

TEST(Altocumulus, requests_leave_from_the_tail_and_keep_their_order) {
  WalkThrough example;
  const auto job = [&](size_t i) { return &example.job_memory[4 + 90 + i]; };  // after the others
  const auto expect_jobs = [&](const Message& message, size_t first) {
    for (uint32_t i = 0; i < message.jobs; ++i) EXPECT_EQ(message.job[i], job(first + i));
  };
  expect_jobs(example.mail(0, "migrate")[0], 60);
  expect_jobs(example.mail(1, "migrate")[0], 50);
  expect_jobs(example.mail(3, "migrate")[0], 40);
  for (size_t i = 0; i < 40; ++i) EXPECT_EQ(example.host.waiting(netrx(2))[i], job(i));
  example.step(0);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(example.host.waiting(netrx(0))[30 + i], job(60 + i));
}

// Line 10 of Algorithm 1.
TEST(Altocumulus, nothing_moves_to_where_it_would_wait_longer) {
  Config config = paper();
  config.upper_bound = 50;
  Groups groups(config, 4);
  groups.busy();
  for (const uint32_t m : {0u, 1u, 3u}) groups.arrive(m, 51);
  groups.arrive(2, 70);  // 70 - 10 < 51 + 10
  groups.all_know();
  groups.step_all();
  EXPECT_EQ(groups.lengths(), (std::vector<uint32_t>{51, 51, 70, 51}));
  groups.arrive(2, 1);  // 71 - 10 = 51 + 10: one message, and no second
  groups.next_period();
  groups.step(2);
  EXPECT_EQ(groups.length(2), 61u);
}

TEST(Altocumulus, a_request_moves_at_most_once) {
  Groups groups(paper(), 4);
  groups.busy();
  groups.arrive(2, 60);
  groups.arrive(2, 1, /*moves=*/1);
  groups.arrive(2, 9);
  const std::deque<Job*> before = groups.host.waiting(netrx(2));
  groups.step(2);
  ASSERT_EQ(groups.mail(0, "migrate").size(), 1u);
  EXPECT_EQ(groups.mail(0, "migrate")[0].jobs, 9u);  // those behind it
  EXPECT_EQ(groups.mail(1, "migrate").size(), 0u);
  EXPECT_EQ(groups.host.waiting(netrx(2)),
            std::deque<Job*>(before.begin(), before.begin() + 61));
}

TEST(Altocumulus, a_group_without_registers_sends_requests_back_and_they_stay_there) {
  Config config = paper();
  config.registers = 39;
  WalkThrough example(config);
  const std::deque<Job*> kept = example.host.waiting(netrx(2));
  for (const uint32_t m : {0u, 1u, 3u}) example.step(m);
  EXPECT_EQ(example.mail(2, "nack").size(), 3u);
  example.next_period();
  example.step(2);
  EXPECT_EQ(example.lengths(), (std::vector<uint32_t>{30, 30, 70, 30}));
  const std::deque<Job*>& now = example.host.waiting(netrx(2));
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), now.begin()));
  for (size_t i = kept.size(); i < now.size(); ++i) EXPECT_EQ(now[i]->moves, 2u);
  // "The source core does not replay this refused migration message": a new one would carry them.
  for (const uint32_t m : {0u, 1u, 3u}) EXPECT_EQ(example.mail(m, "migrate").size(), 0u);
}

TEST(Altocumulus, a_step_accepts_what_its_fifo_holds) {
  Config config = paper();
  config.fifo = 16;
  Groups groups(config, 3);
  groups.busy();
  groups.send_migrate(1, 0, 10);
  groups.send_migrate(2, 0, 10);
  groups.step(0);
  EXPECT_EQ(groups.length(0), 10u);
  EXPECT_EQ(groups.mail(1, "ack").size(), 1u);
  EXPECT_EQ(groups.mail(2, "nack").size(), 1u);
  groups.send_migrate(2, 0, 6);
  groups.send_migrate(1, 0, 10);
  groups.step(0);
  EXPECT_EQ(groups.length(0), 26u);
}

TEST(Altocumulus, a_message_larger_than_the_fifo_is_accepted_if_it_is_the_first) {
  Config config = paper();
  config.fifo = 4;
  Groups groups(config, 2);
  groups.busy();
  groups.send_migrate(1, 0, 10);
  groups.step(0);
  EXPECT_EQ(groups.length(0), 10u);
}

// It can neither be kept nor refused, and so is kept.
TEST(Altocumulus, what_cannot_be_sent_back_is_served) {
  Config config = paper();
  config.registers = 1;
  Groups groups(config, 2);
  groups.busy();
  groups.fill_mailbox(1);
  groups.send_migrate(1, 0, 10);
  groups.step(0);
  EXPECT_EQ(groups.length(0), 10u);
}

TEST(Altocumulus, a_full_mailbox_loses_nothing) {
  Groups groups(paper(), 2);
  groups.busy();
  groups.fill_mailbox(1);
  groups.arrive(0, 50);
  const std::deque<Job*> before = groups.host.waiting(netrx(0));
  groups.step(0);
  EXPECT_EQ(groups.host.waiting(netrx(0)), before);
  for (const Job* job : before) EXPECT_EQ(job->moves, 0u);
}

TEST(Altocumulus, requests_that_come_back_to_a_full_queue_stay_in_hand) {
  Groups groups(paper(), 2);
  groups.busy();
  groups.arrive(0, 20);
  Message back{.from = ManagerId{1}, .kind = 3, .value = 0, .jobs = 16, .job = {}};
  for (Job*& job : back.job) job = &groups.job_memory.emplace_back();
  ASSERT_TRUE(groups.host.send(ManagerId{0}, back));
  groups.host.set_capacity(24);
  groups.step(0);
  EXPECT_EQ(groups.length(0), 24u);
  EXPECT_EQ(groups.manager[0].held, 12u);
  groups.host.set_capacity(100);
  groups.step(0);
  EXPECT_EQ(groups.length(0), 36u);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(groups.host.waiting(netrx(0))[20 + i], back.job[i]);
}

TEST(Altocumulus, tells_all_others_its_length_when_it_has_changed) {
  Groups groups(paper(), 3);
  groups.busy();
  groups.arrive(1, 5);
  groups.step(1);
  for (const uint32_t other : {0u, 2u}) {
    ASSERT_EQ(groups.mail(other, "update").size(), 1u);
    EXPECT_EQ(groups.mail(other, "update")[0].value, 5u);
  }
  EXPECT_TRUE(groups.host.mailbox(ManagerId{1}).empty());
  groups.next_period();
  groups.step(1);
  EXPECT_EQ(groups.mail(0, "update").size(), 1u);
  groups.arrive(1, 1);
  groups.next_period();
  groups.step(1);
  EXPECT_EQ(groups.mail(0, "update").back().value, 6u);
}

TEST(Altocumulus, a_length_that_could_not_be_told_is_told_again) {
  Groups groups(paper(), 3);
  groups.busy();
  groups.fill_mailbox(2);
  groups.arrive(1, 5);
  groups.step(1);
  ASSERT_EQ(groups.mail(0, "update").size(), 1u);
  for (Message read; groups.host.receive(ManagerId{2}, read);) {}
  groups.next_period();
  groups.step(1);
  ASSERT_EQ(groups.mail(2, "update").size(), 1u);
  EXPECT_EQ(groups.mail(2, "update")[0].value, 5u);
}

TEST(Altocumulus, predicts_once_a_period) {
  Groups groups(paper(), 2);
  groups.busy();
  groups.arrive(0, 10);
  EXPECT_EQ(groups.step(0), Instant(200));
  groups.arrive(0, 80);
  groups.host.set_now(Instant(199));
  EXPECT_EQ(groups.step(0), Instant(200));
  EXPECT_EQ(groups.mail(1, "migrate").size(), 0u);
  groups.host.set_now(Instant(200));
  EXPECT_EQ(groups.step(0), Instant(400));
  EXPECT_EQ(groups.mail(1, "migrate").size(), 1u);
}

TEST(Altocumulus, a_quiet_group_needs_no_step) {
  Groups groups({.group = 2}, 4);
  EXPECT_EQ(groups.step(0), Instant::never());
  EXPECT_TRUE(groups.host.mailbox(ManagerId{1}).empty());
}

TEST(Altocumulus, without_migration_groups_are_on_their_own) {
  Config config = paper();
  config.migrate = false;
  Groups groups(config, 2);
  groups.busy();
  groups.arrive(0, 500);
  EXPECT_EQ(groups.step(0), Instant::never());
  EXPECT_EQ(groups.lengths(), (std::vector<uint32_t>{500, 0}));
  EXPECT_TRUE(groups.host.mailbox(ManagerId{1}).empty());
}

// The model's threshold instead of a fixed one. With all workers busy a queue says nothing yet.
TEST(Altocumulus, the_threshold_follows_how_many_workers_are_busy) {
  for (const uint32_t busy : {3u, 4u}) {
    Groups groups({.group = 4, .bulk = 1000, .load_shift = 0}, 8);
    groups.busy();
    for (uint32_t w = busy; w < 4; ++w) {
      groups.host.set_busy(WorkerId{w}, false);
      groups.host.push(local(w), &groups.job_memory.emplace_back());
    }
    groups.arrive(0, 40);
    groups.step(0);
    EXPECT_EQ(groups.manager[0].load, busy);
    EXPECT_EQ(groups.mail(1, "migrate").size(), busy == 3 ? 1u : 0u);
  }
}

TEST(Altocumulus, a_worker_runs_what_its_manager_gave_it_and_nothing_else) {
  Groups groups({.group = 2}, 4);
  groups.arrive(0, 1);
  Altocumulus::Worker worker;
  Job other, mine;
  groups.host.push(local(1), &other);
  EXPECT_EQ(groups.policy.next(worker, WorkerId{0}, groups.host), nullptr);
  groups.host.push(local(0), &mine);
  EXPECT_EQ(groups.policy.next(worker, WorkerId{0}, groups.host), &mine);
  EXPECT_EQ(groups.policy.quantum(worker, mine, groups.host), Nanos::max());
}

class InsideSynergy : public ::testing::Test {
 protected:
  Job* next(uint32_t me) { return groups.policy.next(worker, WorkerId{me}, groups.host); }
  SliceDecision expired(uint32_t at) {
    return groups.policy.expired(job, WorkerId{at}, groups.host);
  }

  Groups groups{{.group = 2, .inside_synergy = true}, 4};
  Altocumulus::Worker worker;
  Job job, another;
};

TEST_F(InsideSynergy, preempts_only_when_somebody_waits_in_the_group) {
  EXPECT_EQ(expired(0), SliceDecision::kContinue);
  groups.arrive(1, 1);
  groups.host.push(local(1), &job);
  EXPECT_EQ(expired(0), SliceDecision::kContinue);  // another's worker, another group
  groups.arrive(0, 1);
  EXPECT_EQ(expired(0), SliceDecision::kPreempt);
  EXPECT_EQ(expired(1), SliceDecision::kPreempt);
}

TEST_F(InsideSynergy, preempts_for_what_its_worker_has_waiting) {
  groups.host.push(local(0), &job);
  EXPECT_EQ(expired(0), SliceDecision::kPreempt);
  EXPECT_EQ(expired(1), SliceDecision::kContinue);
}

TEST_F(InsideSynergy, a_preempted_request_waits_for_any_worker_of_its_group) {
  EXPECT_EQ(groups.policy.requeue(job, RequeueReason::kPreempted, WorkerId{3}, groups.host),
            waiting(1));
  groups.host.push(waiting(1), &job);
  EXPECT_EQ(next(0), nullptr);
  EXPECT_EQ(next(2), &job);
}

TEST_F(InsideSynergy, own_requests_come_before_preempted_ones) {
  groups.host.push(waiting(0), &job);
  groups.host.push(local(0), &another);
  EXPECT_EQ(next(0), &another);
  EXPECT_EQ(next(0), &job);
}

TEST_F(InsideSynergy, steals_within_its_group_only) {
  groups.host.push(local(2), &job);
  EXPECT_EQ(next(0), nullptr);
  EXPECT_EQ(next(3), &job);
}

TEST_F(InsideSynergy, quantum_follows_short_requests) {
  EXPECT_EQ(groups.policy.quantum(worker, job, groups.host), Nanos::micros(10));  // 2 * 5 us
  groups.policy.finished(worker, job, Nanos::micros(3));
  EXPECT_EQ(groups.policy.quantum(worker, job, groups.host), Nanos::micros(6));
  job.job_class = JobClass::kLong;
  groups.policy.finished(worker, job, Nanos::millis(3));
  EXPECT_EQ(groups.policy.quantum(worker, job, groups.host), Nanos::micros(6));
}

}  // namespace
}  // namespace rubato
