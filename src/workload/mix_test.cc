// SPDX-License-Identifier: Apache-2.0
#include "workload/mix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace rubato {
namespace {

TEST(Mix, every_named_mix_parses_and_keeps_its_name) {
  for (const NamedMix& named : named_mixes()) {
    const Result<Mix> mix = parse_mix(named.name);
    ASSERT_TRUE(mix.ok()) << named.name << ": " << mix.error();
    EXPECT_EQ(mix.value().name(), named.name);
    double total = 0;
    for (const RequestType& type : mix.value().types()) total += type.share;
    EXPECT_NEAR(total, 1.0, 1e-12);
  }
}

TEST(Mix, the_papers_means_come_out) {
  const auto mean = [](const char* name) { return parse_mix(name).value().mean_service_ns(); };
  EXPECT_NEAR(mean("bimodal-10"), 10000, 1e-6);
  EXPECT_NEAR(mean("high-bimodal"), 50500, 1e-6);
  EXPECT_NEAR(mean("extreme-bimodal"), 2997.5, 1e-6);
  EXPECT_NEAR(mean("zippydb"), 15865, 1e-6);
  EXPECT_NEAR(mean("fixed-850ns"), 850, 1e-6);
}

TEST(Mix, inline_specs_take_units_and_any_weights) {
  const Mix mix = parse_mix("short:0.5us:99.5, long:exp(500us):0.5").value();
  ASSERT_EQ(mix.types().size(), 2u);
  EXPECT_EQ(mix.types()[0].name, "short");
  EXPECT_EQ(mix.types()[0].service.mean, Nanos(500));
  EXPECT_NEAR(mix.types()[1].share, 0.005, 1e-12);
  EXPECT_EQ(mix.types()[1].service.shape, ServiceTime::Shape::kExponential);
  EXPECT_NEAR(parse_mix("a:1us:99.99,e-1:9us:1e-1").value().types()[1].share, 1e-3, 1e-6);
  EXPECT_EQ(parse_mix("a:3:1").value().types()[0].service.mean, Nanos::micros(3));
  EXPECT_EQ(parse_mix("fixed-7").value().types()[0].service.mean, Nanos::micros(7));
  EXPECT_EQ(parse_mix("exp-2ms").value().types()[0].service.mean, Nanos::millis(2));
}

TEST(Mix, errors_are_one_line_that_names_the_part) {
  for (const char* bad : {"", "nonsense", "a:1us", "a:1us:0", "a:1us:-1", "a:x:1", "a:0:1",
                          ":1us:1", "a:1us:1,", "a:1us:1,a:2us:1", "fixed-x", "a:exp(1us:1"}) {
    const Result<Mix> mix = parse_mix(bad);
    ASSERT_FALSE(mix.ok()) << bad;
    EXPECT_EQ(mix.error().find('\n'), std::string::npos);
    EXPECT_NE(mix.error().find("workload: '"), std::string::npos);
  }
  EXPECT_NE(parse_mix("a:1us:1,b:2us:x").error().find("b:2us:x"), std::string::npos);
  std::string many = "t0:1:1";
  for (size_t i = 1; i < Mix::kMaxTypes; ++i) many += ",t" + std::to_string(i) + ":1:1";
  EXPECT_TRUE(parse_mix(many).ok());
  EXPECT_FALSE(parse_mix(many + ",more:1:1").ok());
}

TEST(Mix, samples_follow_shares_and_service_times) {
  const Mix mix = parse_mix("bimodal-10").value();
  Prng prng(3);
  constexpr int kCount = 100000;
  double sum = 0;
  int longs = 0;
  for (int i = 0; i < kCount; ++i) {
    const Mix::Draw draw = mix.sample(prng);
    longs += draw.type == 1;
    sum += static_cast<double>(draw.service.count());
  }
  EXPECT_NEAR(longs / double{kCount}, 0.2, 0.01);
  EXPECT_NEAR(sum / kCount, 10000, 250);
}

TEST(Mix, golden_draws_are_the_same_everywhere) {
  const Mix mix = parse_mix("a:1us:1,b:exp(10us):1").value();
  Prng prng(9);
  const std::pair<uint32_t, int64_t> want[] = {{1, 13229}, {0, 1000}, {1, 2462},
                                               {0, 1000},  {0, 1000}, {0, 1000}};
  for (const auto& [type, ns] : want) {
    const Mix::Draw draw = mix.sample(prng);
    EXPECT_EQ(draw.type, type);
    EXPECT_EQ(draw.service, Nanos(ns));
  }
}

// The mean of each distribution is what was asked for, and its spread what it should be.
TEST(Mix, distributions_keep_their_mean) {
  struct Case {
    const char* service;
    double mean_ns, deviation;  // of the mean; 0 = not looked at
    double tolerance = 0.003;
  };
  const Case cases[] = {{"exp(1us)", 1000, 1},
                        {"exp(20ns)", 20, 1, 0.005},
                        {"uniform(1us,3us)", 2000, 0.2887},
                        {"lognormal(10us,1)", 10'000, 1.3108},
                        {"pareto(10us,3)", 10'000, 0},
                        {"pareto(10us,1.5)", 10'000, 0, 0.02},
                        {"pareto(10us,1)", 10'000, 0, 0.04},
                        {"pareto(10us,0.5)", 10'000, 0, 0.02}};
  for (const Case& c : cases) {
    const Mix mix = parse_mix(std::string("a:") + c.service + ":1").value();
    EXPECT_NEAR(mix.mean_service_ns(), c.mean_ns, 1e-6);
    Prng prng(5);
    constexpr int kCount = 2'000'000;
    double sum = 0, squares = 0;
    for (int i = 0; i < kCount; ++i) {
      const double ns = static_cast<double>(mix.sample(prng).service.count());
      sum += ns, squares += ns * ns;
    }
    const double mean = sum / kCount;
    EXPECT_NEAR(mean / c.mean_ns, 1, c.tolerance) << c.service;
    if (c.deviation == 0) continue;
    EXPECT_NEAR(std::sqrt(squares / kCount - mean * mean) / mean, c.deviation, 0.02) << c.service;
  }
}

// What rounding to whole nanoseconds, at least 1, adds to the mean; far below the noise of draws.
TEST(Mix, rounding_keeps_the_mean) {
  const Mix mix = parse_mix("exp-1").value();
  Prng rounded(5), exact(5);
  constexpr int kCount = 1'000'000;
  double difference = 0;
  for (int i = 0; i < kCount; ++i) {
    difference += static_cast<double>(mix.sample(rounded).service.count());
    difference -= 1000 * sample_exponential(exact);
  }
  EXPECT_LT(std::abs(difference / kCount), 0.005);  // ns, of 1000
}

// Quantiles in closed form, by how many of a million draws are beyond; five standard deviations.
TEST(Mix, distributions_have_their_quantiles) {
  struct Case {
    const char* service;
    double at_ns, beyond;
  };
  const double median = 10'000 * std::exp(-0.5);
  const Case cases[] = {{"exp(10us)", 10'000 * std::log(2), 0.5},
                        {"exp(10us)", 10'000 * std::log(1000), 0.001},
                        {"uniform(1us,3us)", 1500, 0.75},
                        {"uniform(1us,3us)", 2900, 0.05},
                        {"lognormal(10us,1)", median, 0.5},
                        {"lognormal(10us,1)", median * std::exp(1.2815515655446004), 0.1},
                        {"lognormal(10us,1)", median * std::exp(3.090232306167813), 0.001},
                        {"pareto(3us,1.5)", 3000 / 2.97 * std::pow(2, 1 / 1.5), 0.5},
                        {"pareto(3us,1.5)", 3000 / 2.97 * 100, 0.001}};
  for (const Case& c : cases) {
    const Mix mix = parse_mix(std::string("a:") + c.service + ":1").value();
    Prng prng(11);
    constexpr int kCount = 1'000'000;
    int beyond = 0;
    for (int i = 0; i < kCount; ++i) {
      beyond += static_cast<double>(mix.sample(prng).service.count()) > c.at_ns;
    }
    // Half a nanosecond of rounding moves the quantiles of the shortest by up to 5e-4.
    const double tolerance = 5 * std::sqrt(kCount * c.beyond * (1 - c.beyond)) + 500 * c.beyond;
    EXPECT_NEAR(beyond, kCount * c.beyond, tolerance) << c.service << " at " << c.at_ns;
  }
}

TEST(Mix, pareto_has_its_tail) {
  const Mix mix = parse_mix("a:pareto(3us,1.5):1").value();  // at least 1.01 us
  Prng prng(5);
  int beyond = 0;
  for (int i = 0; i < 1'000'000; ++i) beyond += mix.sample(prng).service > Nanos::micros(100);
  EXPECT_NEAR(beyond / 1e6, 0.001, 0.0002);
}

TEST(Mix, arguments_of_distributions_are_checked) {
  for (const char* bad :
       {"exp()", "exp(1us,2)", "uniform(3us,1us)", "uniform(1us)", "pareto(1us,0)",
        "lognormal(1us,-1)", "lognormal(1us)", "gamma(1us,2)", "exp(1us", "pareto"}) {
    EXPECT_FALSE(parse_mix(std::string("a:") + bad + ":1").ok()) << bad;
  }
  EXPECT_TRUE(parse_mix("a:uniform(1us,3us):1,b:pareto(2us,1.5):2").ok());
}

}  // namespace
}  // namespace rubato
