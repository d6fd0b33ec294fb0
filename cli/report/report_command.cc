// SPDX-License-Identifier: Apache-2.0
//
// rubato report merge: reports of several runs as one, exactly.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/common/command_registry.h"
#include "cli/common/file_text.h"
#include "cli/common/output_file.h"
#include "cli/report/report_merge.h"
#include "cli/sim/sim_text.h"
#include "metrics/histogram_json.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ReportOptions {
  std::vector<std::string> files;
  std::string json_file, hdr_file;
};

constexpr const char* kNotes =
    "\nFILEs are all reports of `rubato sim` or `rubato load` with --json (runs, sweeps,\n"
    "comparisons) that differ in their seed, or all HdrHistogram logs (--hdr). Latencies are\n"
    "those of the merged histograms, as if one run had made all requests.\n"
    "Exit status: 0 done, 1 a file could not be written, 2 bad arguments.\n";

std::vector<NamedText> read_all(const ReportOptions& o) {
  std::vector<NamedText> files;
  for (const std::string& name : o.files) {
    std::optional<std::string> text = file_text(name);
    if (!text) bad_value("FILE", "cannot read '" + name + "'");
    files.push_back({name, std::move(*text)});
  }
  return files;
}

std::string row(const std::string& name, const Histogram& h) {
  const auto at = [&h](double percent) { return time_text(h.percentile(percent).micros()); };
  return fmt::format("{:<{}}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", name, kNameWidth,
                     h.count(), time_text(h.mean_ns() / 1e3), at(50), at(90), at(99), at(99.9),
                     at(99.99), at(100));
}

std::string header(const std::string& title) {
  return title + fmt::format("{:<{}}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "latency",
                             kNameWidth, "count", "mean", "p50", "p90", "p99", "p99.9", "p99.99",
                             "max");
}

std::string table_of(const std::vector<HdrInterval>& parts, const std::string& title) {
  std::string text = header(title);
  Histogram all;
  for (const HdrInterval& part : parts) {
    text += row(part.tag.empty() ? "(no tag)" : part.tag, part.histogram);
    all.merge(part.histogram);
  }
  return parts.size() > 1 ? text + row("all", all) : text;
}

// The histograms of a merged run, which has them.
std::vector<HdrInterval> parts_of(const Json& run) {
  std::vector<HdrInterval> parts;
  for (const Json& type : run["types"]) {
    const auto found = type.find("latency_histogram_ns");
    if (found == type.end()) continue;
    parts.push_back({type["name"].get<std::string>(), 0, 0, parse_histogram(*found).value()});
  }
  return parts;
}

Status write_results(const ReportOptions& o, const Json* report,
                     const std::vector<HdrInterval>& parts) {
  if (!o.json_file.empty() && report != nullptr) {
    const std::string text = report->dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (Status done = write_text(o.json_file, text); !done) return done;
  }
  if (o.hdr_file.empty()) return Done{};
  return write_text(o.hdr_file, hdr_log(parts));
}

int run_merge(const ReportOptions& o) {
  const std::vector<NamedText> files = read_all(o);
  const size_t start = files.front().text.find_first_not_of(" \t\r\n");
  const bool is_json = start != std::string::npos && files.front().text[start] == '{';
  std::FILE* const people = o.json_file == "-" || o.hdr_file == "-" ? stderr : stdout;
  std::vector<HdrInterval> parts;
  Json report;
  if (is_json) {
    Result<Json> merged = merge_reports(files);
    if (!merged) bad_value("FILE", merged.error());
    report = std::move(*merged);
    for (const Json& run : runs_of(report)) {
      std::vector<HdrInterval> of_run = parts_of(run);
      const std::string title =
          fmt::format("{}  {} requests of {} reports\n", run.value("policy", ""),
                      run["requests"].get<uint64_t>(), files.size());
      fmt::print(people, "{}", table_of(of_run, title));
      for (HdrInterval& part : of_run) parts.push_back(std::move(part));
    }
  } else {
    if (!o.json_file.empty()) bad_value("--json", "is for reports; HdrHistogram logs take --hdr");
    Result<std::vector<HdrInterval>> merged = merge_logs(files);
    if (!merged) bad_value("FILE", merged.error());
    parts = std::move(*merged);
    fmt::print(people, "{}", table_of(parts, ""));
  }
  const Status written = write_results(o, is_json ? &report : nullptr, parts);
  return written ? kDone : fail(written.error().c_str());
}

void add_merge(CommandLine& command) {
  auto options = std::make_shared<ReportOptions>();
  command.footer(kNotes);
  command.add_texts("FILE", options->files, "Reports, or HdrHistogram logs").required();
  command.add_text("--json", options->json_file, "Write the merged report; - is stdout")
      .placeholder("FILE");
  command.add_text("--hdr", options->hdr_file, "Write an HdrHistogram log, a tag for each type")
      .placeholder("FILE");
  command.action([options] { return run_merge(*options); });
}

const Command kMerge({"report", "merge", "Merge reports of several runs, exactly", add_merge});

}  // namespace
}  // namespace rubato::cli
