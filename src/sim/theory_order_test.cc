// SPDX-License-Identifier: Apache-2.0
//
// Simulated policies that order requests by size or by age against queueing theory, on one worker
// that pays for nothing. Theory cuts at any moment; a slice is at most 2 % of a service here.
#include <gtest/gtest.h>

#include <string>

#include "policy/all.h"
#include "sim/testing/confidence.h"
#include "sim/testing/runs.h"

namespace rubato::sim {
namespace {

constexpr uint32_t kSeeds = 8;
constexpr double kLoad = 0.7;
constexpr Nanos kSlice = Nanos(100);
constexpr Tolerance kTolerance{0.11, 0.015};

// Two sizes, in microseconds: half of the load is of either.
constexpr const char* kTwoSizes = "small:5us:80,large:20us:20";
constexpr double kSmall = 5, kLarge = 20;
constexpr double kShareOfSmall = 0.8;
constexpr double kMean = kShareOfSmall * kSmall + (1 - kShareOfSmall) * kLarge;
constexpr double kRate = kLoad / kMean;
constexpr double kMeanSquare =
    kShareOfSmall * kSmall * kSmall + (1 - kShareOfSmall) * kLarge * kLarge;

// The mean sojourn of each type, in microseconds, one sample per seed.
template <Policy P>
auto sojourns_of_types(const char* mix) {
  sim::Setup setup = ideal(1, mix, kLoad, 50'000);
  setup.classify = Classify::kDeclared;  // sizes are known
  return over_seeds(kSeeds, [&, setup](uint64_t seed) mutable {
    setup.seed = seed;
    const Outcome outcome = run<P>(setup, {.quantum = kSlice});
    Figures figures;
    for (size_t i = 0; i < outcome.types.size(); ++i) {
      figures["sojourn of type " + std::to_string(i)] = outcome.types[i].latency.mean_ns() / 1e3;
    }
    return figures;
  });
}

// Schrage and Miller 1966: a request that needs x waits for the work that needs no more than x, and
// while it is served for those that come and need less than what is left of it.
TEST(Theory, shortest_remaining_time_first_has_the_sojourns_of_schrage_and_miller) {
  auto samples = sojourns_of_types<Srpt>(kTwoSizes);
  const double small_load = kRate * kShareOfSmall * kSmall;
  expect_agrees("srpt at 0.70: sojourn of the small", samples["sojourn of type 0"],
                kRate * kSmall * kSmall / 2 / (1 - small_load) + kSmall, kTolerance);
  expect_agrees("srpt at 0.70: sojourn of the large", samples["sojourn of type 1"],
                kRate * kMeanSquare / 2 / (1 - small_load) / (1 - kLoad) + kSmall +
                    (kLarge - kSmall) / (1 - small_load),
                kTolerance);
}

// Kleinrock 1976: a request that needs x lives in a system in which none needs more than x.
TEST(Theory, least_attained_service_first_has_the_sojourns_of_kleinrock) {
  auto samples = sojourns_of_types<Las>(kTwoSizes);
  const double cut_load = kRate * kSmall;
  expect_agrees("las at 0.70: sojourn of the small", samples["sojourn of type 0"],
                kSmall / (1 - cut_load) +
                    kRate * kSmall * kSmall / 2 / (1 - cut_load) / (1 - cut_load),
                kTolerance);
  expect_agrees("las at 0.70: sojourn of the large", samples["sojourn of type 1"],
                kLarge / (1 - kLoad) + kRate * kMeanSquare / 2 / (1 - kLoad) / (1 - kLoad),
                kTolerance);
}

// Age says nothing of exponential services: no order by it changes the mean of M/M/1.
TEST(Theory, least_attained_service_first_leaves_the_mean_of_exponential_services) {
  auto samples = sojourns_of_types<Las>("exp-10");
  expect_agrees("las, M/M/1 at 0.70: mean sojourn", samples["sojourn of type 0"],
                10 / (1 - kLoad), kTolerance);
}

double mean_sojourn(std::string_view policy, const sim::Setup& setup,
                    const Settings& settings = {}) {
  return latency_of(simulate(policy, settings, setup).value()).mean_ns();
}

// Schrage 1968: no other order has a smaller mean, whatever the arrivals and the sizes. One slice
// of 100 ns late at most.
TEST(Theory, nobody_beats_the_mean_of_shortest_remaining_time_first) {
  for (const char* mix : {"exp-10", "bimodal-10", "fixed-1"}) {
    sim::Setup setup = ideal(1, mix, 0.9, 20'000);
    setup.classify = Classify::kDeclared;  // sizes are known
    const double best = mean_sojourn("srpt", setup, {{"quantum", "100ns"}});
    for_each_policy([&]<class P>(std::type_identity<P>) {
      EXPECT_LE(best, 1.005 * mean_sojourn(P::kName, setup)) << P::kName << ", " << mix;
    });
  }
}

TEST(Theory, least_attained_service_first_beats_first_come_first_served_on_a_heavy_tail) {
  const sim::Setup setup = ideal(1, "extreme-bimodal", 0.8, 50'000);
  EXPECT_LT(10 * mean_sojourn("las", setup), mean_sojourn("cfcfs", setup));
}

// By then the long ones have sunk, and no short one waits behind more than one slice of them, but
// for the turns of the lower levels.
TEST(Theory, feedback_queues_spare_those_that_need_little) {
  const sim::Setup setup = ideal(1, "short:100us:99,long:40ms:1", 0.8, 10'000);
  const auto short_mean = [&](std::string_view policy, const Settings& settings) {
    return simulate(policy, settings, setup).value().types[0].latency.mean_ns();
  };
  EXPECT_LT(2 * short_mean("mlfq", {{"quantum", "100us"}}),
            short_mean("ps", {{"quantum", "100us"}}));
}

}  // namespace
}  // namespace rubato::sim
