// SPDX-License-Identifier: Apache-2.0
//
// rubato calibrate: the costs of the live mechanisms on this machine, as a file for `rubato sim`.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "calibrate/measurements.h"
#include "cli/common/command_registry.h"
#include "cli/common/interrupt.h"
#include "cli/common/machine.h"
#include "cli/common/output_file.h"
#include "cli/common/value_flags.h"
#include "cli/common/virtual_host.h"
#include "mechanism/cpu/pin.h"
#include "sim/cost_file.h"

namespace rubato::cli {
namespace {

using namespace calibrate;

constexpr int kMeasurements = static_cast<int>(Operation::kCount);

struct Settings {
  std::string out;
  std::string json_file;
  std::string name = "calibrated";
  std::string costs;  // of virtual time; empty = the built-in ones
  Nanos duration = Nanos::seconds(10);
  HostOption host;
  std::optional<sim::Costs::World> world;  // of --costs; nothing = the machine itself
};

constexpr uint64_t kSeed = 1;  // of virtual time

std::string machine_text(const MachineInfo& machine, const Settings& settings) {
  if (settings.host.is_virtual()) return "virtual time, seed " + std::to_string(kSeed);
  return fmt::format("{}, {} CPUs, {}, virtualised: {}", machine.cpu_model, machine.cores,
                     machine.kernel, machine.virtualised);
}

void print_table(const Samples& samples, std::FILE* to) {
  fmt::print(to, "{:<22}{:>10}{:>12}{:>10}{:>8}\n", "ns per operation", "median", "p99.9",
             "batches", "stalls");
  for (int i = 0; i < kMeasurements; ++i) {
    const auto operation = static_cast<Operation>(i);
    const Sample& sample = samples[operation];
    if (sample.batches == 0) {
      fmt::print(to, "{:<22}{:>10}\n", info_of(operation).name, "skipped: it takes two CPUs");
      continue;
    }
    fmt::print(to, "{:<22}{:>10.1f}{:>12.1f}{:>10}{:>8}\n", info_of(operation).name,
               sample.median_ns, sample.tail_ns, sample.batches, sample.stalls);
  }
}

std::string json_text(const Samples& samples, const MachineInfo& machine,
                      const Settings& settings) {
  nlohmann::ordered_json measured = nlohmann::ordered_json::array();
  for (int i = 0; i < kMeasurements; ++i) {
    const auto operation = static_cast<Operation>(i);
    const Sample& sample = samples[operation];
    nlohmann::ordered_json entry{{"name", info_of(operation).name},
                                 {"how", info_of(operation).how},
                                 {"batches", sample.batches},
                                 {"stalls", sample.stalls}};
    entry["median_ns"] = sample.batches > 0 ? nlohmann::ordered_json(sample.median_ns) : nullptr;
    entry["p999_ns"] = sample.batches > 0 ? nlohmann::ordered_json(sample.tail_ns) : nullptr;
    measured.push_back(entry);
  }
  const nlohmann::ordered_json all{{"schema", "rubato.calibrate/1"},
                                   {"name", settings.name},
                                   {"machine",
                                    {{"cpu_model", machine.cpu_model},
                                     {"cores", machine.cores},
                                     {"kernel", machine.kernel},
                                     {"virtualised", machine.virtualised}}},
                                   {"version", version()},
                                   {"seconds", settings.duration.seconds()},
                                   {"measured", measured}};
  return all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string cost_file(const Samples& samples, const MachineInfo& machine,
                      const Settings& settings) {
  sim::Costs costs = costs_of(samples);
  costs.name = settings.name;
  costs.source = "measured on " + machine_text(machine, settings);
  costs.world = settings.world;
  sim::CostNotes notes = notes_of(samples);
  notes["world.access"] = "What the world was given, on average; see docs/VIRTUAL.md.";
  // A file of virtual time is the same whenever it is written.
  const std::string of_version =
      settings.host.is_virtual() ? "" : fmt::format(", version {}", version());
  notes[""] = fmt::format(
      "Costs of the live runtime, for `rubato sim --costs FILE`; written by rubato calibrate{},\n"
      "{:.3g} s.\n{}\n\n"
      "Batches of {} operations, timed together, less the clock's own time; median and p99.9 over\n"
      "the batches, without those in which the CPU was away for over {:.0f} us. A pair below is "
      "these\n"
      "two; a single figure has no longer tail.",
      of_version, settings.duration.seconds(),
      machine_text(machine, settings), kBatch, kStall.micros());
  return to_toml(costs, notes);
}

// False = interrupted.
Result<bool> measure_all(const Settings& settings, const Place& place, Samples& samples) {
  const Meter meter(settings.duration / kMeasurements, interrupt_flag());
  samples[Operation::kClock] = meter.clock();
  measure_queues(meter, place, samples);
  measure_fibers(meter, place, samples);
  measure_flags(meter, place, samples);
  if (settings.host.get() == nullptr) measure_cores(meter, place, samples);  // a machine's kernel
  if (Status s = measure_requests(meter, place, samples); !s.ok()) return Error{s.error()};
  if (Status s = measure_slices(meter, place, samples); !s.ok()) return Error{s.error()};
  if (Status s = measure_rounds(meter, place, samples); !s.ok()) return Error{s.error()};
  return !interrupted();
}

Status write_outputs(const Settings& settings, const Samples& samples) {
  const MachineInfo machine = this_machine();
  const bool to_stdout = settings.out == "-" || settings.json_file == "-";
  print_table(samples, to_stdout ? stderr : stdout);
  if (!settings.out.empty()) {
    const Status written = write_text(settings.out, cost_file(samples, machine, settings));
    if (!written.ok()) return written;
  }
  if (settings.json_file.empty()) return Done{};
  return write_text(settings.json_file, json_text(samples, machine, settings));
}

Result<bool> measure_here(const Settings& settings, Samples& samples) {
  const Place place{allowed_cpus()};
  if (!place.two()) std::fputs("rubato: one CPU: what takes two is left out\n", stderr);
  return measure_all(settings, place, samples);
}

// Nothing on the machine itself.
std::optional<sim::Costs::World> world_of(const Settings& settings) {
  if (!settings.host.is_virtual()) {
    if (!settings.costs.empty()) bad_value("--costs", "goes with --host virtual");
    return std::nullopt;
  }
  auto costs = sim::load_costs(settings.costs.empty() ? "virtual" : settings.costs);
  if (!costs.ok()) bad_value("--costs", costs.error());
  const sim::Costs::World world = world_prices(*costs);
  if (world.ideal()) bad_value("--costs", "takes a file in whose [world] steps take time");
  return world;
}

Result<bool> measure(const Settings& settings, Samples& samples) {
  const VirtualHost* host = settings.host.get();
  if (host == nullptr) return measure_here(settings, samples);
  Result<bool> measured = Error{"the world in virtual time failed"};
  host->run(kSeed, *settings.world, [&] {
    std::thread([&] { measured = measure_here(settings, samples); }).join();
    return measured.ok();
  });
  return measured;
}

int run(Settings settings) {
  settings.world = world_of(settings);
  watch_interrupts();
  Samples samples;
  const Result<bool> measured = measure(settings, samples);
  if (!measured.ok()) return fail(measured.error().c_str());
  if (!measured.value()) return fail("interrupted; nothing was written");
  const Status written = write_outputs(settings, samples);
  return written.ok() ? kDone : fail(written.error().c_str());
}

void add_calibrate(CommandLine& command) {
  auto settings = std::make_shared<Settings>();
  command.add_output("--out", settings->out, "Write the cost file here; - is the standard output");
  command.add_output("--json", settings->json_file, "Write the raw figures here as JSON");
  command.add_text("--name", settings->name, "Name of the machine in the cost file");
  add_seconds(command, "--seconds", settings->duration, Nanos::millis(10), Nanos::seconds(3600),
              "How long to measure in all, about (10s)");
  settings->host.add_to(command);
  command.add_text("--costs", settings->costs,
                   "With --host virtual: the cost file whose [world] says what steps take there");
  command.footer(
      "Leave the machine alone meanwhile. Needs two CPUs for what goes on between CPUs.");
  command.action([settings] { return run(*settings); });
}

const Command kCalibrate({"", "calibrate",
                          "Measure the live mechanisms here, for the simulator's cost file",
                          add_calibrate});

}  // namespace
}  // namespace rubato::cli
