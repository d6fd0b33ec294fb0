// SPDX-License-Identifier: Apache-2.0
#include "metrics/open_metrics.h"

#include <cstdio>
#include <utility>

namespace rubato {
namespace {

constexpr int64_t kFirstBucketNs = 1'000;
constexpr int kBuckets = 27;

std::string number(double value) {
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%.9g", value);
  return {text, static_cast<size_t>(length)};
}

std::string with(std::string_view labels, const std::string& more) {
  return labels.empty() ? more : std::string(labels) + "," + more;
}

}  // namespace

void OpenMetrics::family(std::string_view name, std::string_view kind, std::string_view help) {
  name_ = name;
  text_ += "# TYPE " + name_ + " " + std::string(kind) + "\n";
  text_ += "# HELP " + name_ + " " + std::string(help) + "\n";
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

void OpenMetrics::gauge(double value, std::string_view labels) {
  sample("", labels, number(value));
}

void OpenMetrics::histogram(const Histogram& values, std::string_view labels) {
  for (int i = 0; i < kBuckets; ++i) {
    const Nanos bound(kFirstBucketNs << i);
    sample("_bucket", with(labels, label("le", number(bound.seconds()))),
           std::to_string(values.count_at_most(bound)));
  }
  sample("_bucket", with(labels, label("le", "+Inf")), std::to_string(values.count()));
  sample("_sum", labels, number(values.sum_ns() / 1e9));
  sample("_count", labels, std::to_string(values.count()));
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
  text_ += "# EOF\n";
  return std::move(text_);
}

}  // namespace rubato
