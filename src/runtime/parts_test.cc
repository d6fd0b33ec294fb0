// SPDX-License-Identifier: Apache-2.0
//
// The small parts of a worker: idling, the naming of blockers, the work that keeps it awake, what
// it tells traces.
#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "policy/all.h"
#include "runtime/idling.h"
#include "runtime/live_host.h"
#include "runtime/queue_set.h"
#include "runtime/worker_stats.h"
#include "runtime/worker_tracer.h"

namespace rubato {
namespace {

constexpr Nanos kSpin = Nanos::micros(50);

TEST(Idling, spins_for_its_time_and_then_parks) {
  Idling idling(Idle::kAdaptive, kSpin);
  EXPECT_FALSE(idling.should_park(Instant(0)));
  EXPECT_FALSE(idling.should_park(Instant(49'999)));
  EXPECT_TRUE(idling.should_park(Instant(50'000)));
}

TEST(Idling, never_parks_when_told_to_spin) {
  Idling idling(Idle::kSpin, kSpin);
  EXPECT_FALSE(idling.should_park(Instant(0)));
  EXPECT_FALSE(idling.should_park(Instant(1'000'000'000)));
}

// The worker works at once, then has nothing to do for `gap`. Returns how long it would spin next.
Nanos spin_after_gaps(Idling& idling, int64_t& at, int64_t gap, int gaps) {
  for (int i = 0; i < gaps; ++i) {
    idling.should_park(Instant(at));
    at += gap;
    idling.found_work(Instant(at));
  }
  const int64_t from = at;
  while (!idling.should_park(Instant(at))) at += 1'000;
  idling.parked();
  idling.found_work(Instant(at));
  return Nanos(at - from);
}

TEST(Idling, sleeps_at_once_while_work_comes_rarely_and_spins_again_when_it_comes_often) {
  Idling idling(Idle::kAdaptive, kSpin);
  int64_t at = 0;
  EXPECT_EQ(spin_after_gaps(idling, at, 20'000, 1), kSpin);
  EXPECT_EQ(spin_after_gaps(idling, at, 500'000, 10), Nanos());
  EXPECT_EQ(spin_after_gaps(idling, at, 20'000, 30), kSpin);
}

TEST(Idling, a_silence_is_forgotten_after_some_gaps_however_long_it_was) {
  Idling idling(Idle::kAdaptive, kSpin);
  int64_t at = 0;
  EXPECT_EQ(spin_after_gaps(idling, at, 3'600'000'000'000, 100), Nanos());
  EXPECT_EQ(spin_after_gaps(idling, at, 20'000, 30), kSpin);
}

TEST(RecentSlices, names_who_held_the_worker_longest_while_one_waited) {
  RecentSlices recent;
  recent.note(Instant(0), Instant(500'000), 7);
  recent.note(Instant(500'000), Instant(800'000), 9);
  const auto blocker = recent.worst_between(Instant(450'000), Instant(900'000));
  EXPECT_EQ(blocker.type, 9u);
  EXPECT_EQ(blocker.held, Nanos(300'000));
}

TEST(RecentSlices, short_slices_are_nobodys_fault) {
  RecentSlices recent;
  recent.note(Instant(0), Instant(99'999), 7);
  EXPECT_EQ(recent.worst_between(Instant(0), Instant(99'999)).held, Nanos());
}

TEST(RecentSlices, knows_whether_a_long_slice_ended_since_a_request_came) {
  RecentSlices recent;
  recent.note(Instant(0), Instant(99'999), 7);
  EXPECT_FALSE(recent.any_after(Instant(0)));
  recent.note(Instant(100'000), Instant(500'000), 7);
  EXPECT_TRUE(recent.any_after(Instant(499'999)));
  EXPECT_FALSE(recent.any_after(Instant(500'000)));
}

std::vector<BlockedPair> all_of(const BlockedPairs& pairs) {
  std::vector<BlockedPair> all;
  pairs.for_each([&all](const BlockedPair& pair) { all.push_back(pair); });
  return all;
}

TEST(BlockedPairs, count_each_pair_apart_and_add_up_over_workers) {
  BlockedPairs one, other;
  one.note(0, 0, Nanos(5));
  one.note(1, 2, Nanos(10));
  other.note(1, 2, Nanos(30));
  one.add(other);
  uint64_t requests = 0;
  for (const BlockedPair& pair : all_of(one)) {
    requests += pair.requests;
    EXPECT_EQ(pair.held, pair.victim == 0 ? Nanos(5) : Nanos(40));
    EXPECT_EQ(pair.blocker, pair.victim == 0 ? 0u : 2u);
  }
  EXPECT_EQ(requests, 3u);
  EXPECT_EQ(all_of(one).size(), 2u);
}

TEST(BlockedPairs, beyond_their_number_are_counted_together) {
  BlockedPairs pairs;
  for (uint32_t victim = 0; victim < 100; ++victim) pairs.note(victim, 255, Nanos(1));
  const std::vector<BlockedPair> all = all_of(pairs);
  ASSERT_EQ(all.size(), BlockedPairs::kPairs + 1);
  EXPECT_EQ(all.back().victim, BlockedPair::kOther);
  EXPECT_EQ(all.back().requests, 100 - BlockedPairs::kPairs);
}

// A reader sees counts of that pair only, and none goes back.
TEST(BlockedPairs, are_read_while_they_rise) {
  BlockedPairs pairs;
  std::thread writer([&pairs] {
    for (uint32_t i = 0; i < 20'000; ++i) pairs.note(i % 80, i % 80, Nanos(i % 80));
  });
  std::array<uint64_t, 80> seen{};
  for (uint64_t sum = 0; sum < 20'000;) {
    sum = 0;
    for (const BlockedPair& pair : all_of(pairs)) {
      sum += pair.requests;
      if (pair.victim == BlockedPair::kOther) continue;
      EXPECT_EQ(pair.victim, pair.blocker);
      EXPECT_GE(pair.requests, seen[pair.victim]);
      seen[pair.victim] = pair.requests;
    }
  }
  writer.join();
}

TEST(WorkerStats, type_statistics_exist_from_the_first_use_on) {
  WorkerStats stats;
  EXPECT_EQ(stats.find_type(5), nullptr);
  stats.of_type(5).latency.record(Nanos(10));
  ASSERT_NE(stats.find_type(5), nullptr);
  EXPECT_EQ(stats.find_type(5)->latency.snapshot().count(), 1u);
  EXPECT_EQ(&stats.of_type(1'000), &stats.of_type(kRequestTypes - 1));
}

// By one host with a view of two workers: the last type of policies stands for all above.
TEST(WorkerStats, a_policy_sees_the_types_that_any_worker_has_seen) {
  const FixedPriority policy({});
  QueueSet<FixedPriority> queues(policy, 2, 64, 64);
  PlanCell<FixedPriority::Plan> cell;
  std::array<WorkerStats, 2> workers;
  const std::vector<const WorkerStats*> stats{&workers[0], &workers[1]};
  SharedState shared_state(2, 0, nullptr);
  LiveHost<FixedPriority> host(queues, cell, hook::initial_plan(policy), 2, stats, shared_state,
                               sched::Draws(1, 0));
  const auto count = [&](int64_t now, uint32_t type) {
    host.set_now(Instant(now));
    return host.served(type).count;
  };
  EXPECT_EQ(count(1, 3), 0u);
  workers[0].of_type(3).add(Nanos(), Nanos(10));
  EXPECT_EQ(count(2, 3), 1u);
  workers[1].of_type(3).add(Nanos(), Nanos(10));
  workers[1].of_type(kRequestTypes - 1).add(Nanos(), Nanos(10));
  workers[0].of_type(limits::kTypes - 1).add(Nanos(), Nanos(10));
  EXPECT_EQ(count(3, 3), 2u);
  EXPECT_EQ(count(3, 2), 0u);
  EXPECT_EQ(count(3, limits::kTypes - 1), 2u);
}

template <Policy P>
class Queues : public QueueSet<P> {
 public:
  Queues() : QueueSet<P>(P({}), 2, 64, 64) {}
  void put(QueueRef q) {
    ASSERT_TRUE(this->visit(q, [this](auto& queue) { return queue.put(&job_); }));
  }

 private:
  Job job_;
};

template <Policy P>
std::vector<QueueRef> waiting_in(Queues<P>& queues) {
  std::vector<QueueRef> found;
  queues.for_each_waiting([&](QueueRef q) { found.push_back(q); });
  return found;
}

static_assert(Host<LiveHost<Srpt>, None> && ManagedHost<LiveHost<Srpt>> &&
              SteeringHost<LiveHost<Srpt>>);

TEST(QueueSet, every_queue_of_all_workers_in_which_something_waits_is_found) {
  Queues<Synergy> queues;
  queues.put({0, 1});
  EXPECT_TRUE(waiting_in(queues).empty());
  queues.put({1, 3});
  queues.put({2, 0});
  EXPECT_EQ(waiting_in(queues), (std::vector<QueueRef>{{1, 3}, {2, 0}}));
  Queues<Jbsq> pushed;
  pushed.put({1, 1});
  EXPECT_TRUE(waiting_in(pushed).empty());
  EXPECT_TRUE(pushed.pushed_to(WorkerId{1}));
}

TEST(QueueSet, an_ordered_queue_goes_by_the_word_that_a_job_had_when_it_was_put) {
  QueueSet<Srpt> queues(Srpt({}), 2, 64, 64);
  const PlanCell<None> cell;
  const std::vector<const WorkerStats*> stats;
  SharedState shared_state(2, 0, nullptr);
  LiveHost<Srpt> host(queues, cell, None(), 2, stats, shared_state, sched::Draws(1, 0));
  const QueueRef q{0, 0};
  EXPECT_EQ(host.first_word(q), kNoWord);
  std::array<Job, 3> jobs;
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].policy_word = 3 - i;
    ASSERT_TRUE(host.put(q, &jobs[i]));
  }
  EXPECT_EQ(host.first_word(q), 1u);
  for (const size_t next : {2u, 1u, 0u}) EXPECT_EQ(host.take(q), &jobs[next]);
  EXPECT_EQ(host.take(q), nullptr);
}

// What is in the ring: of each depth the index of the queue, and the depth.
std::vector<std::pair<uint32_t, uint32_t>> depths_in(TraceRing& ring) {
  std::array<TraceRecord, 200> records;
  const uint32_t count = ring.take(records);
  std::vector<std::pair<uint32_t, uint32_t>> depths;
  for (uint32_t i = 0; i < count; ++i) {
    if (records[i].what == TraceRecord::What::kDepth) {
      depths.emplace_back(records[i].type, records[i].depth);
    }
  }
  return depths;
}

TEST(LiveHost, what_is_drawn_in_a_look_that_finds_nothing_is_drawn_again) {
  QueueSet<Cfcfs> queues(Cfcfs({}), 2, 64, 64);
  const PlanCell<None> cell;
  const std::vector<const WorkerStats*> stats;
  SharedState shared_state(2, 0, nullptr);
  LiveHost<Cfcfs> host(queues, cell, None(), 2, stats, shared_state, sched::Draws(1, 0));
  LiveHost<Cfcfs> other(queues, cell, None(), 2, stats, shared_state, sched::Draws(1, 1));
  const auto look = [](LiveHost<Cfcfs>& worker, bool finds) {
    worker.begin_look();
    const std::array drawn{worker.random(1 << 30), worker.random(1 << 30)};
    worker.end_look(finds);
    return drawn;
  };
  const auto first = look(host, false);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(look(host, false), first);
  EXPECT_EQ(look(host, true), first);
  EXPECT_NE(look(host, false), first);
  EXPECT_NE(look(other, true), first);
}

TEST(WorkerTracer, a_queue_of_all_workers_is_as_the_last_of_them_saw_it) {
  QueueSet<Cfcfs> queues(Cfcfs({}), 2, 64, 64);
  const PlanCell<None> cell;
  const std::vector<const WorkerStats*> stats;
  SharedState shared_state(2, 0, nullptr);
  LiveHost<Cfcfs> host(queues, cell, None(), 2, stats, shared_state, sched::Draws(1, 0));
  TraceRing rings[2];
  WorkerTracer<Cfcfs>::Shared shared;
  WorkerTracer<Cfcfs> first(&rings[0], WorkerId{0}, host, shared);
  WorkerTracer<Cfcfs> second(&rings[1], WorkerId{1}, host, shared);
  using Depths = std::vector<std::pair<uint32_t, uint32_t>>;
  first.turned();
  EXPECT_EQ(depths_in(rings[0]), Depths());
  Job job;
  for (const uint32_t trace : {1u, 2u}) {
    for (TraceRing& ring : rings) ring.want(trace);
    first.turned();
    second.turned();
    ASSERT_TRUE(host.put({0, 0}, &job));
    second.turned();
    ASSERT_EQ(host.take({0, 0}), &job);
    first.turned();
    EXPECT_EQ(depths_in(rings[0]), (Depths{{0, 0}, {0, 0}}));
    EXPECT_EQ(depths_in(rings[1]), (Depths{{0, 1}}));
  }
}

TEST(QueueSet, more_than_one_request_in_an_inbox_is_there_to_steal) {
  Queues<Sbb> queues;
  queues.put({0, 1});
  EXPECT_FALSE(queues.any_to_steal());
  queues.put({0, 1});
  EXPECT_TRUE(queues.any_to_steal());
  Queues<Fcfs> others;
  others.put({0, 1});
  others.put({0, 1});
  EXPECT_FALSE(others.any_to_steal());
}

}  // namespace
}  // namespace rubato
