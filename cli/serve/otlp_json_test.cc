// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/otlp_json.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "metrics/open_metrics.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::json;

const OtlpResource kResource{"rubato-kv", "1.2", "here:7"};

TEST(OtlpJson, a_span_has_its_times_and_identifiers_as_texts) {
  const Json json = Json::parse(otlp_traces(
      kResource, {{.trace_high = 0x12, .trace_low = 0xabcd, .id = 0xf, .name = "get",
                   .start_ns = 1'800'000'000'000'000'001, .end_ns = 1'800'000'000'000'000'500,
                   .service_ns = 99, .flow = 5},
                  {.trace_low = 1, .id = 2, .name = "scan", .refused = true}}));
  const Json& of_resource = json.at("resourceSpans").at(0);
  EXPECT_EQ(of_resource["resource"]["attributes"][0],
            Json::parse(R"({"key": "service.name", "value": {"stringValue": "rubato-kv"}})"));
  const Json& spans = of_resource.at("scopeSpans").at(0).at("spans");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0]["traceId"], "0000000000000012000000000000abcd");
  EXPECT_EQ(spans[0]["spanId"], "000000000000000f");
  EXPECT_EQ(spans[0]["kind"], 2);
  EXPECT_EQ(spans[0]["startTimeUnixNano"], "1800000000000000001");
  EXPECT_EQ(spans[0]["endTimeUnixNano"], "1800000000000000500");
  EXPECT_EQ(spans[0]["attributes"][1],
            Json::parse(R"({"key": "rubato.wait_ns", "value": {"intValue": "400"}})"));
  EXPECT_FALSE(spans[0].contains("status"));
  EXPECT_EQ(spans[1]["status"]["code"], 2);
}

TEST(OtlpJson, metrics_are_those_of_the_exposition) {
  OpenMetrics out;
  out.family("requests", "counter", "Requests \"served\"");
  out.counter(7, OpenMetrics::label("type", "a\"b\\c,}d"));
  out.counter(8, OpenMetrics::label("type", "e") + "," + OpenMetrics::label("class", "short"));
  out.family("depth", "gauge", "Depth");
  out.gauge(2.5);
  Histogram histogram;
  histogram.record(Nanos::micros(3));
  histogram.record(Nanos::micros(3));
  histogram.record(Nanos::seconds(100));
  out.family("latency_seconds", "histogram", "Latency");
  out.histogram(histogram, OpenMetrics::label("type", "get"));
  out.family("service_seconds", "summary", "Service");
  out.summary(histogram);
  out.family("nothing", "gauge", "Without samples");
  const Json json = Json::parse(otlp_metrics(kResource, std::move(out).finish(), 100, 200));
  std::map<std::string, Json> metrics;
  for (const Json& metric : json.at("resourceMetrics").at(0).at("scopeMetrics").at(0).at(
           "metrics")) {
    metrics[metric.at("name").get<std::string>()] = metric;
  }
  EXPECT_EQ(metrics.size(), 4u);
  const Json& sum = metrics.at("requests").at("sum");
  EXPECT_EQ(sum["isMonotonic"], true);
  EXPECT_EQ(sum["aggregationTemporality"], 2);
  EXPECT_EQ(sum["dataPoints"][0]["asDouble"], 7.0);
  EXPECT_EQ(sum["dataPoints"][0]["startTimeUnixNano"], "100");
  EXPECT_EQ(sum["dataPoints"][0]["timeUnixNano"], "200");
  EXPECT_EQ(sum["dataPoints"][0]["attributes"][0]["value"]["stringValue"], "a\"b\\c,}d");
  EXPECT_EQ(sum["dataPoints"][1]["attributes"].size(), 2u);
  EXPECT_EQ(metrics.at("depth")["gauge"]["dataPoints"][0]["asDouble"], 2.5);
  const Json& points = metrics.at("latency_seconds").at("histogram").at("dataPoints");
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0]["count"], "3");
  EXPECT_EQ(points[0]["attributes"].size(), 1u);
  // One more count than bounds; together they are all.
  const Json& counts = points[0]["bucketCounts"];
  EXPECT_EQ(counts.size(), points[0]["explicitBounds"].size() + 1);
  int all = 0;
  for (const Json& count : counts) all += std::stoi(count.get<std::string>());
  EXPECT_EQ(all, 3);
  EXPECT_EQ(counts.back(), "1");
  EXPECT_EQ(metrics.at("service_seconds")["summary"]["dataPoints"][0]["count"], "3");
}

TEST(OtlpJson, a_part_that_a_collector_refuses_is_read) {
  const OtlpPartial spans = otlp_partial(
      R"({"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}})");
  EXPECT_EQ(spans.rejected, 3u);
  EXPECT_EQ(spans.why, "too old");
  EXPECT_EQ(otlp_partial(R"({"partialSuccess": {"rejectedDataPoints": 7}})").rejected, 7u);
  for (const char* nothing : {"", "{}", "[1]", "no JSON", R"({"partialSuccess": {}})",
                              R"({"partialSuccess": 5})",
                              R"({"partialSuccess": {"rejectedSpans": "-3"}})",
                              R"({"partialSuccess": {"errorMessage": "a warning"}})"}) {
    EXPECT_EQ(otlp_partial(nothing).rejected, 0u) << nothing;
    EXPECT_EQ(otlp_partial(nothing).why, "") << nothing;
  }
}

}  // namespace
}  // namespace rubato::cli
