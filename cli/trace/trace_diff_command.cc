// SPDX-License-Identifier: Apache-2.0
//
// rubato trace diff: what two traces of workers, such as a live and a simulated one, say of waits,
// slices and queues, beside each other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/common/command_registry.h"
#include "cli/common/mapped_file.h"
#include "cli/common/output_file.h"
#include "cli/common/value_flags.h"
#include "cli/trace/trace_summary.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNotes =
    "\nA and B are traces of `rubato serve --trace` or `rubato sim --trace`. Requests count that\n"
    "arrived and ended within the trace. 'wait' is up to the first slice, 'waits' all the time\n"
    "without a worker; 'cuts' are slices after which another request went on. A figure that one\n"
    "of the traces does not have is '-'. Times that differ by 10 us or less, as clocks and\n"
    "interrupts make them, are within each --tolerance.\n"
    "Exit status: 0 done, 1 a figure differs by more than --tolerance, or the report could not be\n"
    "written, 2 bad arguments.\n";

constexpr double kFloorUs = 10;

// One figure of both traces; none = the trace does not have it.
struct Figure {
  std::string name;
  std::optional<double> a, b;
  bool compared = true;  // held to --tolerance
};

struct Group {
  std::string kind, name;
  std::vector<Figure> figures;
};

struct DiffOptions {
  std::vector<std::string> files;
  std::string json_file;
  double tolerance_percent = -1;  // none
};

TraceSummary read_trace(const std::string& name) {
  const auto file = MappedFile::open(name);
  if (!file.ok()) bad_value("TRACE", file.error());
  Result<TraceSummary> summary = summarize_trace(file.value()->bytes());
  if (!summary.ok()) bad_value("TRACE", "'" + name + "' " + summary.error());
  return std::move(*summary);
}

