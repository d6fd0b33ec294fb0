// SPDX-License-Identifier: Apache-2.0
#include "metrics/open_metrics.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

TEST(OpenMetrics, counter_is_named_total_and_the_text_ends_with_eof) {
  OpenMetrics out;
  out.family("rubato_requests", "counter", "Requests finished.");
  out.counter(42);
  EXPECT_EQ(std::move(out).finish(),
            "# TYPE rubato_requests counter\n"
            "# HELP rubato_requests Requests finished.\n"
            "rubato_requests_total 42\n"
            "# EOF\n");
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
