// SPDX-License-Identifier: Apache-2.0
//
// Metrics and spans in the JSON encoding of OTLP 1 (opentelemetry-proto, collector/metrics/v1 and
// collector/trace/v1): 64-bit integers are texts, identifiers hexadecimal. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rubato::cli {

// Who tells.
struct OtlpResource {
  std::string service;  // "rubato-kv"
  std::string version;
  std::string instance;  // tells processes of one service apart
};

// A request that a server has ended. Times are nanoseconds since 1970.
struct OtlpSpan {
  uint64_t trace_high = 0, trace_low = 0, id = 0;  // not all zero
  std::string name;                                // its type
  int64_t start_ns = 0, end_ns = 0;                // arrived, replied
  int64_t service_ns = 0;                          // of it on workers
  uint64_t flow = 0;
  bool refused = false;
};

// The body of a POST to /v1/traces.
std::string otlp_traces(const OtlpResource& resource, const std::vector<OtlpSpan>& spans);

// The body of a POST to /v1/metrics, from an exposition as OpenMetrics writes it
// (metrics/open_metrics.h): counters since `start_ns`, gauges, histograms, summaries at `now_ns`.
std::string otlp_metrics(const OtlpResource& resource, std::string_view exposition,
                         int64_t start_ns, int64_t now_ns);

// What a collector that has taken a message (HTTP status 2xx) says it has refused of it.
struct OtlpPartial {
  uint64_t rejected = 0;  // spans, or points of metrics
  std::string why = {};
};

// Of the body of its reply; anything but such JSON says nothing.
OtlpPartial otlp_partial(std::string_view body);

}  // namespace rubato::cli
