// SPDX-License-Identifier: Apache-2.0
#include "workload/arrivals.h"

#include <gtest/gtest.h>

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
  Arrivals arrivals = Arrivals::generate(ArrivalShape::kBatch, 1e6, 3, 4);
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

// Counts in intervals far shorter than a burst vary more than Poisson's, whose index is 1.
TEST(Arrivals, bursts_keep_the_rate_and_are_overdispersed) {
  Arrivals arrivals = Arrivals::generate(ArrivalShape::kBursty, 1e6, 3, 5);
  constexpr int kIntervals = 200'000;  // of 100 us: 100 requests on average
  std::vector<double> counts(kIntervals);
  for (Nanos at = arrivals.next(); at < Nanos::micros(100) * kIntervals; at = arrivals.next()) {
    counts[static_cast<size_t>(at.count() / 100'000)] += 1;
  }
  double sum = 0, squares = 0;
  for (double count : counts) sum += count, squares += count * count;
  const double mean = sum / kIntervals;
  EXPECT_NEAR(mean, 100, 4);
  EXPECT_GT((squares / kIntervals - mean * mean) / mean, 50);
  EXPECT_LT((squares / kIntervals - mean * mean) / mean, 250);
}

TEST(Arrivals, parameters_are_read_and_checked) {
  EXPECT_EQ(parse_arrivals("batch:16")->parameter, 16);
  EXPECT_EQ(parse_arrivals("bursty")->parameter, 0);
  for (const char* bad : {"batch:", "batch:0", "bursty:11", "bursty:x", "batches", "poisson:2"}) {
    EXPECT_FALSE(parse_arrivals(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace rubato
