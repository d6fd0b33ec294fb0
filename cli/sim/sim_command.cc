// SPDX-License-Identifier: Apache-2.0
//
// rubato sim: a policy on a simulated machine, in virtual time.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>

#include "cli/common/command_registry.h"
#include "cli/common/machine.h"
#include "cli/common/output_file.h"
#include "cli/common/progress.h"
#include "cli/common/value_flags.h"
#include "cli/sim/elastic_flags.h"
#include "cli/sim/max_load_output.h"
#include "cli/sim/outcomes_flag.h"
#include "cli/sim/sim_flags.h"
#include "cli/sim/sim_output.h"
#include "cli/sim/timeline_flag.h"
#include "cli/sim/workload_flags.h"
#include "metrics/hdr_log.h"
#include "planning/find_max.h"
#include "planning/runs.h"
#include "sim/explain.h"

namespace rubato::cli {
namespace {

using namespace planning;

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void request_stop(int) { stop_requested.store(true, std::memory_order_relaxed); }

constexpr const char* kNotes =
    "\n`rubato options` tells what --cores-set, --credits-set and --overload-set take.\n"
    "Figures leave out the warm-up. A sweep prints a row per load and writes an object\n"
    "rubato.sweep/1 with one report per load; --compare, a row per policy for each load and\n"
    "rubato.compare/1; --find-max, a row per policy that was finished and rubato.max/1.\n"
    "A run goes on until the figures of --until are known well enough and it is steady, or to\n"
    "--max-requests; with --requests, and with phases, recordings, sessions, traces, --outcomes\n"
    "and --find-max, it has a fixed length. Figures come with half of their 95 % interval\n"
    "(\"confidence\"): of one seed from the differences between parts of the run, of several,\n"
    "whose figures are means, counts sums and maxima maxima, from those between seeds. A run is\n"
    "steady, not steady or overloaded. An overloaded run is not valid, nor one that was stopped\n"
    "early (Ctrl-C), which prints what it has.\n"
    "Exit status: 0 done, 1 stopped or a file could not be written, 2 bad arguments.\n";

// Fills the fields that all reports of a command share.
void describe(const SimOptions& o, sim::SimReport& report) {
  RunReport& run = report.run;
  run.workload = o.workload;
  run.arrivals = o.arrivals;
  run.version = version();
  if (!o.no_wall) run.machine = this_machine();
}

// Where the tables go: out of the way of JSON.
std::FILE* people(const SimOptions& o) {
  return o.json_file == "-" || o.hdr_file == "-" ? stderr : stdout;
}

std::string table_of(const SimOptions& o, const std::vector<sim::SimReport>& reports) {
  if (o.compare) return compare_table(reports, o.candidates.size(), o.slo);
  if (o.sweep || reports.empty()) return sweep_table(reports, o.slo);
  return sim_table(reports.front(), o.slo);
}

std::string json_of(const SimOptions& o, const std::vector<sim::SimReport>& reports) {
  if (o.compare) return runs_json("rubato.compare/1", reports, o.slo);
  if (o.sweep || reports.empty()) return runs_json("rubato.sweep/1", reports, o.slo);
  return sim_json(reports.front(), o.slo);
}

// Warns of figures that rest on few requests; they are printed all the same.
void warn_of_thin_evidence(const SimOptions& o, const sim::SimReport& report) {
  if (!report.run.valid) return;
  const std::string warning = thin_evidence(o.slo, report, o.setup.requests);
  if (!warning.empty()) fmt::print(stderr, "rubato: --slo: {}\n", warning);
}

// Where there are several runs, tags begin with the policy and the load. With a timeline, an
// interval for each window.
Status write_log(const SimOptions& o, const std::vector<sim::SimReport>& reports) {
  std::vector<HdrInterval> intervals;
  for (const sim::SimReport& report : reports) {
    const RunReport& run = report.run;
    const std::string of_run =
        reports.size() > 1 ? fmt::format("{}/{:g}/", run.policy, run.load.value_or(0)) : "";
    if (report.over_time) {
      const auto windows = timeline_intervals(*report.over_time, run.types, of_run);
      intervals.insert(intervals.end(), windows.begin(), windows.end());
      continue;
    }
    for (const TypeReport& type : run.types) {
      intervals.push_back({of_run + type.name, 0, report.simulated_s, type.histograms.latency});
    }
  }
  return write_text(o.hdr_file, hdr_log(intervals));
}

Status write_outputs(const SimOptions& o, std::vector<sim::SimReport>& reports) {
  std::fputs(table_of(o, reports).c_str(), people(o));
  if (o.explain) {
    for (const sim::SimReport& report : reports) {
      std::fputs(plan_lines(report).c_str(), people(o));
    }
  }
  std::fputs(outcomes_text(reports).c_str(), people(o));
  std::fputs(timeline_text(reports).c_str(), people(o));
  if (!reports.empty()) warn_of_thin_evidence(o, reports.front());
  if (!o.hdr_file.empty()) {
    if (Status done = write_log(o, reports); !done) return done;
  }
  if (o.json_file.empty()) return Done{};
  if (o.no_wall) {
    for (sim::SimReport& report : reports) report.run.wall_s = 0;
  }
  return write_text(o.json_file, json_of(o, reports));
}

std::vector<std::string> type_names(const WorkloadSpec& workload) {
  std::vector<std::string> names;
  for (const RequestType& type : types_of(workload)) names.push_back(type.name);
  return names;
}

int finish_trace(const SimOptions& o, Trace& trace) {
  if (const Status done = trace.finish(); !done) return fail(done.error().c_str());
  std::fprintf(stderr, "trace: %llu events in '%s'",
               static_cast<unsigned long long>(trace.written()), o.trace_file.c_str());
  if (trace.dropped() > 0) {
    std::fprintf(stderr, ", %llu more left out (--trace-events, --trace-from, --trace-for)",
                 static_cast<unsigned long long>(trace.dropped()));
  }
  std::fputc('\n', stderr);
  return kDone;
}

// Errors of the engine start with the name of their option.
[[noreturn]] void refuse(const std::string& error) {
  bad_value("--" + error.substr(0, error.find(':')), error);
}

int run_find_max(const SimOptions& o) {
  auto results = [&o] {
    Progress line(::isatty(STDERR_FILENO) != 0);
    return find_max(o, stop_requested, [&line](double done) { line.draw(done); });
  }();
  if (!results) refuse(results.error());
  std::fputs(max_table(o, *results).c_str(), people(o));
  if (!results->empty()) warn_of_thin_evidence(o, results->front().last);
  if (!o.json_file.empty()) {
    const Status done = write_text(o.json_file, max_json(o, *results, version()));
    if (!done) return fail(done.error().c_str());
  }
  return stop_requested.load() ? fail(sim::kStoppedEarly) : kDone;
}

int run_runs(const SimOptions& o) {
  std::unique_ptr<Trace> trace;
  if (!o.trace_file.empty()) {
    auto opened = Trace::open(o.trace_file, o.trace_limits, o.setup.workers,
                                   type_names(o.setup.workload));
    if (!opened) return fail(opened.error().c_str());
    trace = std::move(*opened);
  }
  auto reports = [&o, &trace] {
    Progress line(::isatty(STDERR_FILENO) != 0);
    return run_simulations(o, trace.get(), stop_requested,
                           [&line](double done) { line.draw(done); });
  }();
  if (!reports) refuse(reports.error());
  for (sim::SimReport& report : *reports) describe(o, report);
  if (trace != nullptr && finish_trace(o, *trace) != kDone) return kFailed;
  if (const Status done = write_outputs(o, *reports); !done) return fail(done.error().c_str());
  return stop_requested.load() ? fail(sim::kStoppedEarly) : kDone;
}

int run_sim(SimOptions& o) {
  finish_sim_options(o);
  if (o.explain) {
    for (const std::string& line : sim::explain(setup_at(o, o.loads.front(), 0))) {
      fmt::print(people(o), "{}\n", line);
    }
  }
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  return o.find_max ? run_find_max(o) : run_runs(o);
}

void add_sim(CommandLine& command) {
  auto options = std::make_shared<SimOptions>();
  command.footer(workload_help() + slo_help() + kNotes);
  add_sim_options(command, *options);
  command.action([options] { return run_sim(*options); });
}

const Command kSim({"", "sim", "Simulate a policy, in virtual time", add_sim});

}  // namespace
}  // namespace rubato::cli
