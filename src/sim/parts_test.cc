// SPDX-License-Identifier: Apache-2.0
//
// The small parts of the simulator: events, sets, queues, pool, NIC.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "base/prng.h"
#include "policy/darc.h"
#include "policy/jbsq.h"
#include "policy/steal.h"
#include "sim/bit_ring.h"
#include "sim/critical_sections.h"
#include "sim/event_queue.h"
#include "sim/hyperthreads.h"
#include "sim/job_queue.h"
#include "sim/nic.h"
#include "sim/orderable_job_queue.h"
#include "sim/queue_set.h"
#include "sim/recorder.h"
#include "sim/request.h"
#include "sim/shared_line.h"
#include "sim/sim_host.h"

namespace rubato::sim {
namespace {

TEST(EventQueue, the_first_is_the_earliest_and_of_equal_ones_the_lower_source) {
  EventQueue events(5);
  EXPECT_EQ(events.first().at, Instant::never());
  events.schedule(3, Instant(70));
  events.schedule(1, Instant(70));
  events.schedule(4, Instant(90));
  EXPECT_EQ(events.first().at, Instant(70));
  EXPECT_EQ(events.first().source, 1u);
  events.cancel(1);
  EXPECT_EQ(events.first().source, 3u);
  events.schedule(3, Instant(100));
  EXPECT_EQ(events.first().source, 4u);
  events.schedule(4, Instant::never());
  events.cancel(3);
  EXPECT_EQ(events.first().at, Instant::never());
}

TEST(EventQueue, agrees_with_a_map_of_all_sources) {
  for (uint32_t sources : {1u, 2u, 3u, 17u, 258u}) {
    EventQueue events(sources, sources > 2 ? sources / 2 : EventQueue::kNone);
    std::map<uint32_t, int64_t> all;
    Prng prng(sources);
    for (int i = 0; i < 20'000; ++i) {
      const uint32_t source = prng.below(sources);
      const int64_t at = prng.below(1000);
      if (prng.below(4) == 0) {
        events.cancel(source);
        all.erase(source);
      } else {
        events.schedule(source, Instant(at));
        all[source] = at;
      }
      std::pair<int64_t, uint32_t> expected{Instant::never().ns(), 0};
      for (const auto& [a, t] : all) expected = std::min(expected, {t, a});
      ASSERT_EQ(events.first().at.ns(), expected.first) << "seed " << sources << ", step " << i;
      ASSERT_EQ(all.empty() ? 0 : events.first().source, expected.second);
    }
  }
}

TEST(EventQueue, few_sources_leave_more_time) {
  for (const uint32_t sources : {1u, 4u, 64u, EventQueue::kMaxSources}) {
    EventQueue events(sources);
    const Instant last = EventQueue::latest(sources) - Nanos(1);
    events.schedule(sources - 1, last);
    EXPECT_EQ(events.first().at, last);
    EXPECT_EQ(events.first().source, sources - 1);
  }
  EXPECT_GT(EventQueue::latest(64), EventQueue::latest(65));
  EXPECT_GT((EventQueue::latest(EventQueue::kMaxSources) - Instant()).seconds(), 26 * 86'400.0);
}

TEST(QueueSet, finds_who_holds_few) {
  constexpr uint32_t kWorkers = 150;
  const Jbsq policy({});
  QueueSet<Jbsq> queues(policy, kWorkers, 8);
  BitRing idle(kWorkers);
  Prng prng(1);
  std::vector<Job> jobs(kWorkers * 3);
  size_t put = 0;
  for (uint32_t w = 0; w < kWorkers; ++w) {
    if (prng.below(2) == 0) idle.add(w);
    for (uint32_t n = prng.below(4); n > 0; --n) queues.insert({1, w}, &jobs[put++]);
  }
  for (uint32_t most = 0; most < 4; ++most) {
    for (uint32_t from = 0; from < kWorkers; ++from) {
      const uint32_t end = from + prng.below(kWorkers - from + 1);
      uint32_t expected = from;
      while (expected < end &&
             queues.at({1, expected}).depth() + (idle.has(expected) ? 0 : 1) > most) {
        ++expected;
      }
      ASSERT_EQ(queues.find_shorter(1, idle, most, from, end), expected) << most << " " << from;
    }
  }
}

// However many are not yet in its histograms.
TEST(Recorder, knows_every_request_that_was_done_when_asked) {
  Recorder recorder(2);
  SimRequest request;
  request.service = Nanos(10);
  for (uint32_t done : {1u, 63u, 64u, 65u, 200u}) {
    for (uint32_t i = 1; i <= done; ++i) {
      request.true_type = i % 2;
      recorder.done(request, Nanos(20));
    }
    EXPECT_EQ(recorder.sum().count, done);
    recorder.done(request, Nanos(20));
    const std::vector<TypeBatch> batch = recorder.take_batch();
    EXPECT_EQ(batch[0].latency.count() + batch[1].latency.count(), done + 1);
    EXPECT_EQ(batch[1].slowdown.sum_ns(), static_cast<double>(batch[1].latency.count()) * 2000);
    EXPECT_EQ(recorder.sum().count, 0u);
  }
}

// Of three queues that are asked for in an order of their own, with none, one and all of them held.
TEST(QueueSet, finds_the_first_held_queue_in_the_order_asked_for) {
  QueueSet<Darc> queues(Darc({}), 1, 8);
  constexpr std::array<uint8_t, 3> kOrder{5, 0, 63};
  std::array<Job, 3> jobs;
  EXPECT_EQ(queues.find_held(0, kOrder), 3u);
  ASSERT_TRUE(queues.insert({0, 7}, &jobs[0]));
  EXPECT_EQ(queues.find_held(0, kOrder), 3u);  // one that is not asked for
  EXPECT_EQ(queues.remove({0, 7}), &jobs[0]);
  for (const uint32_t place : {2u, 1u, 0u}) {
    ASSERT_TRUE(queues.insert({0, kOrder[place]}, &jobs[place]));
    EXPECT_EQ(queues.find_held(0, kOrder), place);
    EXPECT_EQ(queues.find_held(0, {}), 0u);
  }
  EXPECT_EQ(queues.remove({0, kOrder[0]}), &jobs[0]);
  EXPECT_EQ(queues.find_held(0, kOrder), 1u);  // of two
}

TEST(BitRing, finds_the_next_member_in_ring_order) {
  for (uint32_t size : {1u, 63u, 64u, 65u, 200u, 9'000u}) {
    BitRing ring(size);
    std::set<uint32_t> members;
    Prng prng(size);
    for (int i = 0; i < 5'000; ++i) {
      const uint32_t changed = prng.below(size);
      if (members.erase(changed) == 1) {
        ring.remove(changed);
      } else if (prng.below(3) == 0) {
        members.insert(changed);
        ring.add(changed);
      }
      const uint32_t from = prng.below(size);
      const uint32_t count = prng.below(size + 1);
      uint32_t expected = 0;
      while (expected < count && !members.contains((from + expected) % size)) ++expected;
      ASSERT_EQ(ring.find(from, count), expected) << "size " << size << ", step " << i;
      ASSERT_EQ(ring.count(), members.size());
      ASSERT_EQ(ring.has(changed), members.contains(changed));
    }
  }
}

TEST(OrderableJobQueue, by_word_it_gives_the_smallest_first_and_of_equal_ones_the_first_put) {
  OrderableJobQueue queue(Order::kByWord);
  EXPECT_EQ(queue.first_word(), kNoWord);
  EXPECT_EQ(queue.head(), nullptr);
  std::vector<Job> jobs(6);
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].policy_word = 3 - i % 3;
    EXPECT_EQ(queue.put(&jobs[i], 5), i < 5);
  }
  EXPECT_EQ(queue.first_word(), 1u);
  EXPECT_EQ(queue.depth(), 5u);
  for (const size_t next : {2u, 1u, 4u, 0u, 3u}) {
    EXPECT_EQ(queue.head(), &jobs[next]);
    EXPECT_EQ(queue.take(), &jobs[next]);
  }
  EXPECT_EQ(queue.take(), nullptr);
  EXPECT_EQ(queue.produced(), 5u);
  EXPECT_EQ(queue.consumed(), 5u);
}

TEST(OrderableJobQueue, fifo_it_gives_the_oldest_first) {
  OrderableJobQueue queue(Order::kFifo);
  std::vector<Job> jobs(3);
  for (Job& job : jobs) {
    job.policy_word = 9 - queue.produced();
    EXPECT_TRUE(queue.put(&job, 3));
  }
  EXPECT_FALSE(queue.put(&jobs[0], 3));
  EXPECT_EQ(queue.take_tail(), &jobs[2]);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(queue.take(), &jobs[i]);
  EXPECT_TRUE(queue.empty());
}

TEST(JobQueue, keeps_order_and_bound_while_it_grows) {
  JobQueue queue;
  std::vector<Job> jobs(100);
  EXPECT_EQ(queue.take(), nullptr);
  size_t in = 0;
  for (; in < 40; ++in) EXPECT_TRUE(queue.put(&jobs[in], 50));
  for (size_t out = 0; out < 30; ++out) EXPECT_EQ(queue.take(), &jobs[out]);
  for (; in < 80; ++in) EXPECT_TRUE(queue.put(&jobs[in], 50));
  EXPECT_FALSE(queue.put(&jobs[in], 50));
  EXPECT_EQ(queue.depth(), 50u);
  EXPECT_EQ(queue.produced(), 80u);
  EXPECT_EQ(queue.consumed(), 30u);
  for (size_t out = 30; out < 80; ++out) EXPECT_EQ(queue.take(), &jobs[out]);
  EXPECT_TRUE(queue.empty());
}

TEST(JobQueue, agrees_with_a_deque) {
  for (uint32_t capacity : {4u, 5u, 300u}) {  // within the queue itself, just beyond, and far
    JobQueue queue;
    std::deque<Job*> all;
    std::vector<Job> jobs(1000);
    Prng prng(capacity);
    uint64_t put = 0;
    for (int i = 0; i < 20'000; ++i) {
      const bool fills = i / 1000 % 2 == 0;
      if (prng.below(10) < (fills ? 7 : 3)) {
        Job* const job = &jobs[prng.below(1000)];
        const bool fits = all.size() < capacity;
        ASSERT_EQ(queue.put(job, capacity), fits) << "seed " << capacity << ", step " << i;
        if (fits) all.push_back(job), ++put;
      } else if (all.empty()) {
        ASSERT_EQ(queue.take(), nullptr);
        ASSERT_EQ(queue.take_tail(), nullptr);
      } else if (prng.below(2) == 0) {
        ASSERT_EQ(queue.take_tail(), all.back()) << "seed " << capacity << ", step " << i;
        all.pop_back();
      } else {
        ASSERT_EQ(queue.take(), all.front()) << "seed " << capacity << ", step " << i;
        all.pop_front();
      }
      ASSERT_EQ(queue.head(), all.empty() ? nullptr : all.front());
      ASSERT_EQ(queue.depth(), all.size());
      ASSERT_EQ(queue.produced(), put);
      ASSERT_EQ(queue.consumed(), put - all.size());
    }
  }
}

TEST(RequestPool, lends_each_request_once_and_as_new) {
  RequestPool pool;
  std::set<SimRequest*> lent;
  for (int i = 0; i < 1000; ++i) lent.insert(pool.borrow());
  EXPECT_EQ(lent.size(), 1000u);
  EXPECT_EQ(pool.in_use(), 1000u);
  (*lent.begin())->preemptions = 7;
  pool.give_back(*lent.begin());
  EXPECT_EQ(pool.borrow()->preemptions, 0u);
}

// The verification suite of Microsoft's "RSS hashing functions": IPv4 with TCP.
TEST(Nic, hashes_as_the_specification_of_receive_side_scaling_says) {
  struct Vector {
    std::array<uint8_t, 4> source, destination;
    uint16_t source_port, destination_port;
    uint32_t hash;
  };
  const Vector vectors[] = {
      {{66, 9, 149, 187}, {161, 142, 100, 80}, 2794, 1766, 0x51ccc178},
      {{199, 92, 111, 2}, {65, 69, 140, 83}, 14230, 4739, 0xc626b0ea},
      {{24, 19, 198, 95}, {12, 22, 207, 184}, 12898, 38024, 0x5c2b394a},
      {{38, 27, 205, 30}, {209, 142, 163, 6}, 48228, 2217, 0xafc7327f},
      {{153, 39, 163, 191}, {202, 188, 127, 2}, 44251, 1303, 0x10e828a2},
  };
  for (const Vector& v : vectors) {
    FlowTuple tuple{};
    std::copy(v.source.begin(), v.source.end(), tuple.begin());
    std::copy(v.destination.begin(), v.destination.end(), tuple.begin() + 4);
    tuple[8] = static_cast<uint8_t>(v.source_port >> 8);
    tuple[9] = static_cast<uint8_t>(v.source_port);
    tuple[10] = static_cast<uint8_t>(v.destination_port >> 8);
    tuple[11] = static_cast<uint8_t>(v.destination_port);
    EXPECT_EQ(toeplitz(tuple), v.hash);
  }
}

Costs::Nic nic_with(Steering steering) {
  Costs::Nic costs;
  costs.steering = steering;
  return costs;
}

TEST(Nic, a_flow_stays_where_its_hash_put_it) {
  Nic nic(nic_with(Steering::kRss), 14, 1);
  std::map<uint64_t, uint32_t> first;
  std::vector<int> flows_of(14);
  for (uint64_t flow = 0; flow < 512; ++flow) {
    first[flow] = nic.steer(flow, Instant());
    ++flows_of[first[flow]];
  }
  for (uint64_t flow = 0; flow < 512; ++flow) EXPECT_EQ(nic.steer(flow, Instant(9)), first[flow]);
  for (int flows : flows_of) EXPECT_GT(flows, 10);  // 36.6 on average, hashed
}

TEST(Nic, every_worker_of_256_gets_flows) {
  Nic nic(nic_with(Steering::kRss), 256, 1);
  std::set<uint32_t> workers;
  for (uint64_t flow = 0; flow < 10'000; ++flow) workers.insert(nic.steer(flow, Instant()));
  EXPECT_EQ(workers.size(), 256u);
}

TEST(Nic, round_robin_takes_turns_and_random_covers_all) {
  Nic turns(nic_with(Steering::kRoundRobin), 3, 1);
  std::vector<uint32_t> seen;
  for (int i = 0; i < 6; ++i) seen.push_back(turns.steer(7, Instant()));
  EXPECT_EQ(seen, (std::vector<uint32_t>{1, 2, 0, 1, 2, 0}));
  Nic random(nic_with(Steering::kRandom), 4, 1);
  std::vector<int> counts(4);
  for (int i = 0; i < 40'000; ++i) ++counts[random.steer(0, Instant())];
  for (int count : counts) EXPECT_NEAR(count, 10'000, 500);
}

TEST(Nic, a_flow_follows_its_rule_once_the_rule_is_in_force) {
  Costs::Nic costs = nic_with(Steering::kFlowDirector);
  costs.rule_update = Nanos::micros(10);
  Nic nic(costs, 4, 1);
  Nic plain(nic_with(Steering::kRss), 4, 1);
  for (uint64_t flow = 0; flow < 8; ++flow) {
    EXPECT_EQ(nic.steer(flow, Instant()), plain.steer(flow, Instant()));
  }
  // One rule after the other, 10 us each.
  const Instant later = Instant() + Nanos::micros(45);
  for (uint64_t flow = 0; flow < 8; ++flow) {
    const uint32_t expected = flow < 4 ? static_cast<uint32_t>(flow) : plain.steer(flow, later);
    EXPECT_EQ(nic.steer(flow, later), expected) << flow;
  }
  EXPECT_EQ(nic.rules(), 8u);
}

// Rules that workers ask for, on a NIC that needs 10 us for each.
class NicRules : public ::testing::Test {
 protected:
  static constexpr uint64_t kFlow = 7;

  static Costs::Nic costs(Steering steering) {
    Costs::Nic nic = nic_with(steering);
    nic.rule_update = Nanos::micros(10);
    return nic;
  }
  static Instant us(int64_t at) { return Instant() + Nanos::micros(at); }
  uint32_t other_than_home(uint32_t step = 1) const { return (home + step) % 8; }

  Nic nic{costs(Steering::kRss), 8, 1};
  uint32_t home = nic.steer(kFlow, Instant());
};

TEST_F(NicRules, a_rule_is_in_force_when_it_is_written) {
  EXPECT_TRUE(nic.add_rule(kFlow, other_than_home(), us(5)));
  EXPECT_EQ(nic.steer(kFlow, us(15) - Nanos(1)), home);
  EXPECT_EQ(nic.steer(kFlow, us(15)), other_than_home());
  EXPECT_EQ(nic.rules(), 1u);
  Nic without_rules(costs(Steering::kRss), 8, 1);
  EXPECT_EQ(nic.steer(kFlow + 1, us(15)), without_rules.steer(kFlow + 1, us(15)));
}

TEST_F(NicRules, one_rule_is_written_after_the_other) {
  const uint32_t second_home = nic.steer(8, Instant());
  const uint32_t second = (second_home + 1) % 8;
  nic.add_rule(kFlow, other_than_home(), us(0));
  nic.add_rule(8, second, us(1));
  EXPECT_EQ(nic.steer(8, us(20) - Nanos(1)), second_home);
  EXPECT_EQ(nic.steer(8, us(20)), second);
}

TEST_F(NicRules, a_flow_that_has_a_rule_gets_another_in_its_place) {
  nic.add_rule(kFlow, other_than_home(1), us(0));
  EXPECT_TRUE(nic.add_rule(kFlow, other_than_home(2), us(15)));
  EXPECT_EQ(nic.steer(kFlow, us(24)), other_than_home(1));
  EXPECT_EQ(nic.steer(kFlow, us(25)), other_than_home(2));
  EXPECT_EQ(nic.rules(), 1u);
  EXPECT_EQ(nic.written(), 2u);
}

TEST_F(NicRules, without_its_rule_a_flow_goes_home_again_when_that_is_written) {
  nic.add_rule(kFlow, other_than_home(), us(0));
  EXPECT_TRUE(nic.remove_rule(kFlow, us(15)));
  EXPECT_EQ(nic.steer(kFlow, us(24)), other_than_home());
  EXPECT_EQ(nic.steer(kFlow, us(25)), home);
  EXPECT_EQ(nic.rules(), 0u);
  EXPECT_EQ(nic.removed(), 1u);
  EXPECT_FALSE(nic.remove_rule(kFlow, us(30)));
  nic.add_rule(kFlow, other_than_home(), us(40));
  EXPECT_EQ(nic.steer(kFlow, us(49)), home);
  EXPECT_EQ(nic.steer(kFlow, us(50)), other_than_home());
}

TEST_F(NicRules, a_rule_that_is_removed_before_it_is_written_never_holds) {
  nic.add_rule(kFlow, other_than_home(), us(0));
  nic.remove_rule(kFlow, us(5));
  for (const int64_t at : {5, 9, 10, 15, 20, 25}) EXPECT_EQ(nic.steer(kFlow, us(at)), home) << at;
}

TEST_F(NicRules, there_is_nothing_to_remove_of_a_flow_without_a_rule) {
  EXPECT_FALSE(nic.remove_rule(kFlow, us(0)));
  EXPECT_FALSE(nic.remove_rule(123'456'789, us(0)));
  EXPECT_EQ(nic.removed(), 0u);
}

TEST_F(NicRules, a_full_table_takes_no_more_until_one_goes) {
  for (uint64_t flow = 0; flow < Nic::kMostRules; ++flow) ASSERT_TRUE(nic.add_rule(flow, 1, us(0)));
  EXPECT_FALSE(nic.add_rule(Nic::kMostRules, 1, us(0)));
  EXPECT_EQ(nic.ruleless(), 1u);
  EXPECT_TRUE(nic.add_rule(0, 2, us(0)));  // has one
  EXPECT_TRUE(nic.remove_rule(1, us(0)));
  EXPECT_TRUE(nic.add_rule(Nic::kMostRules, 1, us(0)));
  EXPECT_EQ(nic.rules(), Nic::kMostRules);
}

TEST_F(NicRules, nics_that_do_not_steer_by_flow_have_none) {
  for (const Steering steering : {Steering::kRandom, Steering::kRoundRobin}) {
    Nic blind(costs(steering), 8, 1);
    EXPECT_FALSE(blind.add_rule(kFlow, 1, us(0)));
    EXPECT_FALSE(blind.remove_rule(kFlow, us(0)));
    EXPECT_EQ(blind.rules(), 0u);
  }
}

TEST_F(NicRules, a_flow_director_keeps_what_a_worker_asked_for) {
  Nic director(costs(Steering::kFlowDirector), 8, 1);
  director.add_rule(kFlow, 5, us(0));
  for (const int64_t at : {10, 20, 100}) EXPECT_EQ(director.steer(kFlow, us(at)), 5u);
  EXPECT_EQ(director.written(), 1u);
  director.remove_rule(kFlow, us(100));
  EXPECT_EQ(director.steer(kFlow, us(110)), home);
  EXPECT_EQ(director.rules(), 0u);
}

TEST(Nic, flows_beyond_the_rule_table_are_counted_and_hashed) {
  Costs::Nic costs = nic_with(Steering::kFlowDirector);
  Nic nic(costs, 4, 1);
  for (uint64_t flow = 0; flow < Nic::kMostRules + 5; ++flow) nic.steer(flow, Instant());
  EXPECT_EQ(nic.rules(), Nic::kMostRules);
  EXPECT_EQ(nic.ruleless(), 5u);
}

// At 130 % 30 of 130 are lost while both are busy.
TEST(Hyperthreads, a_worker_loses_only_while_its_sibling_is_busy_too) {
  Hyperthreads threads({.threads = 4, .slowdown = 130, .placement = Placement::kPack}, 3);
  threads.begin(0, Instant(1000));
  EXPECT_EQ(threads.lost(0, Instant(2000)), Nanos());
  threads.begin(1, Instant(2000));
  threads.begin(2, Instant(2000));  // alone on its core
  EXPECT_EQ(threads.lost(0, Instant(3300)), Nanos(300));
  EXPECT_EQ(threads.lost(1, Instant(3300)), Nanos(300));
  threads.end(1, Instant(3300));
  EXPECT_EQ(threads.lost(0, Instant(9000)), Nanos(300));
  EXPECT_EQ(threads.lost(2, Instant(9000)), Nanos());
}

// Are workers a and b siblings? Both idle before and after.
bool share(Hyperthreads& threads, uint32_t a, uint32_t b, Instant at) {
  const Nanos before = threads.lost(a, at);
  threads.begin(a, at);
  threads.begin(b, at);
  const Instant later = at + Nanos(1000);
  threads.end(a, later);
  threads.end(b, later);
  return threads.lost(a, later) > before;
}

TEST(Hyperthreads, a_worker_that_comes_back_gets_a_thread_by_the_placement) {
  // Three cores, of which the last has one thread. Packed: 0 and 1, 2 and 3.
  Hyperthreads packed({.threads = 5, .slowdown = 200, .placement = Placement::kPack}, 4);
  EXPECT_TRUE(share(packed, 0, 1, Instant(0)));
  EXPECT_TRUE(share(packed, 2, 3, Instant(10'000)));
  packed.leave(1);
  packed.leave(2);
  packed.place(2);  // beside 0, the first that is alone
  EXPECT_TRUE(share(packed, 0, 2, Instant(20'000)));
  EXPECT_FALSE(share(packed, 2, 3, Instant(30'000)));

  // Spread: 0, 1 and 2 alone, then 3 beside 0.
  Hyperthreads spread({.threads = 5, .slowdown = 200, .placement = Placement::kSpread}, 4);
  EXPECT_TRUE(share(spread, 0, 3, Instant(0)));
  EXPECT_FALSE(share(spread, 0, 1, Instant(10'000)));
  spread.leave(2);
  spread.leave(3);
  spread.place(3);  // on the core that 2 had, which has one thread
  EXPECT_FALSE(share(spread, 0, 3, Instant(20'000)));
  spread.place(2);
  EXPECT_TRUE(share(spread, 0, 2, Instant(30'000)));
}

TEST(CriticalSections, are_even_from_the_beginning_of_a_request_to_its_end) {
  const Prices::CriticalSections three{.count = 3, .length = Nanos(10)};
  EXPECT_EQ(section_length(three, Nanos(100)), Nanos(10));
  EXPECT_EQ(section_start(three, Nanos(100), 0), Nanos(0));
  EXPECT_EQ(section_start(three, Nanos(100), 1), Nanos(45));
  EXPECT_EQ(section_start(three, Nanos(100), 2), Nanos(90));
  EXPECT_EQ(section_start({.count = 1, .length = Nanos(10)}, Nanos(100), 0), Nanos(0));
}

TEST(CriticalSections, of_a_short_request_are_shorter_and_do_not_overlap) {
  for (uint32_t count = 1; count < 9; ++count) {
    const Prices::CriticalSections sections{.count = count, .length = Nanos(10)};
    for (int64_t service = 0; service < 100; ++service) {
      const Nanos length = section_length(sections, Nanos(service));
      for (uint32_t i = 1; i < count; ++i) {
        EXPECT_GE(section_start(sections, Nanos(service), i),
                  section_start(sections, Nanos(service), i - 1) + length);
      }
      EXPECT_LE(section_start(sections, Nanos(service), count - 1) + length, Nanos(service));
    }
  }
}

TEST(SharedLine, costs_a_core_that_did_not_have_it_last) {
  SharedLine line;
  EXPECT_EQ(line.move_to(1, Nanos(70)), Nanos());  // nobody had it
  EXPECT_EQ(line.move_to(1, Nanos(70)), Nanos());
  EXPECT_EQ(line.move_to(2, Nanos(70)), Nanos(70));
  EXPECT_EQ(line.move_to(1, Nanos(70)), Nanos(70));
}

// A thief takes 100 ns, and 1000 for each request beyond the first.
TEST(SimHost, of_several_thieves_the_victim_waits_for_the_last) {
  Costs costs;
  costs.worker.steal = {Nanos(100), Nanos(100)};
  costs.worker.steal_each = Nanos(1000);
  costs.worker.take = {Nanos(7), Nanos(7)};
  costs.worker.stolen_from = Nanos(50);
  const BitRing idle(3);
  Nic nic(costs.nic, 3, 1);
  SimHost<Steal, false> host(Steal({}), costs, 3, 1, idle, nic, nullptr);
  std::vector<Job> jobs(8);
  for (Job& job : jobs) ASSERT_TRUE(host.insert({0, 1}, &job));
  for (const auto& [thief, batch] : {std::pair{0u, 4u}, std::pair{2u, 1u}}) {
    host.call_as(thief);
    ASSERT_NE(host.steal({0, 1}, {0, thief}, batch), nullptr);
  }
  host.call_as(1);
  ASSERT_NE(host.take({0, 1}), nullptr);
  EXPECT_EQ(host.meter().spent(), Nanos(3100 + 50 + 7));
}

}  // namespace
}  // namespace rubato::sim
