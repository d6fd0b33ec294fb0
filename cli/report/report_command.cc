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
#include "cli/report/merge_table.h"
#include "cli/report/report_merge.h"

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
    "those of the merged histograms, as if one run had made all requests, with half of the\n"
    "95 % interval that the differences between the reports give (? = they do not tell). The\n"
    "verdict is the worst of theirs. No simulated seed is taken twice: what was merged keeps\n"
    "its list of them.\n"
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
      fmt::print(people, "{}", merged_table(run));
      for (HdrInterval& part : histograms_in(run)) parts.push_back(std::move(part));
    }
  } else {
    if (!o.json_file.empty()) bad_value("--json", "is for reports; HdrHistogram logs take --hdr");
    Result<std::vector<HdrInterval>> merged = merge_logs(files);
    if (!merged) bad_value("FILE", merged.error());
    parts = std::move(*merged);
    fmt::print(people, "{}", log_table(parts));
  }
  const Status written = write_results(o, is_json ? &report : nullptr, parts);
  return written ? kDone : fail(written.error().c_str());
}

void add_merge(CommandLine& command) {
  auto options = std::make_shared<ReportOptions>();
  command.footer(kNotes);
  command.add_texts("FILE", options->files, "Reports, or HdrHistogram logs").required();
  command.add_output("--json", options->json_file, "Write the merged report; - is stdout");
  command.add_output("--hdr", options->hdr_file, "Write an HdrHistogram log, a tag for each type");
  command.action([options] { return run_merge(*options); });
}

const Command kMerge({"report", "merge", "Merge reports of several runs, exactly", add_merge});

}  // namespace
}  // namespace rubato::cli
