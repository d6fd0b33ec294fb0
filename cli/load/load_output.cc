// SPDX-License-Identifier: Apache-2.0
#include "cli/load/load_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cli/common/output_file.h"
#include "metrics/hdr_log.h"

namespace rubato::cli {
namespace {

// Three significant digits in the unit that suits.
std::string time_text(double us) {
  if (us >= 1e6) return fmt::format("{:.2f}s", us / 1e6);
  if (us >= 1e5) return fmt::format("{:.0f}ms", us / 1e3);
  if (us >= 1e4) return fmt::format("{:.1f}ms", us / 1e3);
  if (us >= 1e3) return fmt::format("{:.2f}ms", us / 1e3);
  if (us >= 100) return fmt::format("{:.0f}us", us);
  return fmt::format("{:.1f}us", us);
}

std::string row(std::string_view name, uint64_t count, const LatencySummary& l) {
  std::string text = fmt::format("{:<14}{:>10}", name, count);
  for (double us : {l.mean_us, l.p50_us, l.p90_us, l.p99_us, l.p999_us, l.max_us}) {
    text += fmt::format("{:>9}", count > 0 ? time_text(us) : "-");
  }
  return text;
}

// The failures of a type, or of the whole run.
template <class Counts>
std::string failures(const Counts& c) {
  return fmt::format("{:>9}{:>8}{:>8}\n", c.refused, c.errors, c.lost);
}

std::string slowdown_lines(const RunReport& report) {
  std::string text;
  for (const TypeReport& type : report.types) {
    if (!type.slowdown) continue;
    text += fmt::format("slowdown of {:<12} mean {:.1f}  p50 {:.1f}  p99 {:.1f}  p99.9 {:.1f}\n",
                        type.name, type.slowdown->mean, type.slowdown->p50, type.slowdown->p99,
                        type.slowdown->p999);
  }
  return text;
}

std::string noise_line(const RunReport& report) {
  std::string text;
  if (report.send_lag) {
    text += fmt::format("send lag p99 {}, max {}; ", time_text(report.send_lag->p99_us),
                        time_text(report.send_lag->max_us));
  }
  const NoiseReport noise = report.noise.value_or(NoiseReport{});
  text += fmt::format("noise: {:.1f} gaps over 100 us per second, longest {}",
                      noise.over_100us_per_s, time_text(noise.max_gap_us));
  if (noise.steal_percent)
    text += fmt::format(", {:.1f} % of CPU time stolen", *noise.steal_percent);
  return text + "\n";
}

// The requests that were never sent and so are in no row of the table.
std::string unsent_line(const RunReport& report) {
  if (!report.unsent) return "";
  const auto [expired, overflowed, withheld] = *report.unsent;
  const uint64_t all = expired + overflowed + withheld;
  const auto requests = static_cast<double>(std::max<uint64_t>(report.requests, 1));
  std::string text = fmt::format("never sent by the clients, for want of credit: {} ({:.1f} %): {} "
                                 "expired, {} overflowed",
                                 all, 100.0 * static_cast<double>(all) / requests, expired,
                                 overflowed);
  if (withheld > 0) text += fmt::format(", {} withheld by their level", withheld);
  return text + "\n";
}

std::string servers_line(const RunReport& report) {
  if (report.servers.empty()) return "";
  std::string text = "replies by server:";
  for (const ServerReplies& server : report.servers) {
    text += fmt::format(" {} {}", server.name, server.count);
  }
  return text + "\n";
}

// The undisturbed figures, printed beside the table and never in its place.
std::string undisturbed_lines(const RunReport& report) {
  if (!report.undisturbed) return "";
  const UndisturbedReport& u = *report.undisturbed;
  std::string text = fmt::format(
      "stalls: a core was away for over {} {} times, {:.0f} ms together ({}); untouched by them:\n",
      time_text(u.floor_us), u.stalls, u.stalled_ms,
      u.server_threads > 0 ? "generator and server" : "generator only, see --watch");
  for (const UndisturbedReport::Type& type : u.types) {
    text += row(type.name, type.count, type.latency);
    text += fmt::format("   {:.1f} %\n", 100 * type.share);
  }
  return text;
}

Status write_hdr(const RunReport& report, const std::string& file) {
  if (file.empty()) return Done{};
  std::vector<HdrInterval> intervals;
  for (const TypeReport& type : report.types) {
    intervals.push_back({type.name, 0, report.wall_s, type.histograms.latency});
  }
  return write_text(file, hdr_log(intervals));
}

std::string difference_lines(const RunReport& closed, const RunReport& open) {
  std::string text =
      "what the closed loop hid: its clients wait for a slow server and send nothing meanwhile\n";
  text += fmt::format("{:<14}{:>9}{:>12}{:>12}{:>10}\n", "", "", "closed", "open", "times");
  for (size_t i = 0; i < closed.types.size(); ++i) {
    const LatencySummary &a = closed.types[i].latency, &b = open.types[i].latency;
    const auto add = [&](const char* what, double in_closed, double in_open) {
      if (in_closed <= 0 || in_open <= 0) return;
      text += fmt::format("{:<14}{:>9}{:>12}{:>12}{:>10.1f}\n", closed.types[i].name, what,
                          time_text(in_closed), time_text(in_open), in_open / in_closed);
    };
    add("p50", a.p50_us, b.p50_us);
    add("p99", a.p99_us, b.p99_us);
    add("p99.9", a.p999_us, b.p999_us);
  }
  return text;
}

}  // namespace

std::string report_table(const RunReport& r) {
  std::string text = fmt::format("{}  {}  {} loop{}  seed {}\n", r.target, r.workload, r.loop,
                                 r.arrivals.empty() ? "" : ", " + r.arrivals + " arrivals", r.seed);
  text += fmt::format("{:<14}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}{:>8}\n", "", "replies",
                      "mean", "p50", "p90", "p99", "p99.9", "max", "refused", "errors", "lost");
  uint64_t replies = 0;
  for (const TypeReport& type : r.types) {
    replies += type.count;
    text += row(type.name, type.count, type.latency) + failures(type);
  }
  if (r.types.size() > 1) text += row("all", replies, r.latency) + failures(r);
  text += slowdown_lines(r);
  text += fmt::format("offered {:.0f}/s, achieved {:.0f}/s over {:.1f} s (warm-up left out)\n",
                      r.offered_rps, r.achieved_rps, r.wall_s);
  text += servers_line(r) + unsent_line(r) + noise_line(r) + undisturbed_lines(r);
  text += r.valid ? "valid run\n" : "INVALID run: " + r.invalid_reason + "\n";
  return text;
}

Status write_outputs(const RunReport& report, const std::string& json_file,
                     const std::string& hdr_file) {
  const bool to_stdout = json_file == "-" || hdr_file == "-";
  std::fputs(report_table(report).c_str(), to_stdout ? stderr : stdout);
  if (!json_file.empty()) {
    if (Status done = write_text(json_file, to_json(report)); !done) return done;
  }
  return write_hdr(report, hdr_file);
}

Status write_difference(const RunReport& closed, const RunReport& open,
                        const std::string& json_file, const std::string& hdr_file) {
  std::FILE* const people = json_file == "-" || hdr_file == "-" ? stderr : stdout;
  std::fputs((report_table(closed) + report_table(open) + difference_lines(closed, open)).c_str(),
             people);
  if (!json_file.empty()) {
    const std::string both = "{\"schema\": \"rubato.sweep/1\", \"runs\": [" + to_json(closed) +
                             ", " + to_json(open) + "]}\n";
    if (Status done = write_text(json_file, both); !done) return done;
  }
  return write_hdr(open, hdr_file);
}

}  // namespace rubato::cli