template <class T>
const T* find(const std::map<std::string, T>& all, const std::string& name) {
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

template <class T>
std::set<std::string> names_of(const std::map<std::string, T>& a,
                               const std::map<std::string, T>& b) {
  std::set<std::string> names;
  for (const auto& entry : a) names.insert(entry.first);
  for (const auto& entry : b) names.insert(entry.first);
  return names;
}

// Adds the figure that `of` makes of either.
template <class T, class F>
void add(Group& group, const char* name, const T* a, const T* b, bool compared, F of) {
  const auto value = [&of](const T* one) -> std::optional<double> {
    if (one == nullptr) return std::nullopt;
    return of(*one);
  };
  group.figures.push_back({name, value(a), value(b), compared});
}

double per_request(uint64_t count, const TraceSummary::Type& type) {
  return type.requests() == 0 ? 0
                              : static_cast<double>(count) / static_cast<double>(type.requests());
}

Group group_of(const std::string& name, const TraceSummary::Type* a,
                   const TraceSummary::Type* b) {
  using Type = TraceSummary::Type;
  Group group{"type", name, {}};
  add(group, "requests", a, b, false,
      [](const Type& t) { return static_cast<double>(t.requests()); });
  add(group, "wait_mean_us", a, b, true, [](const Type& t) { return t.wait.mean_ns() / 1e3; });
  add(group, "wait_p50_us", a, b, true,
      [](const Type& t) { return t.wait.percentile(50).micros(); });
  add(group, "wait_p99_us", a, b, true,
      [](const Type& t) { return t.wait.percentile(99).micros(); });
  add(group, "waits_mean_us", a, b, true, [](const Type& t) { return t.waits.mean_ns() / 1e3; });
  add(group, "waits_p99_us", a, b, true,
      [](const Type& t) { return t.waits.percentile(99).micros(); });
  add(group, "service_mean_us", a, b, true,
      [](const Type& t) { return t.service.mean_ns() / 1e3; });
  add(group, "slices_per_request", a, b, true,
      [](const Type& t) { return per_request(t.slices, t); });
  add(group, "cuts_per_request", a, b, true,
      [](const Type& t) { return per_request(t.cuts, t); });
  return group;
}

std::vector<Group> compare(const TraceSummary& a, const TraceSummary& b) {
  std::vector<Group> groups;
  for (const std::string& name : names_of(a.types, b.types)) {
    groups.push_back(group_of(name, find(a.types, name), find(b.types, name)));
  }
  for (const std::string& name : names_of(a.workers, b.workers)) {
    using Worker = TraceSummary::Worker;
    Group group{"worker", name, {}};
    const Worker *of_a = find(a.workers, name), *of_b = find(b.workers, name);
    add(group, "busy", of_a, of_b, true, [](const Worker& w) { return w.busy; });
    add(group, "slices", of_a, of_b, false,
        [](const Worker& w) { return static_cast<double>(w.slices); });
    groups.push_back(std::move(group));
  }
  for (const std::string& name : names_of(a.queues, b.queues)) {
    using Queue = TraceSummary::Queue;
    Group group{"queue", name, {}};
    const Queue *of_a = find(a.queues, name), *of_b = find(b.queues, name);
    // A simulated trace names queues once something waits there, a live one names all.
    const auto empty = [](const Queue* q) { return q == nullptr || q->most == 0; };
    if (empty(of_a) && empty(of_b)) continue;
    add(group, "mean", of_a, of_b, true, [](const Queue& q) { return q.mean; });
    add(group, "most", of_a, of_b, false,
        [](const Queue& q) { return static_cast<double>(q.most); });
    groups.push_back(std::move(group));
  }
  return groups;
}

// In percent of the larger one.
double difference(const Figure& figure) {
  if (!figure.a || !figure.b) return figure.a || figure.b ? 100 : 0;
  const double larger = std::max(*figure.a, *figure.b);
  return larger > 0 ? std::abs(*figure.a - *figure.b) / larger * 100 : 0;
}

std::string cell(const std::optional<double>& value) {
  if (!value) return "-";
  if (*value == std::floor(*value) && *value < 1e9) return fmt::format("{:.0f}", *value);
  return *value < 10 ? fmt::format("{:.3f}", *value) : fmt::format("{:.1f}", *value);
}

std::string row(const Figure& figure) {
  const bool has_ratio = figure.a && figure.b && *figure.a > 0;
  return fmt::format("  {:<22}{:>14}{:>14}{:>10}\n", figure.name, cell(figure.a), cell(figure.b),
                     has_ratio ? fmt::format("{:.2f}", *figure.b / *figure.a) : "-");
}

std::string title_of(const char* letter, const std::string& name, const TraceSummary& trace) {
  return fmt::format("{}  {}: {:.3f} s{}\n", letter, name, trace.length_us / 1e6,
                     trace.left_out == 0 ? ""
                                         : fmt::format(", {} events left out", trace.left_out));
}

std::string table_of(const std::vector<Group>& groups) {
  std::string text = fmt::format("{:<24}{:>14}{:>14}{:>10}\n", "", "A", "B", "B/A");
  for (const Group& group : groups) {
    text += group.kind + " " + group.name + "\n";
    for (const Figure& figure : group.figures) text += row(figure);
  }
  return text;
}

Json json_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json trace_json(const std::string& name, const TraceSummary& trace) {
  return {{"file", name}, {"length_us", trace.length_us}, {"events_left_out", trace.left_out}};
}

Json report_of(const DiffOptions& o, const TraceSummary& a, const TraceSummary& b,
               const std::vector<Group>& groups) {
  Json report = {{"schema", "rubato.trace_diff/1"},
                 {"a", trace_json(o.files[0], a)},
                 {"b", trace_json(o.files[1], b)},
                 {"types", Json::array()},
                 {"workers", Json::array()},
                 {"queues", Json::array()}};
  for (const Group& group : groups) {
    Json one = {{"name", group.name}};
    for (const Figure& figure : group.figures) {
      one[figure.name] = {{"a", json_of(figure.a)}, {"b", json_of(figure.b)}};
    }
    report[group.kind + "s"].push_back(std::move(one));
  }
  return report;
}

// "A" or "B" = nothing of it is in the other trace; empty = it is in both.
std::string only_in(const Group& group) {
  bool in_a = false, in_b = false;
  for (const Figure& figure : group.figures) {
    in_a |= figure.a.has_value();
    in_b |= figure.b.has_value();
  }
  return in_a && in_b ? "" : in_a ? "A" : "B";
}

bool is_beyond(const Figure& figure, double tolerance_percent) {
  if (!figure.compared || difference(figure) <= tolerance_percent) return false;
  const bool both = figure.a && figure.b;
  return !both || !figure.name.ends_with("_us") || std::abs(*figure.a - *figure.b) > kFloorUs;
}

// A line for each figure beyond the tolerance, and for what is in one trace only.
std::vector<std::string> beyond(const DiffOptions& o, const std::vector<Group>& groups) {
  std::vector<std::string> lines;
  if (o.tolerance_percent < 0) return lines;
  for (const Group& group : groups) {
    if (const std::string letter = only_in(group); !letter.empty()) {
      lines.push_back(fmt::format("{} {}: is in {} only", group.kind, group.name, letter));
      continue;
    }
    for (const Figure& figure : group.figures) {
      if (!is_beyond(figure, o.tolerance_percent)) continue;
      lines.push_back(fmt::format("{} {}: {} is {} and {}, {:.1f} % apart", group.kind,
                                  group.name, figure.name, cell(figure.a), cell(figure.b),
                                  difference(figure)));
    }
  }
  return lines;
}

int run_diff(const DiffOptions& o) {
  if (o.files.size() != 2) bad_value("TRACE", "takes two traces");
  const TraceSummary a = read_trace(o.files[0]);
  const TraceSummary b = read_trace(o.files[1]);
  const std::vector<Group> groups = compare(a, b);
  std::FILE* const people = o.json_file == "-" ? stderr : stdout;
  fmt::print(people, "{}{}\n{}", title_of("A", o.files[0], a), title_of("B", o.files[1], b),
             table_of(groups));
  if (!o.json_file.empty()) {
    const std::string text =
        report_of(o, a, b, groups).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (const Status written = write_text(o.json_file, text); !written) {
      return fail(written.error().c_str());
    }
  }
  const std::vector<std::string> apart = beyond(o, groups);
  for (const std::string& line : apart) fmt::print(stderr, "rubato: {}\n", line);
  return apart.empty() ? kDone : kFailed;
}

void add_diff(CommandLine& command) {
  auto options = std::make_shared<DiffOptions>();
  command.footer(kNotes);
  command.add_texts("TRACE", options->files, "Two traces, A and B").required();
  command.add_output("--json", options->json_file, "Write the figures; - is stdout");
  command.add_parsed("--tolerance", "PERCENT",
                     [options](const std::string& text) -> Status {
                       const std::optional<double> percent = parse_number(text);
                       if (!percent || *percent < 0 || *percent > 100) {
                         return Error{"takes a percentage of 0 to 100, not '" + text + "'"};
                       }
                       options->tolerance_percent = *percent;
                       return Done{};
                     },
                     "Exit status 1 if waits, service, slices, cuts, queues or workers differ by "
                     "more, in percent of the larger figure");
  command.action([options] { return run_diff(*options); });
}

const Command kDiff({"trace", "diff", "Compare two traces of workers", add_diff});

}  // namespace
}  // namespace rubato::cli
