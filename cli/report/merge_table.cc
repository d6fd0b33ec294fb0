// SPDX-License-Identifier: Apache-2.0
#include "cli/report/merge_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/sim/sim_text.h"
#include "metrics/histogram_json.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLeastWidth = 10;
constexpr size_t kGap = 2;
constexpr size_t kMostSeeds = 10;  // that a title names
constexpr std::array kTitles = {"mean", "p50", "p90", "p99", "p99.9", "p99.99"};
constexpr std::array kKeys = {"mean", "p50", "p90", "p99", "p999", "p9999"};

struct Row {
  std::string name;
  uint64_t count = 0;
  std::vector<std::string> cells;
  std::string max;
};

// `confidence`: of a report; null = nothing is known of intervals, which are left out then.
Row row_of(const std::string& name, const Histogram& h, const std::string& at,
           const Json* confidence) {
  const double figures[] = {h.mean_ns() / 1e3,           h.percentile(50).micros(),
                            h.percentile(90).micros(),   h.percentile(99).micros(),
                            h.percentile(99.9).micros(), h.percentile(99.99).micros()};
  Row row{name, h.count(), {}, time_text(h.max().micros())};
  for (size_t i = 0; i < kKeys.size(); ++i) {
    if (confidence == nullptr) {
      row.cells.push_back(time_text(figures[i]));
      continue;
    }
    const Json::json_pointer path(at + "/latency_us/" + kKeys[i]);
    const bool known = confidence->contains(path) && (*confidence)[path].is_number();
    const double half_width = known ? (*confidence)[path].get<double>()
                                    : std::numeric_limits<double>::infinity();
    row.cells.push_back(with_interval(figures[i], half_width, time_text));
  }
  return row;
}

std::string text_of(const std::vector<Row>& rows) {
  size_t width = kLeastWidth;
  for (const Row& row : rows) {
    for (const std::string& cell : row.cells) width = std::max(width, cell.size() + kGap);
  }
  std::string text = fmt::format("{:<{}}{:>12}", "latency", kNameWidth, "count");
  for (const char* title : kTitles) text += fmt::format("{:>{}}", title, width);
  text += fmt::format("{:>{}}\n", "max", kLeastWidth);
  for (const Row& row : rows) {
    text += fmt::format("{:<{}}{:>12}", row.name, kNameWidth, row.count);
    if (row.count == 0) {
      text += "   none was measured\n";
      continue;
    }
    for (const std::string& cell : row.cells) text += fmt::format("{:>{}}", cell, width);
    text += fmt::format("{:>{}}\n", row.max, kLeastWidth);
  }
  return text;
}

std::string table_of(const std::vector<HdrInterval>& parts, const Json* confidence) {
  std::vector<Row> rows;
  std::vector<std::string> names;
  Histogram all;
  for (size_t i = 0; i < parts.size(); ++i) {
    const HdrInterval& part = parts[i];
    rows.push_back(row_of(part.tag.empty() ? "(no tag)" : part.tag, part.histogram,
                          fmt::format("/types/{}", i), confidence));
    names.push_back(part.tag);
    all.merge(part.histogram);
  }
  if (parts.size() > 1) rows.push_back(row_of(name_of_all(names), all, "", confidence));
  return text_of(rows);
}

// "seeds 1, 2, 5 to 8".
std::string seeds_text(const Json& parts) {
  std::string text = parts.size() == 1 && parts[0]["seeds"] == 1 ? "seed " : "seeds ";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == kMostSeeds) return text + " and others";
    const auto first = parts[i]["seed"].get<uint64_t>(), seeds = parts[i]["seeds"].get<uint64_t>();
    text += fmt::format("{}{}", i == 0 ? "" : ", ", first);
    if (seeds > 1) text += fmt::format(" to {}", first + seeds - 1);
  }
  return text;
}

std::string title_of(const Json& run) {
  const Json load = run.value("load", Json());
  const std::string at = load.is_number()
                             ? fmt::format("load {:.4g}", load.get<double>())
                             : rate_text(run["offered_rps"].get<double>()) + " offered";
  const size_t reports = run["parts"].size();
  return fmt::format("{}  {}  {} requests of {} report{}, {}\n", run.value("policy", ""), at,
                     run["requests"].get<uint64_t>(), reports, reports == 1 ? "" : "s",
                     seeds_text(run["parts"]));
}

std::string verdict_of(const Json& run, const std::vector<HdrInterval>& parts) {
  uint64_t overflows = 0;
  for (const HdrInterval& part : parts) overflows += part.histogram.overflow();
  std::string text = overflow_line(overflows);
  if (run.contains("verdict")) {
    const auto reasons = run.value("verdict_reasons", std::vector<std::string>());
    text += verdict_text(run["verdict"].get<std::string>(), reasons) + "\n";
  }
  if (!run["valid"].get<bool>()) text += invalid_text(run.value("invalid_reason", ""));
  return text;
}

}  // namespace

std::vector<HdrInterval> histograms_in(const Json& run) {
  std::vector<HdrInterval> parts;
  for (const Json& type : run["types"]) {
    const auto found = type.find("latency_histogram_ns");
    parts.push_back({type["name"].get<std::string>(), 0, 0,
                     found == type.end() ? Histogram() : parse_histogram(*found).value()});
  }
  return parts;
}

std::string merged_table(const Json& run) {
  const std::vector<HdrInterval> parts = histograms_in(run);
  return title_of(run) + table_of(parts, &run["confidence"]) + verdict_of(run, parts);
}

std::string log_table(const std::vector<HdrInterval>& log) { return table_of(log, nullptr); }

}  // namespace rubato::cli
