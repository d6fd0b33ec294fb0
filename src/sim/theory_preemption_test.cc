// SPDX-License-Identifier: Apache-2.0
//
// Simulated systems that preempt against queueing theory: processor sharing, and priorities that
// cut what is less urgent. Theory cuts at any moment, a simulated slice has a length; each test
// says what that may change.
#include <gtest/gtest.h>

#include "policy/ps.h"
#include "policy/synergy.h"
#include "sim/testing/confidence.h"
#include "sim/testing/priority.h"
#include "sim/testing/runs.h"
#include "sim/testing/theory.h"

namespace rubato::sim {
namespace {

constexpr uint32_t kSeeds = 12;
constexpr double kServiceNs = 10'000;

// The mean slowdown and sojourn of each type.
template <Policy P>
auto simulate_types(Setup setup, const typename P::Config& config, uint32_t seeds = kSeeds) {
  return over_seeds(seeds, [&](uint64_t seed) {
    setup.seed = seed;
    const Outcome outcome = run<P>(setup, config);
    Figures figures;
    for (size_t i = 0; i < outcome.types.size(); ++i) {
      const std::string type = " of type " + std::to_string(i);
      figures["slowdown" + type] = outcome.types[i].slowdown.mean_ns() / kSlowdownUnit;
      figures["sojourn" + type] = outcome.types[i].latency.mean_ns() / kServiceNs;
    }
    return figures;
  });
}

struct Sharing {
  const char* name;
  uint32_t workers;
  const char* mix;
  uint32_t types;
  double load;
  Nanos quantum;
  uint64_t requests;
  double widest;
};

class ProcessorSharing : public ::testing::TestWithParam<Sharing> {};

// One worker: 1/(1 - rho) whatever the size (Kleinrock 1967). k workers, of which a request can
// have one: the number in system does not depend on the distribution of services (Cohen 1979), so
// that it is the one of M/M/k, and every size is slowed down alike. The first slice of a request
// starts when the turn comes to it, half a slice late on average per request in front.
TEST_P(ProcessorSharing, slows_down_requests_of_every_size_alike) {
  const Sharing& c = GetParam();
  auto samples = simulate_types<Ps>(ideal(c.workers, c.mix, c.load, c.requests), {c.quantum});
  const double exact = 1 + theory::MMk(c.workers, c.load).mean_wait();
  for (uint32_t i = 0; i < c.types; ++i) {
    const std::string what = "slowdown of type " + std::to_string(i);
    expect_agrees(std::string(c.name) + ": " + what, samples[what], exact, {c.widest, 0.01});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Theory, ProcessorSharing,
    ::testing::Values(
        Sharing{"M_D_1_at_50", 1, "fixed-10", 1, 0.5, Nanos(100), 20'000, 0.03},
        Sharing{"M_G_1_at_80", 1, "s:5us:50,m:10us:40,l:35us:10", 3, 0.8, Nanos(100), 60'000, 0.09},
        Sharing{"bimodal_at_60", 1, "s:1us:99.5,l:101us:0.5", 2, 0.6, Nanos(20), 100'000, 0.06},
        Sharing{"M_G_4_at_80", 4, "s:5us:50,m:10us:40,l:35us:10", 3, 0.8, Nanos(100), 60'000, 0.06},
        Sharing{"M_G_16_at_90", 16, "s:5us:50,m:10us:40,l:35us:10", 3, 0.9, Nanos(100), 60'000,
                0.08}),
    [](const auto& of) { return std::string(of.param.name); });

// Urgent requests come at most one slice late, and half a slice if they find all workers with
// others; a slice is 1 % of a service.
constexpr double kSliceBias = 0.01;

TEST(Theory, preemptive_priorities_have_the_sojourns_of_conway_maxwell_and_miller) {
  const double load = 0.8;
  auto samples = simulate_types<Priority<Preempts::kEverything>>(
      ideal(1, "urgent:5us:60,other:exp(17.5us):40", load, 100'000), {Nanos(50)});
  const theory::Class classes[] = {{load * 0.3, 0.5, 0.25}, {load * 0.7, 1.75, 2 * 1.75 * 1.75}};
  const std::vector<double> exact = theory::preemptive_resume(classes);
  for (size_t i = 0; i < exact.size(); ++i) {
    const std::string what = "sojourn of type " + std::to_string(i);
    expect_agrees("preemptive M/G/1 at 0.80: " + what, samples[what], exact[i], {0.07, kSliceBias});
  }
}

TEST(Theory, preemptive_priorities_of_many_workers_see_a_smaller_system) {
  for (const uint32_t workers : {2u, 16u, 64u}) {
    const double load = workers == 2 ? 0.8 : 0.9;
    auto samples = simulate_types<Priority<Preempts::kEverything>>(
        ideal(workers, "urgent:exp(10us):70,other:exp(10us):30", load, 100'000), {Nanos(100)});
    const double loads[] = {0.7 * load, 0.3 * load};
    const std::vector<double> exact = theory::preemptive_resume(workers, loads);
    for (size_t i = 0; i < exact.size(); ++i) {
      const std::string what = "sojourn of type " + std::to_string(i);
      expect_agrees("preemptive M/M/" + std::to_string(workers) + ": " + what, samples[what],
                    exact[i], {0.12, kSliceBias});
    }
  }
}

// Synergy with one worker, all requests long or short: a short one preempts a long one at the end
// of its slice, and the long ones go on by turns. With slices this short, shorts are an M/D/1 of
// their own, and longs share what is left by turns of a slice: exponential longs have the mean of
// any order (preemptive-resume).
TEST(Theory, synergy_on_one_worker_gives_shorts_a_system_of_their_own) {
  const double load = 0.8;
  Synergy::Config config;
  config.quantum_min = config.quantum_max = Nanos(100);
  auto samples =
      simulate_types<Synergy>(ideal(1, "short:2us:80,long:exp(42us):20", load, 100'000), config);
  const theory::Class classes[] = {{load * 0.16, 0.2, 0.04}, {load * 0.84, 4.2, 2 * 4.2 * 4.2}};
  const std::vector<double> exact = theory::preemptive_resume(classes);
  // Half a slice of 100 ns, when a long request is found, to a sojourn of 2.15 us.
  expect_agrees("synergy, 1 worker at 0.80: sojourn of shorts", samples["sojourn of type 0"],
                exact[0], {0.02, 0.03});
  expect_agrees("synergy, 1 worker at 0.80: sojourn of longs", samples["sojourn of type 1"],
                exact[1], {0.08, 0.01});
}

}  // namespace
}  // namespace rubato::sim
