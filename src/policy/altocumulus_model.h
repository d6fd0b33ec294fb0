// SPDX-License-Identifier: Apache-2.0
//
// What a manager of Altocumulus (MICRO 2022) computes from queue lengths and load: the length from
// which requests will miss their SLO (section IV, equations 1 and 2), and where to send them
// (section VI, Hill, Valley and Pairing). Pure functions of values.
#pragma once

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/limits.h"

namespace rubato::altocumulus {

// C_k(A): the probability that an arriving request must wait, of k servers and A Erlangs offered.
// Requires k >= 1 and 0 <= a < k. By the recursion of Erlang's B, which is stable for all k.
inline double erlang_c(uint32_t k, double a) {
  RUBATO_DCHECK(k >= 1 && a >= 0 && a < k);
  double blocked = 1;
  for (uint32_t i = 1; i <= k; ++i) blocked = a * blocked / (i + a * blocked);
  const double load = a / k;
  return blocked / (1 - load * (1 - blocked));
}

// Equation 1: the expected number of waiting requests.
inline double expected_queue(uint32_t k, double a) { return erlang_c(k, a) * a / (k - a); }

// Equation 2: T = a * E[c * Nq + d] + b. The paper gives the constants for fixed service times
// (Fig. 7d). Those of the two others are ours: scaled so that the thresholds of Fig. 7(a) to (c),
// 121, 80 and 268 at a load of 0.99 on 64 cores, stand in the same ratio to each other.
struct Transform {
  double a, b, c, d;
  double of(double expected_queue) const { return a * (c * expected_queue + d) + b; }
};
inline constexpr Transform kFixed{1.01, 0, 0.998, 0};
inline constexpr Transform kUniform{1.01 * 80 / 121, 0, 0.998, 0};
inline constexpr Transform kBimodal{1.01 * 268 / 121, 0, 0.998, 0};

// The managers to which one manager sends a message.
struct Destinations {
  uint32_t count = 0;
  std::array<uint8_t, limits::kMaxManagers> manager{};
  void add(uint32_t m) {
    RUBATO_DCHECK(count < limits::kMaxManagers && m < limits::kMaxManagers);
    manager[count++] = static_cast<uint8_t>(m);
  }
};

using QueueLengths = std::array<uint32_t, limits::kMaxManagers>;

enum class Pattern : uint8_t { kNone, kHill, kValley, kPairing };

// Managers from the shortest queue to the longest; equals by number.
struct Ranks {
  Ranks(const QueueLengths& q, uint32_t managers) : count(managers) {
    for (uint32_t m = 0; m < managers; ++m) order[m] = static_cast<uint8_t>(m);
    std::sort(order.begin(), order.begin() + managers, [&q](uint8_t x, uint8_t y) {
      return q[x] != q[y] ? q[x] < q[y] : x < y;
    });
  }
  uint32_t shortest(uint32_t i) const { return order[i]; }
  uint32_t longest(uint32_t i) const { return order[count - 1 - i]; }

  uint32_t count;
  std::array<uint8_t, limits::kMaxManagers> order{};
};

// Section VI, "Pattern classification". What the paper calls a gradual imbalance is here: the ends
// are `bulk` apart, but neither stands out. Requires two managers or more.
inline Pattern classify(const QueueLengths& q, const Ranks& ranks, uint32_t bulk) {
  RUBATO_DCHECK(ranks.count >= 2);
  const uint32_t longest = q[ranks.longest(0)];
  const uint32_t shortest = q[ranks.shortest(0)];
  if (longest - shortest < bulk) return Pattern::kNone;
  if (longest - q[ranks.longest(1)] >= bulk) return Pattern::kHill;
  if (q[ranks.shortest(1)] - shortest >= bulk) return Pattern::kValley;
  return Pattern::kPairing;
}

// predict() of Algorithm 1, as manager `me` sees it: a pattern that it takes part in, or else its
// own queue beyond the threshold, which it sends to the shortest queues.
inline Destinations predict(double threshold, const QueueLengths& q, uint32_t managers, uint32_t me,
                            uint32_t bulk, uint32_t concurrency) {
  Destinations to;
  if (managers < 2) return to;
  const Ranks ranks(q, managers);
  const uint32_t flows = std::min(concurrency, managers - 1);
  const Pattern pattern = classify(q, ranks, bulk);
  const bool over = q[me] > threshold;
  if ((pattern == Pattern::kHill && ranks.longest(0) == me) ||
      (over && pattern != Pattern::kValley && pattern != Pattern::kPairing)) {
    for (uint32_t i = 0; to.count < flows; ++i) {
      if (ranks.shortest(i) != me) to.add(ranks.shortest(i));
    }
  } else if (pattern == Pattern::kValley && ranks.shortest(0) != me) {
    to.add(ranks.shortest(0));
  } else if (pattern == Pattern::kPairing) {
    for (uint32_t i = 0; i < std::min(flows, managers / 2); ++i) {
      if (ranks.longest(i) == me) to.add(ranks.shortest(i));
    }
  }
  return to;
}

}  // namespace rubato::altocumulus
