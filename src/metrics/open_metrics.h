// SPDX-License-Identifier: Apache-2.0
//
// OpenMetrics: writes the text that Prometheus scrapes (OpenMetrics 1.0). A value made per scrape;
// families are written one after another and samples of one family stay together, as the format
// asks. Names and label values are the caller's: names are [a-z0-9_], label values are escaped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "metrics/histogram.h"

namespace rubato {

class OpenMetrics {
 public:
  // Opens a family: `kind` is "counter", "gauge" or "histogram".
  void family(std::string_view name, std::string_view kind, std::string_view help);

  // A sample of the family opened last. `labels` is empty or like `type="get"` (see label()).
  void counter(uint64_t value, std::string_view labels = {});  // appends _total
  void gauge(double value, std::string_view labels = {});
  // Seconds, with one bucket per power of two from 1 us to 67 s.
  void histogram(const Histogram& values, std::string_view labels = {});

  // name="value" with the value escaped.
  static std::string label(std::string_view name, std::string_view value);

  // The whole exposition with its end mark.
  std::string finish() &&;

 private:
  void sample(std::string_view suffix, std::string_view labels, std::string_view value);

  std::string name_;
  std::string text_;
};

}  // namespace rubato
