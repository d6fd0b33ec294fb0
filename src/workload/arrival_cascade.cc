// SPDX-License-Identifier: Apache-2.0
#include "workload/arrival_cascade.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "workload/arrivals.h"
#include "workload/elementary.h"
#include "workload/sampling.h"

namespace rubato {
namespace {

// The longest interval has so many requests, so that their fixed number is felt by no run of usual
// length, and is so many times longer than the coarsest scale.
constexpr double kRequestsAtOnce = 1 << 20;
constexpr uint32_t kLevelsAbove = 6;
constexpr int kTimeBits = 60;  // no interval is longer than 2^60 ns
constexpr uint64_t kFew = 64;  // up to here a share is drawn request by request
constexpr double kLatestNs = 9e18;

int bits_of(Nanos slot) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(slot.count())));
}

// Requires 1 <= count <= 64.
uint64_t coin_tosses(uint64_t count, Prng& prng) {
  return static_cast<uint64_t>(std::popcount(prng.next() >> (kFew - count)));
}

// How many of `count` have a property that each has with `probability`: exact for few, normal with
// the same mean and variance for many.
uint64_t binomial(uint64_t count, double probability, Prng& prng) {
  if (count == 0) return 0;
  if (count <= kFew && probability == 0.5) return coin_tosses(count, prng);
  if (count <= kFew) {
    uint64_t hits = 0;
    for (uint64_t i = 0; i < count; ++i) hits += prng.uniform() < probability ? 1u : 0u;
    return hits;
  }
  const double n = static_cast<double>(count);
  const double deviation = std::sqrt(n * probability * (1 - probability));
  const double drawn = n * probability + deviation * sample_normal(prng) + 0.5;
  return static_cast<uint64_t>(std::clamp(drawn, 0.0, n));
}

// The least of `count` numbers that are uniform in [0, 1).
double least_of(uint64_t count, Prng& prng) {
  const double u = prng.uniform();
  if (count == 1) return u;
  return 1 - elementary::exponential(elementary::logarithm(1 - u) / static_cast<double>(count));
}

uint32_t levels_of(const ArrivalScales& scales, double mean_per_slot) {
  const auto most = static_cast<uint32_t>(kTimeBits - bits_of(scales.slot));
  uint32_t levels = static_cast<uint32_t>(scales.allan.size()) + kLevelsAbove;
  while (mean_per_slot * elementary::power_of_two(static_cast<int>(levels)) < kRequestsAtOnce) {
    if (++levels >= most) break;
  }
  return std::min(levels, most);
}

}  // namespace

bool valid(const ArrivalScales& scales) {
  const auto fits = [](double factor) {
    return factor >= 0 && factor <= ArrivalScales::kMostAllan;
  };
  if (!(scales.rate_rps > 0 && scales.rate_rps <= Arrivals::kMaxRate)) return false;
  if (scales.slot < Nanos(1) || scales.slot > ArrivalScales::kLongestSlot) return false;
  if (scales.allan.size() > ArrivalScales::kMost) return false;
  if (bits_of(scales.slot) + static_cast<int>(scales.allan.size()) > kTimeBits) return false;
  return std::all_of(scales.allan.begin(), scales.allan.end(), fits);
}

ArrivalCascade::ArrivalCascade(const ArrivalScales& scales, double rate, uint64_t seed)
    : prng_(seed) {
  RUBATO_CHECK(valid(scales) && rate > 0);
  const double slot_ns = static_cast<double>(scales.slot.count());
  slot_ns_ = slot_ns * scales.rate_rps / rate;
  find_splits(scales, scales.rate_rps * slot_ns / 1e9);
  base_slots_ = -elementary::power_of_two(static_cast<int>(splits_.size()));
}

// From the longest interval down. Let N be the requests of an interval and D the difference of its
// halves. An Allan factor A asks for E[D^2] = A E[N]. Requests that each go to either half give
// E[N]; a half that gets (1 + s) / 2 of them adds s^2 E[N (N - 1)]. The first half then has
// E[(N + D)^2] / 4 = (E[N^2] + E[D^2]) / 4.
void ArrivalCascade::find_splits(const ArrivalScales& scales, double mean_per_slot) {
  const uint32_t levels = levels_of(scales, mean_per_slot);
  splits_.assign(levels, Split());
  mean_ = mean_per_slot * elementary::power_of_two(static_cast<int>(levels));
  double mean = mean_;
  double square = mean * mean;
  for (uint32_t level = levels; level-- > 0;) {
    const size_t known = scales.allan.size();
    const double factor = known == 0 ? 1 : scales.allan[std::min<size_t>(level, known - 1)];
    const double pairs = std::max(square - mean, 0.0);
    double difference = mean;
    if (factor > 1 && pairs > 0) {
      const double swing_square = std::min((factor - 1) * mean / pairs, 1.0);
      splits_[level].swing = std::sqrt(swing_square);
      difference += swing_square * pairs;
    } else if (factor < 1) {
      splits_[level].regular = factor;
      difference *= factor;
    }
    square = (square + difference) / 4;
    mean /= 2;
  }
}

uint64_t ArrivalCascade::share_of_first_half(uint64_t count, const Split& split) {
  if (split.swing > 0) {
    const uint64_t lesser = binomial(count, (1 - split.swing) / 2, prng_);
    return coin_tosses(1, prng_) == 1 ? lesser : count - lesser;
  }
  const uint64_t odd = count % 2;
  if (split.regular < 1 && count > odd) {
    const double least = static_cast<double>(odd);  // of D^2
    const double n = static_cast<double>(count);
    const double by_chance = (std::max(split.regular * n, least) - least) / (n - least);
    if (prng_.uniform() >= by_chance) {
      return count / 2 + (odd == 1 ? coin_tosses(1, prng_) : 0);
    }
  }
  return binomial(count, 0.5, prng_);
}

Nanos ArrivalCascade::at(double slots) const {
  return Nanos(static_cast<int64_t>(std::min((base_slots_ + slots) * slot_ns_, kLatestNs)));
}

// The fraction of a request that the mean leaves over comes later.
void ArrivalCascade::begin_longest() {
  const auto levels = static_cast<uint32_t>(splits_.size());
  base_slots_ += elementary::power_of_two(static_cast<int>(levels));
  owed_ += mean_;
  const auto count = static_cast<uint64_t>(owed_);
  owed_ -= static_cast<double>(count);
  to_come_.push_back({count, 0, levels});
}

// The requests of a leaf are uniform over it and come in order: the first of k that are uniform in
// what is left is 1 - U^(1/k) into it. A single request is uniform over its interval however that
// would be split, so that it need not be.
Nanos ArrivalCascade::next() {
  while (leaf_.count == 0) {
    if (to_come_.empty()) {
      begin_longest();
    }
    Interval interval = to_come_.back();
    to_come_.pop_back();
    if (interval.count <= 1 || interval.level == 0) {
      leaf_ = interval;
      leaf_from_ = static_cast<double>(interval.first);
      continue;
    }
    --interval.level;
    const uint64_t first = share_of_first_half(interval.count, splits_[interval.level]);
    const uint64_t half = uint64_t{1} << interval.level;
    to_come_.push_back({interval.count - first, interval.first + half, interval.level});
    to_come_.push_back({first, interval.first, interval.level});
  }
  const double end = static_cast<double>(leaf_.first + (uint64_t{1} << leaf_.level));
  leaf_from_ += (end - leaf_from_) * least_of(leaf_.count--, prng_);
  return at(leaf_from_);
}

}  // namespace rubato
