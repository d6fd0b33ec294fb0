// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/workload_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "cli/common/file_text.h"
#include "cli/common/mapped_file.h"
#include "cli/common/value_flags.h"
#include "sim/cost_file.h"
#include "workload/duration.h"
#include "workload/mix.h"
#include "workload/trace_replay.h"

namespace rubato::cli {
namespace {

constexpr double kMostZipf = 10;

std::string read_file(const std::string& option, const std::string& path) {
  std::optional<std::string> text = file_text(path);
  if (!text) bad_value(option, "cannot read '" + path + "'");
  return std::move(*text);
}

// Adds an option whose text one of the parsers of workload/ takes.
template <class Parse, class Keep>
Option add_spec(CommandLine& command, const std::string& name, const std::string& placeholder,
                Parse&& parse, Keep&& keep, const std::string& help) {
  return command.add_parsed(
      name, placeholder,
      [parse, keep](const std::string& text) -> Status {
        auto parsed = parse(text);
        if (!parsed) return Error{parsed.error()};
        keep(std::move(*parsed), text);
        return Done{};
      },
      help);
}

void add_flow_options(CommandLine& command, SimOptions& o) {
  add_spec(
      command, "--flows", "N[:in-turn]", parse_flows,
      [&o](FlowSpec flows, const std::string&) {
        const double zipf = o.setup.workload.flows.zipf;
        o.setup.workload.flows = flows;
        o.flows_given = true;
        if (flows.zipf == 0) o.setup.workload.flows.zipf = zipf;
      },
      "Connections that requests come on, at random or in turn")
      .default_text("512, or the profile's");
  add_number(command, "--zipf", o.setup.workload.flows.zipf, 0, kMostZipf, "an exponent",
             "Flow i has a share in proportion to 1/i^R; 0 is equal shares");
}

// As many as there are, unless another number is asked for; what comes again is no news.
void count_recorded(SimOptions& o) {
  const uint64_t recorded = recorded_requests(o.setup.workload);
  if (!o.requests_given) o.setup.requests = recorded;
  if (o.setup.requests <= recorded) return;
  fmt::print(stderr,
             "rubato: --requests {}: only {} were recorded, which come again; intervals count "
             "them once\n",
             o.setup.requests, recorded);
}

// The times come from a file, and so does the rate unless another is asked for.
void read_trace(SimOptions& o) {
  WorkloadSpec& workload = o.setup.workload;
  const std::string path(workload.arrivals.trace_file);
  Result<std::vector<Nanos>> times = parse_trace(read_file("--arrivals", path));
  if (!times) bad_value("--arrivals", times.error());
  workload.times = std::move(*times);
  count_recorded(o);
  if (o.load_given || o.rate > 0) return;
  const Nanos span = workload.times.back() - workload.times.front();
  o.rate = static_cast<double>(workload.times.size() - 1) / span.seconds();
}

// The requests come from a file, and so does the rate unless another is asked for. Several runs are
// of different requests: of blocks of the recording.
void use_recorded(SimOptions& o, const char* option, std::shared_ptr<const RequestTrace> trace) {
  WorkloadSpec& workload = o.setup.workload;
  if (!workload.phases.empty()) bad_value(option, "has its own requests: no --phase");
  if (o.arrivals_given) bad_value(option, "has its own arrivals: no --arrivals");
  if (trace->first() == trace->last()) bad_value(option, "has no two requests at different times");
  o.arrivals = "recorded";
  if (!o.load_given && o.rate == 0) o.rate = trace->rate_rps();
  if (o.seeds > 1) workload.trace_block = TraceReplay::usual_block(*trace);
  workload.trace = std::move(trace);
  count_recorded(o);
}

void read_recording(SimOptions& o) {
  const std::string text = read_file("--recording", o.recording);
  auto requests = parse_recording(text, o.setup.workload.mixes.front());
  if (!requests) bad_value("--recording", requests.error());
  use_recorded(o, "--recording", std::move(*requests));
}

std::optional<std::string> file_after(std::string_view prefix, const std::string& workload) {
  if (!workload.starts_with(prefix)) return {};
  return workload.substr(prefix.size());
}

// Types that the simulation cannot tell apart.
void warn_of_types(const RequestTrace& trace, const std::string& path) {
  std::set<std::string> names;
  for (const RequestTrace::Type& type : trace.types()) {
    if (type.served == 0) continue;
    if (names.insert(type.name).second) continue;
    fmt::print(stderr, "rubato: '{}' has two types '{}', which count as one\n", path, type.name);
  }
  if (names.size() <= Mix::kMaxTypes) return;
  fmt::print(stderr, "rubato: '{}' has {} types; the rarest beyond {} count as one, {}\n", path,
             names.size(), Mix::kMaxTypes - 1, kOtherTypes);
}

void warn_of_trace(const RequestTrace& trace, const std::string& path) {
  warn_of_types(trace, path);
  if (trace.dropped() == 0 && !trace.cut()) return;
  fmt::print(stderr, "rubato: '{}' has {} requests{}{}\n", path, trace.requests(),
             trace.dropped() > 0 ? fmt::format(", {} more were not recorded", trace.dropped()) : "",
             trace.cut() ? ", and its last part is not whole" : "");
}

// Its requests at their own rate, with as many flows as they have.
Status use_trace_file(const std::string& path, const std::string& name, WorkloadSpec& workload) {
  auto file = MappedFile::open(path);
  if (!file) return Error{file.error()};
  auto trace = RequestTrace::parse((*file)->bytes(), *file);
  if (!trace) return Error{"'" + path + "': " + trace.error()};
  warn_of_trace(**trace, path);
  workload.mixes = {mix_of(**trace, name)};
  workload.flows.count =
      static_cast<uint32_t>(std::min<uint64_t>((*trace)->flows(), FlowSpec::kMost));
  workload.rate = (*trace)->rate_rps();
  workload.trace = std::move(*trace);
  return Done{};
}

void use_trace(SimOptions& o, const std::string& path) {
  if (!o.recording.empty()) bad_value("--recording", "takes a mix as --workload, not trace:FILE");
  WorkloadSpec& workload = o.setup.workload;
  const uint32_t flows = workload.flows.count;
  if (Status read = use_trace_file(path, o.workload, workload); !read) {
    bad_value("--workload", read.error());
  }
  if (o.flows_given) workload.flows.count = flows;
  use_recorded(o, "--workload", std::move(workload.trace));
}

// Uses every value of the profile, except those that options override.
void use_profile_file(SimOptions& o, const std::string& path) {
  Result<TrafficProfile> profile = read_profile(path);
  if (!profile) bad_value("--workload", profile.error());
  WorkloadSpec& workload = o.setup.workload;
  const uint32_t flows = workload.flows.count;
  use_profile(*profile, o.workload, workload);
  if (o.flows_given) workload.flows.count = flows;
  if (!o.arrivals_given) o.arrivals = "profile";
  if (!o.load_given && o.rate == 0 && o.recording.empty()) o.rate = profile->arrivals.rate_rps;
}

void use_mix(SimOptions& o) {
  Result<Mix> mix = parse_mix(o.workload);
  if (!mix) bad_value("--workload", mix.error());
  o.setup.workload.mixes = {std::move(*mix)};
}

void note_settings(SimOptions& o) {
  const sim::Setup& setup = o.setup;
  const auto note = [&o](const char* name, std::string text) {
    o.notes.emplace_back(name, std::move(text));
  };
  note("requests", std::to_string(setup.requests));
  note("warmup", fmt::format("{}", setup.warmup));
  note("flows", std::to_string(setup.workload.flows.count));
  if (setup.workload.flows.zipf > 0) note("zipf", fmt::format("{}", setup.workload.flows.zipf));
  if (setup.workload.flows.in_turn) note("flow_order", "in-turn");
  note("classify", name_of(setup.classify));
  note("long_over_us", fmt::format("{}", setup.long_over.micros()));
  for (const std::string& phase : o.phases) note("phase", phase);
  if (!o.misclassify.empty()) note("misclassify", o.misclassify);
  if (!o.recording.empty()) note("recording", o.recording);
  const Nanos block = setup.workload.trace_block;
  if (block > Nanos()) note("trace_block_us", fmt::format("{}", block.micros()));
}

}  // namespace

void add_workload_options(CommandLine& command, SimOptions& o) {
  command.add_text("--workload", o.workload,
                   "Request types: a name or a spec, see below; or what a server recorded, at its "
                   "own rate unless another is given: profile:FILE (--profile) or trace:FILE "
                   "(--record)")
      .placeholder("NAME|SPEC");
  add_spec(
      command, "--arrivals", "KIND", [](const std::string& text) { return parse_arrivals(text); },
      [&o](const ArrivalSpec&, const std::string& text) {
        o.arrivals = text;
        o.arrivals_given = true;
      },
      "poisson, uniform, onoff (1 ms each), batch[:SIZE], bursty[:PEAK], trace:FILE (a time in us "
      "per line, at its own rate unless another is given)")
      .default_text("poisson, or the profile's");
  add_flow_options(command, o);
  add_spec(
      command, "--phase", "TIME[@RATE]:MIX", parse_phase,
      [&o](Phase phase, const std::string& text) {
        o.setup.workload.phases.push_back(std::move(phase));
        o.phases.push_back(text);
      },
      "From that time on (bare numbers are seconds) another mix and rate; may be repeated. The "
      "load is that of the time before")
      .repeatable();
  add_spec(
      command, "--misclassify", "F|random", parse_misclassification,
      [&o](const Misclassification& wrong, const std::string& text) {
        o.setup.workload.misclassification = wrong;
        o.misclassify = text;
      },
      "Share of requests that the classifier takes for another type, or random for all");
  command.add_text("--recording", o.recording,
                   "Replay these requests: lines of ARRIVAL_US,SERVICE_US,TYPE,FLOW; at their own "
                   "rate unless another is given; with several --seeds, blocks of them")
      .placeholder("FILE");
}

Result<bool> use_recorded_workload(const std::string& name, WorkloadSpec& workload) {
  if (const auto path = file_after("trace:", name)) {
    const Status read = use_trace_file(*path, name, workload);
    return read ? Result<bool>(true) : Error{read.error()};
  }
  const auto path = file_after("profile:", name);
  if (!path) return false;
  Result<TrafficProfile> profile = read_profile(*path);
  if (!profile) return Error{profile.error()};
  use_profile(*profile, name, workload);
  return true;
}

Result<TrafficProfile> read_profile(const std::string& path) {
  const std::optional<std::string> text = file_text(path);
  if (!text) return Error{"cannot read '" + path + "'"};
  Result<TrafficProfile> profile = parse_traffic_profile(*text);
  if (!profile) return Error{"'" + path + "': " + profile.error()};
  return profile;
}

void finish_workload(SimOptions& o) {
  const std::optional<std::string> profile = file_after("profile:", o.workload);
  const std::optional<std::string> trace = file_after("trace:", o.workload);
  if (trace) {
    use_trace(o, *trace);
  } else {
    profile ? use_profile_file(o, *profile) : use_mix(o);
    // From the member, because the spec refers to the text it was parsed from.
    if (!profile || o.arrivals_given) {
      o.setup.workload.arrivals = parse_arrivals(o.arrivals).value();
    }
    if (o.setup.workload.arrivals.shape == ArrivalShape::kTrace) read_trace(o);
    if (!o.recording.empty()) read_recording(o);
  }
  Result<sim::Costs> costs = sim::load_costs(o.costs);
  if (!costs) bad_value("--costs", costs.error());
  o.setup.costs = std::move(*costs);
  note_settings(o);
}

std::string workload_help() {
  std::string text = "Workloads of --workload:\n";
  for (const NamedMix& mix : named_mixes()) {
    text += fmt::format("  {:<17}{}\n", mix.name, mix.summary);
  }
  text += "  or NAME:SERVICE:SHARE,... such as short:0.5us:99.5,long:exp(500us):0.5\n"
          "  or profile:FILE, as `rubato serve kv --profile FILE` writes it: its types, their\n"
          "  service times, its flows, and arrivals as bursty on every time scale as they were\n"
          "  or trace:FILE, as `rubato serve kv --record FILE` writes it: every request. With\n"
          "  several --seeds each run is made of blocks of it, so that intervals mean something\n";
  text += "Machines of --costs:\n ";
  for (const sim::BuiltinCosts& costs : sim::builtin_costs()) {
    text += fmt::format(" {}", costs.name);
  }
  return text + "\n";
}

}  // namespace rubato::cli
