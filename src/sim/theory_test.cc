// SPDX-License-Identifier: Apache-2.0
//
// Simulated systems without preemption against queueing theory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "policy/cfcfs.h"
#include "policy/fcfs.h"
#include "policy/steal.h"
#include "policy/synergy.h"
#include "sim/testing/confidence.h"
#include "sim/testing/priority.h"
#include "sim/testing/runs.h"
#include "sim/testing/theory.h"

namespace rubato::sim {
namespace {

constexpr double kBucket = 0.008;  // of a histogram (metrics/buckets.h)
constexpr double kServiceNs = 10'000;
constexpr uint32_t kSeeds = 16;

double percentile(const Histogram& histogram, double percent) {
  return static_cast<double>(histogram.percentile(percent).count()) / kServiceNs;
}

// In mean service times.
Figures figures_of(const Outcome& outcome, const Waits& waits) {
  const Histogram latency = latency_of(outcome);
  return {{"mean wait", waits.all.mean_ns() / kServiceNs},
          {"share waiting", waits.share_waited()},
          {"p99.9 wait", percentile(waits.all, 99.9)},
          {"mean", latency.mean_ns() / kServiceNs},
          {"p99", percentile(latency, 99)},
          {"p99.9", percentile(latency, 99.9)},
          {"utilization", outcome.useful_share}};
}

template <Policy P>
auto simulate_seeds(Setup setup, typename P::Config config = {}) {
  return over_seeds(kSeeds, [&](uint64_t seed) {
    Waits waits;
    setup.seed = seed;
    const Outcome outcome = run<Watched<P>>(setup, {config, &waits});
    return figures_of(outcome, waits);
  });
}

struct Case {
  uint32_t workers;
  double load;
  uint64_t requests;  // per seed: correlations grow with (1 - load)^-2
  double widest;       // interval of the mean wait, as a share of it
  double widest_tail;  // and of its 99.9th percentile

