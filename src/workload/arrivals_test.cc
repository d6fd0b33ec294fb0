// SPDX-License-Identifier: Apache-2.0
#include "workload/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rubato {
namespace {

TEST(Arrivals, every_shape_keeps_its_mean_rate_and_never_goes_back) {
  for (ArrivalShape shape :
       {ArrivalShape::kPoisson, ArrivalShape::kUniform, ArrivalShape::kOnOff}) {
    for (double rate : {1000.0, 777777.0}) {
      Arrivals arrivals = Arrivals::generate(shape, rate, 5);
      constexpr int kCount = 200000;
      Nanos last;
      for (int i = 0; i < kCount; ++i) {
        const Nanos now = arrivals.next();
        ASSERT_GE(now, last);
        last = now;
      }
      EXPECT_NEAR(kCount / last.seconds() / rate, 1.0, 0.01) << rate;
    }
  }
}

TEST(Arrivals, uniform_gaps_do_not_drift) {
  Arrivals arrivals = Arrivals::generate(ArrivalShape::kUniform, 3e6, 0);
  Nanos last;
  for (int i = 0; i < 3000000; ++i) last = arrivals.next();
  EXPECT_NEAR(last.seconds(), 1.0, 1e-5);
}

TEST(Arrivals, onoff_is_silent_in_every_second_millisecond) {
  Arrivals arrivals = Arrivals::generate(ArrivalShape::kOnOff, 100000, 11);
  for (int i = 0; i < 20000; ++i) {
    EXPECT_EQ(arrivals.next().count() / Arrivals::kPhase.count() % 2, 0);
  }
}

TEST(Arrivals, a_seed_fixes_the_times) {
  Arrivals a = Arrivals::generate(ArrivalShape::kPoisson, 1e5, 1);
  Arrivals b = Arrivals::generate(ArrivalShape::kPoisson, 1e5, 1);
  Arrivals c = Arrivals::generate(ArrivalShape::kPoisson, 1e5, 2);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const Nanos now = a.next();
    EXPECT_EQ(now, b.next());
    differs |= now != c.next();
  }
  EXPECT_TRUE(differs);
}

TEST(Arrivals, golden_times_are_the_same_everywhere) {
  Arrivals arrivals = Arrivals::generate(ArrivalShape::kPoisson, 1e5, 1);
  for (int64_t want : {10967, 22267, 25881, 31184, 33495}) EXPECT_EQ(arrivals.next(), Nanos(want));
}

TEST(Arrivals, names_are_parsed_and_others_refused) {
  EXPECT_EQ(parse_arrivals("poisson").value().shape, ArrivalShape::kPoisson);
  EXPECT_EQ(parse_arrivals("uniform").value().shape, ArrivalShape::kUniform);
  EXPECT_EQ(parse_arrivals("onoff").value().shape, ArrivalShape::kOnOff);
  EXPECT_EQ(parse_arrivals("trace:a b").value().trace_file, "a b");
  for (const char* bad : {"", "Poisson", "trace:", "trace"}) {
    EXPECT_FALSE(parse_arrivals(bad).ok()) << bad;
  }
}

TEST(Trace, is_replayed_over_and_over) {
  Arrivals arrivals = Arrivals::replay(parse_trace("# us\n10\n20\n\n40\n").value(), 0);
  for (int64_t want_us : {0, 10, 30, 45, 55, 75, 90}) {
    EXPECT_EQ(arrivals.next(), Nanos::micros(want_us));
  }
}

TEST(Trace, is_stretched_to_the_rate) {
  Arrivals arrivals = Arrivals::replay(parse_trace("0\n10\n20\n30\n").value(), 1000);
  Nanos last;
  for (int i = 0; i <= 1000; ++i) last = arrivals.next();
  EXPECT_NEAR(last.seconds(), 1.0, 0.001);
}

