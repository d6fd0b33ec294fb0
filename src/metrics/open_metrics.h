// SPDX-License-Identifier: Apache-2.0
//
// OpenMetrics: writes the text that Prometheus scrapes, as OpenMetrics 1.0 or as the older text
// format 0.0.4, for those who do not ask for the former. A value made per scrape; families are
// written one after another and samples of one family stay together, as both formats ask. Names and
// label values are the caller's: names are [a-z0-9_] with their unit at the end, label values are
// escaped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "metrics/histogram.h"

namespace rubato {

enum class MetricsFormat : uint8_t { kOpenMetrics, kText };
enum class MetricsDetail : uint8_t { kBrief, kFull };  // kBrief: few kB, whatever the server does

class OpenMetrics {
 public:
  explicit OpenMetrics(MetricsFormat format = MetricsFormat::kOpenMetrics,
                       MetricsDetail detail = MetricsDetail::kFull)
      : format_(format), detail_(detail) {}

  bool brief() const { return detail_ == MetricsDetail::kBrief; }

  // Opens a family: `kind` is "counter", "gauge", "histogram" or "summary". The name of a counter
  // is without _total.
  void family(std::string_view name, std::string_view kind, std::string_view help);

  // A sample of the family opened last. `labels` is empty or like `type="get"` (see label()).
  void counter(uint64_t value, std::string_view labels = {});  // appends _total
  void counter_seconds(double value, std::string_view labels = {});  // likewise
  void gauge(double value, std::string_view labels = {});
  // Seconds, with one bucket per power of two from 1 us to 67 s; in brief, per power of four from
  // 4 us to 17 s.
  void histogram(const Histogram& values, std::string_view labels = {});
  // Seconds: sum and count.
  void summary(const Histogram& values, std::string_view labels = {});

  // name="value" with the value escaped.
  static std::string label(std::string_view name, std::string_view value);

  // The whole exposition with its end mark.
  std::string finish() &&;

  static const char* content_type(MetricsFormat format);

 private:
  void sample(std::string_view suffix, std::string_view labels, std::string_view value);

  const MetricsFormat format_;
  const MetricsDetail detail_;
  std::string name_;
  std::string text_;
};

}  // namespace rubato
