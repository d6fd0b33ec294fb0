// SPDX-License-Identifier: Apache-2.0
#include "metrics/open_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rubato {
namespace {

TEST(OpenMetrics, counter_is_named_total_and_the_text_ends_with_eof) {
  OpenMetrics out;
  out.family("rubato_requests", "counter", "Requests finished.");
  out.counter(42);
  EXPECT_EQ(std::move(out).finish(),
            "# HELP rubato_requests Requests finished.\n"
            "# TYPE rubato_requests counter\n"
            "rubato_requests_total 42\n"
            "# EOF\n");
}

TEST(OpenMetrics, the_older_format_names_a_counter_like_its_sample_and_has_no_end) {
  OpenMetrics out(MetricsFormat::kText);
  out.family("rubato_busy_seconds", "counter", "Time.");
  out.counter_seconds(0.5);
  EXPECT_EQ(std::move(out).finish(),
            "# HELP rubato_busy_seconds_total Time.\n"
            "# TYPE rubato_busy_seconds_total counter\n"
            "rubato_busy_seconds_total 0.5\n");
}

TEST(OpenMetrics, a_brief_histogram_has_fewer_buckets_with_the_same_counts) {
  Histogram values;
  values.record(Nanos::micros(3));
  values.record(Nanos::millis(3));
  OpenMetrics out(MetricsFormat::kOpenMetrics, MetricsDetail::kBrief);
  out.family("latency_seconds", "histogram", "Time.");
  out.histogram(values);
  const std::string text = std::move(out).finish();
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 20);
  for (const char* line : {"latency_seconds_bucket{le=\"4e-06\"} 1\n",
                           "latency_seconds_bucket{le=\"16.777216\"} 2\n",
                           "latency_seconds_bucket{le=\"+Inf\"} 2\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

TEST(OpenMetrics, label_values_are_escaped) {
  EXPECT_EQ(OpenMetrics::label("peer", "a\"b\\c\nd"), "peer=\"a\\\"b\\\\c\\nd\"");
}

TEST(OpenMetrics, histogram_buckets_are_cumulative_and_end_at_the_count) {
  Histogram values;
  values.record(Nanos::micros(3));
  values.record(Nanos::millis(3));
  OpenMetrics out;
  out.family("latency_seconds", "histogram", "Time.");
  out.histogram(values, OpenMetrics::label("type", "get"));
  const std::string text = std::move(out).finish();
  EXPECT_NE(text.find("latency_seconds_bucket{type=\"get\",le=\"2e-06\"} 0\n"), std::string::npos);
  EXPECT_NE(text.find("latency_seconds_bucket{type=\"get\",le=\"4e-06\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("latency_seconds_bucket{type=\"get\",le=\"+Inf\"} 2\n"), std::string::npos);
  EXPECT_NE(text.find("latency_seconds_count{type=\"get\"} 2\n"), std::string::npos);
}

}  // namespace
}  // namespace rubato
