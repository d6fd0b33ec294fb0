// SPDX-License-Identifier: Apache-2.0
//
// What Persephone (SOSP '21) says of DARC beside its figures, in simulated time: groups and
// reservations (5.4.3), changes of the workload (5.5), a classifier that is wrong (5.6), and queues
// that overflow type by type (4.3.3). Seeded; nothing here depends on the time a run takes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/cfcfs.h"
#include "policy/darc.h"
#include "policy/testing/seed.h"
#include "sim/testing/runs.h"

namespace rubato::sim {
namespace {

using Numbers = std::vector<uint32_t>;

struct Reservation {
  Instant since;
  Darc::Plan plan;

  Numbers order() const { return first_of(plan.ranking.order); }
  Numbers first() const { return first_of(plan.first); }
  Numbers owned() const { return first_of(plan.reserved); }

 private:
  template <class Array>
  Numbers first_of(const Array& numbers) const {
    return Numbers(numbers.begin(), numbers.begin() + plan.ranking.types);
  }
};

// DARC, watched: every reservation is written down. `seen` outlives the run.
class WatchedDarc : public Darc {
 public:
  struct Config {
    Darc::Config of{};
    std::vector<Reservation>* seen = nullptr;
  };
  explicit WatchedDarc(Config config) : Darc(config.of), seen_(config.seen) {}

  template <class H>
  Plan adapt(Central& central, H& host) const {
    const Plan plan = Darc::adapt(central, host);
    const Reservation now{host.now(), plan};
    const bool changed = seen_->empty() ? plan.ranking.types > 0
                                        : now.first() != seen_->back().first() ||
                                              now.owned() != seen_->back().owned() ||
                                              now.order() != seen_->back().order();
    if (changed) seen_->push_back(now);
    return plan;
  }

 private:
  std::vector<Reservation>* seen_;
};

struct Watched {
  std::vector<Reservation> seen;
  Outcome outcome;

