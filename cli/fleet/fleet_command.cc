// SPDX-License-Identifier: Apache-2.0
//
// rubato fleet: servers, balancers and clients that time out, retry and hedge, in virtual time.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/common/command_registry.h"
#include "cli/common/file_text.h"
#include "cli/common/output_file.h"
#include "cli/common/progress.h"
#include "cli/common/value_flags.h"
#include "cli/fleet/fleet_output.h"
#include "cli/sim/workload_flags.h"
#include "fleet/world.h"
#include "fleet/world_file.h"
#include "sim/cost_file.h"
#include "sim/report.h"

namespace rubato::cli {
namespace {

constexpr uint32_t kMostSeeds = 1000;

std::atomic<bool> stop_requested{false};

void request_stop(int) { stop_requested.store(true, std::memory_order_relaxed); }

struct FleetOptions {
  std::string world;
  std::string json_file;
  uint64_t seed = 0;
  bool seed_given = false;
  uint32_t seeds = 1;
  Nanos length;  // 0 = that of the file
  bool timeline = false;
};

constexpr const char* kNotes =
    "\nWORLD.toml has [[servers]] and [[clients]]; docs/FLEET.md explains its keys, and\n"
    "examples/fleet has worlds: a retry storm with and without budget, hedges, a fan-out,\n"
    "balancers. Each server is the simulator of `rubato sim`, with any policy.\n"
    "Figures leave out calls of the start-up, which is found, and lasts as long as the warm-up at\n"
    "least. +- is half of the 95 % interval, from the differences between parts of the run, or\n"
    "with --seeds between the runs; ? = too few calls to tell. The run says whether it was\n"
    "steady, not steady or overloaded; in the last case it is not valid. --json writes an\n"
    "object rubato.fleet/1.\n"
    "Exit status: 0 done, 1 stopped or a file could not be written, 2 bad arguments.\n";

fleet::WorldParts parts() {
  fleet::WorldParts parts = fleet::parts_without_files();
  parts.costs = [](const std::string& name) { return sim::load_costs(name); };
  parts.workload = [mixes = parts.workload](const std::string& name, WorkloadSpec& workload) {
    Result<bool> recorded = use_recorded_workload(name, workload);
    if (!recorded) return Status(Error{recorded.error()});
    return *recorded ? Status(Done{}) : mixes(name, workload);
  };
  return parts;
}

fleet::WorldSpec read_world(const FleetOptions& o) {
  const std::optional<std::string> text = file_text(o.world);
  if (!text) bad_value("WORLD", "cannot read '" + o.world + "'");
  Result<fleet::WorldSpec> world = fleet::parse_world(*text, o.world, parts());
  if (!world) bad_value("WORLD", world.error());
  if (o.seed_given) world->seed = o.seed;
  if (o.length > Nanos()) world->length = o.length;
  if (Status fits = fleet::validate(*world); !fits) bad_value("--length", fits.error());
  return std::move(*world);
}

// Those that have begun when it is stopped.
fleet::Replications run_seeds(const fleet::WorldSpec& first, uint32_t seeds) {
  fleet::WorldSpec spec = first;
  Progress line(::isatty(STDERR_FILENO) != 0);
  std::vector<fleet::WorldOutcome> outcomes;
  while (outcomes.size() < seeds && !stop_requested.load(std::memory_order_relaxed)) {
    auto outcome = fleet::run_world(spec, [&](double done) {
      line.draw((static_cast<double>(outcomes.size()) + done) / seeds);
      return !stop_requested.load(std::memory_order_relaxed);
    });
    if (!outcome) bad_value("WORLD", outcome.error());
    outcomes.push_back(std::move(*outcome));
    ++spec.seed;
  }
  if (outcomes.empty()) std::exit(fail(sim::kStoppedEarly));
  return fleet::replications(first, std::move(outcomes));
}

int run_fleet(const FleetOptions& o) {
  const fleet::WorldSpec spec = read_world(o);
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  const fleet::Replications runs = run_seeds(spec, o.seeds);
  std::FILE* const people = o.json_file == "-" ? stderr : stdout;
  std::fputs(fleet_table(spec, runs, o.timeline).c_str(), people);
  if (!o.json_file.empty()) {
    const Status written = write_text(o.json_file, fleet_json(spec, runs, o.world, version()));
    if (!written) return fail(written.error().c_str());
  }
  return runs.pooled.stopped ? fail(sim::kStoppedEarly) : kDone;
}

void add_fleet(CommandLine& command) {
  auto options = std::make_shared<FleetOptions>();
  FleetOptions& o = *options;
  command.footer(kNotes);
  command.add_text("WORLD", o.world, "World file").placeholder("WORLD.toml").required();
  command.add_flag("--timeline", o.timeline, "Print a line for each slice of time");
  add_count(command, "--seed", o.seed, 0, UINT64_MAX, "a number", "Instead of the file's")
      .marks(o.seed_given)
      .default_text("");
  add_count(command, "--seeds", o.seeds, 1, kMostSeeds, "a number of seeds",
            "Run that many, from this one on")
      .default_text("1");
  add_seconds(command, "--length", o.length, Nanos::millis(1), Nanos::seconds(1'000'000),
              "How long clients make calls, instead of the file's");
  command.add_output("--json", o.json_file, "Write the report as JSON; - is stdout");
  command.action([options] { return run_fleet(*options); });
}

const Command kFleet(
    {"", "fleet", "Simulate servers, balancers and clients that retry", add_fleet});

}  // namespace
}  // namespace rubato::cli
