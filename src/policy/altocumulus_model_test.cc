// SPDX-License-Identifier: Apache-2.0
#include "policy/altocumulus_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "policy/altocumulus.h"

namespace rubato {
namespace {

using altocumulus::classify;
using altocumulus::erlang_c;
using altocumulus::expected_queue;
using altocumulus::Pattern;
using altocumulus::predict;
using altocumulus::QueueLengths;
using altocumulus::Ranks;

constexpr double kNever = 1e9;  // a threshold that no queue exceeds

// Erlang's formula as textbooks have it; overflows for large k, unlike the recursion.
double erlang_c_by_sum(uint32_t k, double a) {
  double term = 1, sum = 0;
  for (uint32_t i = 0; i < k; ++i) {
    sum += term;
    term *= a / (i + 1);
  }
  const double all_busy = term * k / (k - a);
  return all_busy / (sum + all_busy);
}

QueueLengths lengths(const std::vector<uint32_t>& of) {
  QueueLengths q{};
  for (size_t i = 0; i < of.size(); ++i) q[i] = of[i];
  return q;
}

Pattern pattern_of(const std::vector<uint32_t>& of, uint32_t bulk) {
  const QueueLengths q = lengths(of);
  return classify(q, Ranks(q, static_cast<uint32_t>(of.size())), bulk);
}

// Whom manager `me` sends to.
std::vector<uint32_t> sends_to(const std::vector<uint32_t>& of, uint32_t me, uint32_t bulk,
                               uint32_t concurrency, double threshold = kNever) {
  const auto to = predict(threshold, lengths(of), static_cast<uint32_t>(of.size()), me, bulk,
                          concurrency);
  return {to.manager.begin(), to.manager.begin() + to.count};
}

using Managers = std::vector<uint32_t>;

TEST(ErlangC, gives_the_values_of_textbooks) {
  EXPECT_NEAR(erlang_c(1, 0.3), 0.3, 1e-12);  // one server: the load itself
  EXPECT_NEAR(erlang_c(2, 1), 1.0 / 3, 1e-12);
  EXPECT_NEAR(erlang_c(10, 8), 0.409180, 1e-6);
  EXPECT_EQ(erlang_c(7, 0), 0);
}

TEST(ErlangC, agrees_with_the_sum) {
  for (const uint32_t k : {1u, 2u, 15u, 16u, 64u}) {
    for (const double load : {0.01, 0.5, 0.9, 0.99, 0.999}) {
      const double a = k * load;
      EXPECT_NEAR(erlang_c(k, a), erlang_c_by_sum(k, a), 1e-9) << k << " servers at " << load;
    }
  }
}

TEST(ErlangC, is_a_probability_that_rises_with_the_load_on_any_number_of_servers) {
  for (const uint32_t k : {1u, 64u, 256u}) {
    double before = -1;
    for (double load = 0; load < 1; load += 0.01) {
      const double now = erlang_c(k, k * load);
      EXPECT_GE(now, before);
      EXPECT_LE(now, 1);
      before = now;
    }
  }
}

TEST(ErlangC, expected_queue_of_one_server_is_that_of_m_m_1) {
  for (const double load : {0.1, 0.5, 0.9}) {
    EXPECT_NEAR(expected_queue(1, load), load * load / (1 - load), 1e-12);
  }
}

// V-B: "the mean of E[Nq] for each group equals 11 when system load is near 1".
TEST(ErlangC, expected_queue_of_a_group_passes_the_papers_11_near_full_load) {
  EXPECT_LT(expected_queue(15, 15 * 0.93), 11);
  EXPECT_GT(expected_queue(15, 15 * 0.94), 11);
}

TEST(Threshold, is_the_expected_queue_transformed) {
  const Altocumulus fixed({});
  EXPECT_NEAR(fixed.threshold(64, 64 * 0.99), 1.01 * 0.998 * expected_queue(64, 64 * 0.99), 1e-9);
  const Altocumulus own({.distribution = 3, .a = 2, .b = 7, .c = 3, .d = 5});
  EXPECT_NEAR(own.threshold(2, 1), 2 * (3 * expected_queue(2, 1) + 5) + 7, 1e-12);
}

// Fig. 7(a) to (c): 121, 80 and 268 at the same load.
TEST(Threshold, of_the_distributions_stand_as_in_the_figure) {
  const double fixed = Altocumulus({.distribution = 0}).threshold(64, 64 * 0.99);
  EXPECT_NEAR(Altocumulus({.distribution = 1}).threshold(64, 64 * 0.99) / fixed, 80.0 / 121, 1e-9);
  EXPECT_NEAR(Altocumulus({.distribution = 2}).threshold(64, 64 * 0.99) / fixed, 268.0 / 121, 1e-9);
}

// IV-A: k = 64, L = 10.
TEST(Threshold, upper_bound_is_k_times_l_plus_1_at_any_load) {
  const Altocumulus policy({.upper_bound = 10});
  EXPECT_EQ(policy.threshold(64, 1), 641);
  EXPECT_EQ(policy.threshold(64, 64), 641);
}

TEST(Threshold, is_finite_and_positive_when_all_workers_are_busy) {
  const Altocumulus policy({});
  EXPECT_TRUE(std::isfinite(policy.threshold(15, 15)));
  EXPECT_GT(policy.threshold(15, 15), policy.threshold(15, 14.9));
  EXPECT_EQ(policy.threshold(15, 0), 0);
}

// VI, "Walk-through example".
TEST(Patterns, hill_of_the_papers_example) {
  const Managers q = {30, 30, 70, 30};
  EXPECT_EQ(pattern_of(q, 40), Pattern::kHill);
  EXPECT_EQ(sends_to(q, 2, 40, 4), (Managers{0, 1, 3}));
  for (const uint32_t other : {0u, 1u, 3u}) EXPECT_EQ(sends_to(q, other, 40, 4), Managers());
}

TEST(Patterns, hill_goes_to_the_shortest_queues_when_concurrency_is_less) {
  EXPECT_EQ(sends_to({40, 10, 90, 30}, 2, 40, 2), (Managers{1, 3}));
}

TEST(Patterns, hill_begins_where_the_longest_is_bulk_longer_than_the_second) {
  EXPECT_EQ(pattern_of({30, 30, 70, 31}, 40), Pattern::kPairing);
  EXPECT_EQ(pattern_of({30, 30, 71, 31}, 40), Pattern::kHill);
}

TEST(Patterns, valley_has_every_other_manager_send_to_the_shortest) {
  const Managers q = {50, 10, 50, 55};
  EXPECT_EQ(pattern_of(q, 40), Pattern::kValley);
  for (const uint32_t other : {0u, 2u, 3u}) EXPECT_EQ(sends_to(q, other, 40, 4), Managers{1});
  EXPECT_EQ(sends_to(q, 1, 40, 4), Managers());
}

TEST(Patterns, pairing_matches_the_longest_with_the_shortest_and_so_on) {
  const Managers q = {30, 50, 10, 70};
  EXPECT_EQ(pattern_of(q, 40), Pattern::kPairing);
  EXPECT_EQ(sends_to(q, 3, 40, 4), Managers{2});
  EXPECT_EQ(sends_to(q, 1, 40, 4), Managers{0});
  EXPECT_EQ(sends_to(q, 0, 40, 4), Managers());
  EXPECT_EQ(sends_to(q, 2, 40, 4), Managers());
}

TEST(Patterns, pairing_has_as_many_pairs_as_concurrency_allows) {
  EXPECT_EQ(sends_to({30, 50, 10, 70}, 3, 40, 1), Managers{2});
  EXPECT_EQ(sends_to({30, 50, 10, 70}, 1, 40, 1), Managers());
}

TEST(Patterns, the_middle_one_of_an_odd_number_has_no_partner) {
  EXPECT_EQ(sends_to({10, 40, 70}, 1, 40, 4), Managers());
  EXPECT_EQ(sends_to({10, 40, 70}, 2, 40, 4), Managers{0});
}

TEST(Patterns, even_queues_are_none) {
  EXPECT_EQ(pattern_of({30, 30, 60, 30}, 40), Pattern::kNone);
  for (uint32_t me = 0; me < 4; ++me) EXPECT_EQ(sends_to({30, 30, 60, 30}, me, 40, 4), Managers());
}

TEST(Patterns, without_one_a_queue_beyond_the_threshold_goes_to_the_shortest) {
  EXPECT_EQ(sends_to({35, 30, 60, 32}, 2, 40, 2, 59), (Managers{1, 3}));
  EXPECT_EQ(sends_to({35, 30, 60, 32}, 2, 40, 2, 60), Managers());
}

TEST(Patterns, equal_queues_go_by_number_and_all_managers_see_the_same) {
  EXPECT_EQ(sends_to({0, 0, 90, 0, 0}, 2, 40, 3), (Managers{0, 1, 3}));
  // Two hills of one height are none for either of them: the second longest is as long.
  EXPECT_EQ(pattern_of({90, 0, 90, 0}, 40), Pattern::kPairing);
  EXPECT_EQ(sends_to({90, 0, 90, 0}, 0, 40, 4), Managers{3});
  EXPECT_EQ(sends_to({90, 0, 90, 0}, 2, 40, 4), Managers{1});
}

TEST(Patterns, two_managers_know_hills_and_nothing_else) {
  EXPECT_EQ(pattern_of({0, 40}, 40), Pattern::kHill);
  EXPECT_EQ(sends_to({0, 40}, 1, 40, 8), Managers{0});
  EXPECT_EQ(pattern_of({0, 39}, 40), Pattern::kNone);
}

TEST(Patterns, a_lone_manager_has_nobody_to_send_to) {
  EXPECT_EQ(sends_to({1000}, 0, 1, 8, 0), Managers());
}

}  // namespace
}  // namespace rubato
