// SPDX-License-Identifier: Apache-2.0
#include "workload/arrival_cascade.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "workload/arrivals.h"
#include "workload/count_scales.h"

namespace rubato {
namespace {

// What a recorder that sees every request for `length` makes of them.
ArrivalScales record(const std::function<Nanos()>& next, Nanos length) {
  CountScales scales;
  const int64_t slot_ns = ArrivalScales::kSlot.count();
  int64_t slot = 0;
  uint64_t count = 0;
  for (Nanos at = next(); at < length; at = next()) {
    for (; slot < at.count() / slot_ns; ++slot) scales.add(std::exchange(count, 0));
    ++count;
  }
  scales.add(count);
  const double rate = static_cast<double>(scales.total()) / length.seconds();
  return {.rate_rps = rate, .allan = scales.allan()};
}

ArrivalScales record(Arrivals arrivals, Nanos length) {
  return record([&] { return arrivals.next(); }, length);
}

TEST(CountScales, independent_arrivals_have_an_allan_factor_of_1_on_every_scale) {
  const auto scales = record(Arrivals::generate(ArrivalShape::kPoisson, 20'000, 3),
                             Nanos::seconds(60));
  ASSERT_GE(scales.allan.size(), 16u);
  for (size_t i = 0; i < scales.allan.size(); ++i) {
    // Of n pairs the estimate deviates by about the root of 2 / n.
    const double pairs = 60e9 / (2 * 32768 * std::pow(2, i));
    EXPECT_NEAR(scales.allan[i], 1, 4 * std::sqrt(2 / pairs)) << i;
  }
}

TEST(CountScales, batches_and_pauses_show_on_their_scales) {
  const auto batches = record(Arrivals::generate({.shape = ArrivalShape::kBatch, .parameter = 8},
                                                 20'000, 3),
                              Nanos::seconds(20));
  // Of geometric batches of mean m the second moment over the first is 2 m - 1.
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(batches.allan[i], 15, 1.5) << i;
  const auto onoff = record(Arrivals::generate(ArrivalShape::kOnOff, 20'000, 3),
                            Nanos::seconds(20));
  EXPECT_NEAR(onoff.allan[0], 1, 0.1);
  EXPECT_GT(onoff.allan[4], 8);   // slots of 0.5 ms, in milliseconds of which half are silent
  EXPECT_LT(onoff.allan[14], 3);  // of 0.5 s: they are alike
}

TEST(CountScales, empty_slots_at_once_count_as_one_by_one) {
  CountScales all, each;
  const auto both = [&](uint64_t empty, uint64_t count) {
    all.add_empty(empty);
    for (uint64_t i = 0; i < empty; ++i) each.add(0);
    all.add(count);
    each.add(count);
  };
  uint64_t empty = 1;
  for (int i = 0; i < 200; ++i) {
    empty = empty * 5 % 1237;
    both(empty, 1 + empty % 3);
  }
  both(5'000'000, 7);
  both(1 << 18, 2);
  both((1 << 22) + 3, 2);
  EXPECT_EQ(all.total(), each.total());
  EXPECT_EQ(all.allan(), each.allan());
}

TEST(CountScales, slots_that_are_missing_do_not_make_neighbours) {
  CountScales scales;
  for (int i = 0; i < 100; ++i) {
    scales.add(5);
    scales.add(5);
    scales.add(1'000);
    scales.skip();
  }
  EXPECT_EQ(scales.allan(), std::vector<double>{0});
  EXPECT_EQ(scales.total(), 101'000u);
}

// What comes out of a cascade, recorded again, is what went in.
TEST(ArrivalCascade, is_as_uneven_on_every_scale_as_the_recording) {
  struct Case {
    std::string name;
    ArrivalSpec spec;
    double rate;
  };
  const Case cases[] = {{"poisson", {}, 20'000},
                        {"batches", {.shape = ArrivalShape::kBatch, .parameter = 8}, 20'000},
                        {"bursts", {.shape = ArrivalShape::kBursty}, 500'000},
                        {"long bursts", parse_arrivals("bursty:4:5ms").value(), 20'000},
                        {"pauses", {.shape = ArrivalShape::kOnOff}, 100'000}};
  for (const Case& c : cases) {
    const Nanos length = Nanos::seconds(20);
    const ArrivalScales in = record(Arrivals::generate(c.spec, c.rate, 3), length);
    ArrivalCascade cascade(in, in.rate_rps, 5);
    const ArrivalScales out = record([&] { return cascade.next(); }, length);
    EXPECT_NEAR(out.rate_rps / in.rate_rps, 1, 0.02) << c.name;
    ASSERT_GE(out.allan.size(), 14u);
    for (size_t i = 0; i < 14; ++i) {
      const double pairs = 20e9 / (2 * 32768 * std::pow(2, i));
      EXPECT_NEAR(out.allan[i] / in.allan[i], 1, 0.05 + 8 * std::sqrt(2 / pairs))
          << c.name << ", scale " << i << " of " << in.allan[i];
    }
  }
}

TEST(ArrivalCascade, arrivals_at_equal_distances_stay_regular) {
  const ArrivalScales in =
      record(Arrivals::generate(ArrivalShape::kUniform, 2'000, 0), Nanos::seconds(20));
  ArrivalCascade cascade(in, in.rate_rps, 5);
  const ArrivalScales out = record([&] { return cascade.next(); }, Nanos::seconds(20));
  EXPECT_LT(in.allan[8], 0.1);
  for (size_t i = 6; i < in.allan.size(); ++i) EXPECT_LT(out.allan[i], 0.5) << i;
}

TEST(ArrivalCascade, another_rate_stretches_time) {
  const ArrivalScales scales{.rate_rps = 1000, .allan = {1, 1.5, 4, 2}};
  ArrivalCascade as_recorded(scales, 1000, 5);
  ArrivalCascade faster(scales, 4000, 5);
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_NEAR(static_cast<double>(as_recorded.next().count()) / 4,
                static_cast<double>(faster.next().count()), 1.0);
  }
}

TEST(ArrivalCascade, keeps_any_rate_and_never_goes_back) {
  for (const double rate : {0.001, 3.0, 1e5, 1e9, 1e10}) {
    for (const double factor : {0.0, 0.5, 1.0, 20.0}) {
      const ArrivalScales scales{.rate_rps = rate, .allan = {factor, factor, factor}};
      ArrivalCascade cascade(scales, rate, 5);
      constexpr int kCount = 200'000;
      Nanos last;
      for (int i = 0; i < kCount; ++i) {
        const Nanos at = cascade.next();
        ASSERT_GE(at, last);
        last = at;
      }
      EXPECT_NEAR(kCount / last.seconds() / rate, 1, 0.05) << rate << ' ' << factor;
    }
  }
}

TEST(ArrivalCascade, golden_times_are_the_same_everywhere) {
  const ArrivalScales scales{.rate_rps = 10'000, .allan = {1, 1.2, 2, 5, 3}};
  ArrivalCascade cascade(scales, 10'000, 1);
  uint64_t digest = 0;
  for (int i = 0; i < 10'000; ++i) {
    digest = (digest ^ static_cast<uint64_t>(cascade.next().count())) * 0x9e3779b97f4a7c15u;
  }
  EXPECT_EQ(digest, 658833855963834063u);
}

TEST(ArrivalCascade, scales_out_of_range_are_not_valid) {
  const auto good = [](auto&& change) {
    ArrivalScales scales{.rate_rps = 1, .allan = {1}};
    change(scales);
    return valid(scales);
  };
  EXPECT_TRUE(good([](ArrivalScales&) {}));
  EXPECT_TRUE(good([](ArrivalScales& s) { s.allan.assign(40, 1); }));
  EXPECT_FALSE(good([](ArrivalScales& s) { s.rate_rps = 0; }));
  EXPECT_FALSE(good([](ArrivalScales& s) { s.rate_rps = 1.1e10; }));
  EXPECT_FALSE(good([](ArrivalScales& s) { s.slot = Nanos(0); }));
  EXPECT_FALSE(good([](ArrivalScales& s) { s.slot = Nanos::seconds(2); }));
  EXPECT_FALSE(good([](ArrivalScales& s) { s.allan = {-1}; }));
  EXPECT_FALSE(good([](ArrivalScales& s) { s.allan = {1, NAN}; }));
  EXPECT_FALSE(good([](ArrivalScales& s) { s.allan.assign(41, 1); }));
  EXPECT_FALSE(good([](ArrivalScales& s) {
    s.slot = Nanos::seconds(1);
    s.allan.assign(35, 1);
  }));
}

}  // namespace
}  // namespace rubato