  // The same for sojourns, of which waits are a small part if there are many workers.
  double widest_sojourn() const { return std::min(widest, 0.04); }
  double widest_sojourn_tail() const { return workers < 16 ? widest_tail : 0.08; }
};

std::string case_name(uint32_t workers, double load) {
  return std::to_string(workers) + "_at_" + std::to_string(std::lround(100 * load));
}

std::string name_of(const char* system, uint32_t workers, double load, const char* figure) {
  char text[96];
  std::snprintf(text, sizeof text, "%s/%u at %.2f: %s", system, workers, load, figure);
  return text;
}

class MMk : public ::testing::TestWithParam<Case> {};

TEST_P(MMk, waits_and_sojourns_are_those_of_erlang) {
  const Case c = GetParam();
  const theory::MMk exact(c.workers, c.load);
  auto samples = simulate_seeds<Cfcfs>(ideal(c.workers, "exp-10", c.load, c.requests));
  const auto sojourn = [&](double t) { return exact.sojourn_tail(t); };
  const auto wait = [&](double t) { return exact.wait_tail(t); };
  const auto agrees = [&](const char* figure, double theory, Tolerance tolerance) {
    expect_agrees(name_of("M/M", c.workers, c.load, figure), samples[figure], theory, tolerance);
  };
  agrees("mean wait", exact.mean_wait(), {c.widest});
  agrees("share waiting", exact.waits(), {c.widest});
  agrees("mean", 1 + exact.mean_wait(), {c.widest_sojourn()});
  agrees("p99", theory::quantile(sojourn, 0.01), {c.widest_sojourn_tail(), kBucket});
  agrees("p99.9", theory::quantile(sojourn, 0.001), {c.widest_sojourn_tail(), kBucket});
  agrees("p99.9 wait", theory::quantile(wait, 0.001), {c.widest_tail, kBucket});
  agrees("utilization", c.load, {0.01, 0.002});
}

INSTANTIATE_TEST_SUITE_P(
    Theory, MMk,
    ::testing::Values(Case{1, 0.5, 200'000, 0.03, 0.06}, Case{1, 0.8, 400'000, 0.04, 0.14},
                      Case{2, 0.9, 800'000, 0.05, 0.17}, Case{16, 0.6, 400'000, 0.09, 0.11},
                      Case{16, 0.9, 800'000, 0.07, 0.18}, Case{64, 0.95, 800'000, 0.12, 0.24},
                      Case{256, 0.95, 800'000, 0.19, 0.28}),
    [](const auto& of) { return case_name(of.param.workers, of.param.load); });

class MDk : public ::testing::TestWithParam<Case> {};

TEST_P(MDk, waits_are_those_of_crommelin_and_franx) {
  const Case c = GetParam();
  const theory::MDk exact(c.workers, c.load);
  auto samples = simulate_seeds<Cfcfs>(ideal(c.workers, "fixed-10", c.load, c.requests));
  const auto tail = [&](double t) { return exact.wait_tail(t); };
  const auto agrees = [&](const char* figure, double theory, Tolerance tolerance) {
    expect_agrees(name_of("M/D", c.workers, c.load, figure), samples[figure], theory, tolerance);
  };
  agrees("mean wait", exact.mean_wait(), {c.widest});
  agrees("share waiting", exact.waits(), {c.widest});
  agrees("mean", 1 + exact.mean_wait(), {c.widest_sojourn()});
  agrees("p99.9 wait", theory::quantile(tail, 0.001), {c.widest_tail, kBucket});
  agrees("p99", 1 + theory::quantile(tail, 0.01), {c.widest_sojourn_tail(), kBucket});
  agrees("p99.9", 1 + theory::quantile(tail, 0.001), {c.widest_sojourn_tail(), kBucket});
}

INSTANTIATE_TEST_SUITE_P(
    Theory, MDk,
    ::testing::Values(Case{1, 0.5, 200'000, 0.02, 0.05}, Case{1, 0.9, 800'000, 0.05, 0.20},
                      Case{2, 0.8, 400'000, 0.03, 0.09}, Case{16, 0.8, 400'000, 0.05, 0.10},
                      Case{64, 0.9, 800'000, 0.10, 0.22}, Case{256, 0.95, 800'000, 0.17, 0.25}),
    [](const auto& of) { return case_name(of.param.workers, of.param.load); });

// Before it is an oracle it is held to what is known without it.
TEST(Theory, m_d_k_agrees_with_the_closed_formulas_for_one_worker) {
  for (const double rho : {0.3, 0.5, 0.8, 0.95}) {
    const theory::MDk one(1, rho);
    EXPECT_NEAR(one.mean_wait(), theory::pollaczek_khinchine(rho, 0), 1e-6 / (1 - rho));
    EXPECT_NEAR(one.waits(), rho, 1e-9);
    EXPECT_NEAR(one.wait_tail(0), rho, 1e-9);
    // P(W <= t) = (1 - rho) e^(rho t) below one service time (Erlang 1909).
    EXPECT_NEAR(1 - one.wait_tail(0.5), (1 - rho) * std::exp(rho * 0.5), 1e-9);
  }
}

TEST(Theory, the_tail_of_waits_sums_up_to_their_mean) {
  for (const uint32_t workers : {1u, 4u, 16u}) {
    const theory::MDk exact(workers, 0.8);
    const theory::MMk other(workers, 0.8);
    double sum = 0, sum_other = 0;
    for (double t = 0.0005; t < 60; t += 0.001) {
      sum += exact.wait_tail(t) * 0.001;
      sum_other += (other.sojourn_tail(t)) * 0.001;
    }
    EXPECT_NEAR(sum, exact.mean_wait(), 1e-4 * exact.mean_wait()) << workers;
    EXPECT_NEAR(sum_other, 1 + other.mean_wait(), 1e-3) << workers;
  }
}

// The tables of Kuehn (Tables on Delay Systems, 1976) and of many textbooks.
TEST(Theory, erlang_c_has_the_values_of_the_tables) {
  EXPECT_NEAR(theory::erlang_c(1, 0.7), 0.7, 1e-12);
  EXPECT_NEAR(theory::erlang_c(2, 0.5), 1.0 / 3, 1e-12);
  EXPECT_NEAR(theory::erlang_c(10, 0.8), 0.409180, 1e-5);
}

struct GeneralCase {
  const char* name;
  const char* mix;  // of mean 10 us
  double scv;       // squared coefficient of variation
  double load;
  uint64_t requests;
  double widest;
};

class MG1 : public ::testing::TestWithParam<GeneralCase> {};

TEST_P(MG1, mean_wait_is_that_of_pollaczek_and_khinchine) {
  const GeneralCase& c = GetParam();
  auto samples = simulate_seeds<Cfcfs>(ideal(1, c.mix, c.load, c.requests));
  expect_agrees(name_of("M/G", 1, c.load, c.name), samples["mean wait"],
                theory::pollaczek_khinchine(c.load, c.scv), {c.widest});
  expect_agrees(name_of("M/G", 1, c.load, "share waiting"), samples["share waiting"], c.load,
                {0.025});
}

// bimodal (0.8 * 2.5^2 + 0.2 * 40^2) / 10^2 - 1; extreme (0.995 * 1 + 0.005 * 1801^2) / 10^2 - 1.
INSTANTIATE_TEST_SUITE_P(
    Theory, MG1,
    ::testing::Values(GeneralCase{"bimodal", "bimodal-10", 2.25, 0.5, 200'000, 0.02},
                      GeneralCase{"bimodal", "bimodal-10", 2.25, 0.8, 400'000, 0.04},
                      GeneralCase{"extreme", "s:1us:99.5,l:1801us:0.5", 161.18995, 0.5, 1'500'000,
                                  0.06}),
    [](const auto& of) { return of.param.name + ("_at_" + std::to_string(of.index)); });

TEST(Theory, waits_behind_hyperexponential_services_have_their_exact_mean_and_tail) {
  const double load = 0.7;
  const double scv = 2 * (0.9 * 0.4 * 0.4 + 0.1 * 6.4 * 6.4) - 1;
  const theory::MH21 exact(0.9, 0.4, 6.4, load);
  auto samples = simulate_seeds<Cfcfs>(ideal(1, "s:exp(4us):90,l:exp(64us):10", load, 600'000));
  const auto tail = [&](double t) { return exact.wait_tail(t); };
  EXPECT_NEAR(tail(0), load, 1e-9);
  expect_agrees("M/H2/1 at 0.70: mean wait", samples["mean wait"],
                theory::pollaczek_khinchine(load, scv), {0.05});
  expect_agrees("M/H2/1 at 0.70: p99.9 wait", samples["p99.9 wait"],
                theory::quantile(tail, 0.001), {0.15, kBucket});
}

// Random steering splits a Poisson stream into independent ones.
TEST(Theory, workers_with_inboxes_of_their_own_are_as_many_single_servers) {
  for (const uint32_t workers : {4u, 64u}) {
    const double load = 0.8;
    auto samples = simulate_seeds<Fcfs>(ideal(workers, "exp-10", load, 400'000));
    const theory::MMk one(1, load);
    const auto sojourn = [&](double t) { return one.sojourn_tail(t); };
    const auto agrees = [&](const char* figure, double theory, Tolerance tolerance) {
      expect_agrees(name_of("fcfs M/M", workers, load, figure), samples[figure], theory, tolerance);
    };
    agrees("mean wait", one.mean_wait(), {0.04});
    agrees("share waiting", load, {0.01});
    agrees("p99", theory::quantile(sojourn, 0.01), {0.06, kBucket});
    agrees("p99.9", theory::quantile(sojourn, 0.001), {0.14, kBucket});
  }
}

// The order of service does not matter to the number in system if services are exponential, no
// request is cut and no worker idles while one waits; and by Little not to the mean.
TEST(Theory, stealing_at_no_cost_has_the_mean_of_one_queue) {
  const double load = 0.9;
  const theory::MMk exact(16, load);
  auto samples = simulate_seeds<Steal>(ideal(16, "exp-10", load, 400'000));
  expect_agrees("steal M/M/16 at 0.90: mean wait", samples["mean wait"], exact.mean_wait(), {0.09});
  expect_agrees("steal M/M/16 at 0.90: share waiting", samples["share waiting"], exact.waits(),
                {0.03});
  sim::Setup no_long = ideal(16, "exp-10", load, 400'000);
  no_long.long_over = Nanos::max();
  samples = simulate_seeds<Synergy>(no_long, Synergy::Config{.steal_threshold = 0});
  expect_agrees("synergy M/M/16 at 0.90, all short: mean wait", samples["mean wait"],
                exact.mean_wait(), {0.09});
}

// Mean waits per type, in units of 10 us.
template <Policy P>
auto simulate_types(Setup setup) {
  return over_seeds(kSeeds, [&](uint64_t seed) {
    Waits waits;
    setup.seed = seed;
    run<Watched<P>>(setup, {{}, &waits});
    Figures figures;
    for (size_t i = 0; i < waits.by_type.size(); ++i) {
      figures["type " + std::to_string(i)] = waits.by_type[i].mean_ns() / kServiceNs;
    }
    return figures;
  });
}

TEST(Theory, priorities_without_preemption_have_the_waits_of_cobham) {
  const double load = 0.8;
  auto samples = simulate_types<Priority<Preempts::kNothing>>(
      ideal(1, "a:5us:50,b:exp(10us):30,c:22.5us:20", load, 400'000));
  // Loads are share times mean service of the overall 10 us.
  const theory::Class classes[] = {{load * 0.25, 0.5, 0.25},
                                   {load * 0.30, 1.0, 2.0},
                                   {load * 0.45, 2.25, 2.25 * 2.25}};
  const std::vector<double> exact = theory::cobham(classes);
  for (size_t i = 0; i < exact.size(); ++i) {
    const std::string type = "type " + std::to_string(i);
    expect_agrees("priorities M/G/1 at 0.80: wait of " + type, samples[type], exact[i], {0.04});
  }
}

TEST(Theory, priorities_of_many_workers_have_the_waits_of_cobham) {
  for (const uint32_t workers : {4u, 64u}) {
    const double load = workers == 4 ? 0.8 : 0.9;
    auto samples = simulate_types<Priority<Preempts::kNothing>>(
        ideal(workers, "a:exp(10us):30,b:exp(10us):50,c:exp(10us):20", load, 400'000));
    const double loads[] = {0.3 * load, 0.5 * load, 0.2 * load};
    const std::vector<double> exact = theory::cobham(workers, loads);
    for (size_t i = 0; i < exact.size(); ++i) {
      const std::string type = "type " + std::to_string(i);
      expect_agrees("priorities " + name_of("M/M", workers, load, "wait of ") + type, samples[type],
                    exact[i], {0.16});
    }
  }
}

}  // namespace
}  // namespace rubato::sim