TEST(Trace, bad_lines_are_named) {
  EXPECT_NE(parse_trace("1\nx\n").error().find("line 2"), std::string::npos);
  EXPECT_NE(parse_trace("5\n4\n").error().find("line 2"), std::string::npos);
  for (const char* bad : {"", "1", "1\n1\n", "# only\n"}) EXPECT_FALSE(parse_trace(bad).ok());
}

TEST(Arrivals, batches_come_together_and_have_their_mean_size) {
  Arrivals arrivals = Arrivals::generate(parse_arrivals("batch:4").value(), 1e6, 3);
  constexpr int kCount = 400'000;
  int batches = 0;
  Nanos last(-1);
  for (int i = 0; i < kCount; ++i) {
    const Nanos now = arrivals.next();
    batches += now != last;
    last = now;
  }
  EXPECT_NEAR(kCount / double(batches), 4, 0.05);
  EXPECT_NEAR(kCount / last.seconds() / 1e6, 1, 0.02);
}

// The index of dispersion of counts over intervals far longer than bursts; Poisson's is 1. With b
// the mean length of a burst, p the bursts' share of the time and d the difference of the two rates
// it tends to 1 + 2 d^2 p (1-p)^2 b / rate (Fischer and Meier-Hellstern, "The Markov-modulated
// Poisson process cookbook", 1993).
TEST(Arrivals, bursts_keep_the_rate_and_have_their_index_of_dispersion) {
  constexpr double kRate = 1e6, kShare = Arrivals::kBurstShare, kPeak = Arrivals::kPeak;
  Arrivals arrivals = Arrivals::generate(ArrivalShape::kBursty, kRate, 3);
  constexpr int kIntervals = 2000;  // of 10 ms: 10,000 requests on average
  std::vector<double> counts(kIntervals);
  for (Nanos at = arrivals.next(); at < Nanos::millis(10) * kIntervals; at = arrivals.next()) {
    counts[static_cast<size_t>(at.count() / 10'000'000)] += 1;
  }
  double sum = 0, squares = 0;
  for (double count : counts) sum += count, squares += count * count;
  const double mean = sum / kIntervals;
  EXPECT_NEAR(mean, 10'000, 150);
  const double quiet = (1 - kShare * kPeak) / (1 - kShare);
  const double difference = kRate * (kPeak - quiet);
  const double index = 1 + 2 * difference * difference * kShare * (1 - kShare) * (1 - kShare) *
                               Arrivals::kBurst.seconds() / kRate;
  EXPECT_NEAR(index, 241, 0.5);
  EXPECT_NEAR((squares / kIntervals - mean * mean) / mean / index, 1, 0.12);
}

TEST(Arrivals, longer_bursts_vary_more) {
  const auto most_in_a_millisecond = [](const char* text) {
    Arrivals arrivals = Arrivals::generate(parse_arrivals(text).value(), 1e5, 9);
    std::vector<int> counts(1000);
    for (Nanos at = arrivals.next(); at < Nanos::seconds(1); at = arrivals.next()) {
      ++counts[static_cast<size_t>(at.count() / 1'000'000)];
    }
    return *std::max_element(counts.begin(), counts.end());
  };
  EXPECT_GT(most_in_a_millisecond("bursty:10:10ms"), most_in_a_millisecond("bursty:2:10us") * 3);
}

TEST(Arrivals, parameters_are_read_and_checked) {
  EXPECT_EQ(parse_arrivals("batch:16")->parameter, 16);
  EXPECT_EQ(parse_arrivals("bursty")->parameter, 0);
  EXPECT_EQ(parse_arrivals("bursty:4")->parameter, 4);
  EXPECT_EQ(parse_arrivals("bursty:4:200us")->burst, Nanos::micros(200));
  for (const char* bad : {"batch:", "batch:0", "bursty:11", "bursty:x", "bursty:", "bursty:2:",
                          "bursty:2:0.5us", "bursty:2:2s", "batches", "poisson:2"}) {
    EXPECT_FALSE(parse_arrivals(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace rubato