  // The reservation in force then. Requires that there is one.
  const Reservation& at(double seconds) const {
    const Reservation* last = &seen.front();
    for (const Reservation& one : seen) {
      if (one.since <= Instant() + Nanos::from_seconds(seconds)) last = &one;
    }
    return *last;
  }
};

// The paper's own rule.
Watched watch(const sim::Setup& setup, const Darc::Config& config = {.literal = true}) {
  Watched watched;
  watched.outcome = run<WatchedDarc>(setup, {config, &watched.seen});
  return watched;
}

// TPC-C in its exact shares, 44, 4, 44, 4 and 4 %, again and again at 80 % of 14 workers. Drawn at
// random, a window may see a demand on the other side of a half: they are 2.0, 6.47 and 5.52.
sim::Setup exact_tpcc(uint64_t requests) {
  sim::Setup setup = ideal(14, "tpcc", 0.8, requests);
  constexpr uint32_t kOf25[] = {11, 1, 11, 1, 1};
  const std::vector<RequestType> types = types_of(setup.workload);
  std::vector<std::string> names;
  std::vector<RecordedRequest> recorded;
  double at_ns = 0;
  for (uint32_t type = 0; type < types.size(); ++type) {
    names.push_back(types[type].name);
    for (uint32_t i = 0; i < kOf25[type]; ++i) {
      recorded.push_back({.at = Nanos(static_cast<int64_t>(at_ns)),
                          .service = types[type].service.mean,
                          .type = type});
      at_ns += 1e9 / setup.workload.rate;
    }
  }
  setup.workload.trace = RequestTrace::of(recorded, names).value();
  setup.workload.rate = setup.workload.trace->rate_rps();
  return setup;
}

// 5.4.3: "DARC attributes workers 1 and 2 to group A, 3-8 to group B, and 9-14 to group C".
TEST(Persephone, the_profile_of_tpcc_gives_its_groups_two_six_and_six_of_fourteen_workers) {
  const std::vector<Reservation> seen = watch(exact_tpcc(60'000)).seen;
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].order(), (Numbers{1, 2, 3, 4, 5}));
  EXPECT_EQ(seen[0].first(), (Numbers{0, 0, 2, 8, 8}));
  EXPECT_EQ(seen[0].owned(), (Numbers{2, 2, 6, 6, 6}));
}

// 5.5, at 80 % load: fast requests become slow and the reverse, the shares change, and only fast
// requests are left. The first transition "takes about 500ms"; here a window of 50 000 requests
// lasts 226 ms, and the change comes with the end of the first whole one, if not before.
TEST(Persephone, reservations_follow_the_workload_within_one_window_of_a_change) {
  constexpr uint32_t kA = 1, kB = 2;
  sim::Setup setup = ideal(14, "A:100us:50,B:1us:50", 0.8, 2'300'000);
  setup.seed = testing::test_seed(55);
  for (const char* phase :
       {"2s:A:1us:50,B:100us:50", "4s:A:0.5us:99.5,B:500us:0.5", "4.2s:A:0.5us:1"}) {
    setup.workload.phases.push_back(parse_phase(phase).value());
  }
  const Watched watched = watch(setup);
  // "B requests can run on all 14 cores, 1 dedicated core and 13 stealable cores".
  EXPECT_EQ(watched.at(1.9).order(), (Numbers{kB, kA}));
  EXPECT_EQ(watched.at(1.9).first(), (Numbers{0, 1}));
  EXPECT_EQ(watched.at(1.9).owned(), (Numbers{1, 13}));
  EXPECT_EQ(watched.at(2.5).order(), (Numbers{kA, kB}));
  EXPECT_EQ(watched.at(3.9).first(), (Numbers{0, 1}));
  EXPECT_EQ(watched.at(3.9).owned(), (Numbers{1, 13}));
  // "their CPU demand increases": the paper then reserves them 2 cores.
  EXPECT_EQ(watched.at(4.19).order(), (Numbers{kA, kB}));
  EXPECT_GE(watched.at(4.19).owned()[0], 2u);
  // "pending B requests can be serviced on the spillway core".
  const RequestCounts counts = counts_of(watched.outcome);
  EXPECT_EQ(counts.done, watched.outcome.measured);
  EXPECT_EQ(more(watched.outcome, "left_waiting"), 0u);
}

// A plan of the window in which service times change would keep the long ones on half of the
// workers for a window: 70 ms.
TEST(Persephone, who_changes_its_service_time_does_not_wait_for_what_it_was_before) {
  sim::Setup setup = ideal(14, "A:100us:50,B:1us:50", 0.8, 500'000);
  setup.seed = testing::test_seed(5);
  setup.warmup = 0.2;  // when it has its first plan
  setup.workload.phases.push_back(parse_phase("1s:A:1us:50,B:100us:50").value());
  const Outcome outcome = simulate("darc", {}, setup).value();
  for (const TypeOutcome& type : outcome.types) {
    EXPECT_LT(type.latency.max(), Nanos::millis(4));
  }
}

double overall(const Outcome& outcome, double SlowdownSummary::* figure) {
  Histogram all;
  for (const TypeOutcome& type : outcome.types) all.merge(type.slowdown);
  return summarize_slowdown(all).*figure;
}

// 5.6, Figure 9: with requests in a random typed queue "each typed queue [holds] an equal share of
// each request type, thus converging to c-FCFS". The mean is that of c-FCFS. The tail is 1.5 times
// as long: the queues are of one group, but the shortest type of a group still comes first.
TEST(Persephone, a_random_classifier_makes_darc_serve_as_one_queue_would) {
  sim::Setup setup = ideal(8, "high-bimodal", 0.7, 500'000);
  setup.seed = testing::test_seed(6);
  const Outcome right = simulate("darc", {{"literal", "on"}}, setup).value();
  setup.workload.misclassification.random = true;
  const Outcome random = simulate("darc", {{"literal", "on"}}, setup).value();
  const Outcome one_queue = simulate("cfcfs", {}, setup).value();
  const double mean = overall(random, &SlowdownSummary::mean) /
                      overall(one_queue, &SlowdownSummary::mean);
  EXPECT_NEAR(mean, 1, 0.05);
  const double tail = overall(random, &SlowdownSummary::p999) /
                      overall(one_queue, &SlowdownSummary::p999);
  std::printf("slowdown, random classifier to c-FCFS: mean %.2f, p99.9 %.2f\n", mean, tail);
  EXPECT_GT(tail, 1);
  EXPECT_LT(tail, 2);
  EXPECT_LT(overall(right, &SlowdownSummary::p999) * 10,
            overall(one_queue, &SlowdownSummary::p999));
}

// 4.3.3: full typed queues "shed load only for overloaded types without impacting the rest".
TEST(Persephone, a_full_typed_queue_refuses_only_its_own_type) {
  sim::Setup setup = ideal(14, "high-bimodal", 1.3, 200'000);
  setup.seed = testing::test_seed(7);
  setup.costs.queue_capacity = 128;
  setup.warmup = 0.5;  // until DARC knows the types they share a queue
  const Outcome typed = simulate("darc", {{"window", "10000"}, {"literal", "on"}}, setup).value();
  EXPECT_EQ(typed.types[0].refused, 0u);
  EXPECT_GT(typed.types[1].refused, 5'000u);
  EXPECT_LT(typed.types[0].slowdown.percentile(99).count(), 10 * kSlowdownUnit);
  const Outcome one_queue = simulate("cfcfs", {}, setup).value();
  EXPECT_GT(one_queue.types[0].refused, 5'000u);
}

}  // namespace
}  // namespace rubato::sim
