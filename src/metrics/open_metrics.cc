// SPDX-License-Identifier: Apache-2.0
#include "metrics/open_metrics.h"

#include <cstdio>
#include <utility>

namespace rubato {
namespace {

constexpr int64_t kFirstBucketNs = 1'000;
constexpr int kBuckets = 27;
constexpr int kFirstBrief = 2;
constexpr int kBriefBuckets = 25;

std::string number(double value) {
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%.12g", value);
  return {text, static_cast<size_t>(length)};
}

std::string with(std::string_view labels, const std::string& more) {
  return labels.empty() ? more : std::string(labels) + "," + more;
}

}  // namespace

void OpenMetrics::family(std::string_view name, std::string_view kind, std::string_view help) {
  name_ = name;
  // The older format gives a counter the name of its sample.
  const bool older_counter = format_ == MetricsFormat::kText && kind == "counter";
  const std::string named = name_ + (older_counter ? "_total" : "");
  text_ += "# HELP " + named + " " + std::string(help) + "\n";
  text_ += "# TYPE " + named + " " + std::string(kind) + "\n";
}

void OpenMetrics::sample(std::string_view suffix, std::string_view labels,
                         std::string_view value) {
  text_ += name_;
  text_ += suffix;
  if (!labels.empty()) (text_ += '{').append(labels) += '}';
  (text_ += ' ').append(value) += '\n';
}

void OpenMetrics::counter(uint64_t value, std::string_view labels) {
  sample("_total", labels, std::to_string(value));
}

void OpenMetrics::counter_seconds(double value, std::string_view labels) {
  sample("_total", labels, number(value));
}

void OpenMetrics::gauge(double value, std::string_view labels) {
  sample("", labels, number(value));
}

void OpenMetrics::histogram(const Histogram& values, std::string_view labels) {
  const int end = brief() ? kBriefBuckets : kBuckets;
  for (int i = brief() ? kFirstBrief : 0; i < end; i += brief() ? 2 : 1) {
    const Nanos bound(kFirstBucketNs << i);
    sample("_bucket", with(labels, label("le", number(bound.seconds()))),
           std::to_string(values.count_at_most(bound)));
  }
  sample("_bucket", with(labels, label("le", "+Inf")), std::to_string(values.count()));
  summary(values, labels);
}

void OpenMetrics::summary(const Histogram& values, std::string_view labels) {
  sample("_sum", labels, number(values.sum_ns() / 1e9));
  sample("_count", labels, std::to_string(values.count()));
}

const char* OpenMetrics::content_type(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

std::string OpenMetrics::label(std::string_view name, std::string_view value) {
  std::string text = std::string(name) + "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string OpenMetrics::finish() && {
  if (format_ == MetricsFormat::kOpenMetrics) text_ += "# EOF\n";
  return std::move(text_);
}

}  // namespace rubato
