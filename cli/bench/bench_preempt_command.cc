// SPDX-License-Identifier: Apache-2.0
//
// rubato bench preempt: the cost of each preemption mechanism on this machine.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/bench/bench_preempt.h"
#include "cli/common/command_registry.h"
#include "cli/common/interrupt.h"
#include "cli/common/output_file.h"
#include "cli/common/value_flags.h"
#include "mechanism/cpu/pin.h"

namespace rubato::cli {
namespace {

using namespace calibrate;

constexpr Nanos kQuanta[] = {Nanos::micros(5), Nanos::micros(10), Nanos::micros(20),
                             Nanos::micros(50)};
constexpr uint32_t kRoundsPerSlice = 10;  // a slice takes longer than a round

struct Settings {
  std::string mechanism = "all";
  uint32_t rounds = 100'000;
  std::string json_file;
};

// The mechanisms asked for, in the order of the table; "all" lists the missing ones too.
std::vector<PreemptMechanism> asked_for(const std::string& name) {
  if (name != "all") return {preempt_mechanism(name).value()};
  std::vector<PreemptMechanism> all(kPreemptMechanisms.begin(), kPreemptMechanisms.end());
  std::erase(all, PreemptMechanism::kNone);
  return all;
}

Status measure(const Settings& settings, const Place& place, PreemptFigures& figures) {
  auto delivery = measure_delivery(figures.mechanism, place, settings.rounds);
  if (!delivery.ok()) return Error{delivery.error()};
  figures.delivery = *delivery;
  const uint32_t slices = std::max(settings.rounds / kRoundsPerSlice, 10u);
  for (const Nanos asked : kQuanta) {
    if (interrupted()) break;
    auto quantum = measure_quantum(figures.mechanism, place, asked, slices);
    if (!quantum.ok()) return Error{quantum.error()};
    figures.quanta.push_back(*quantum);
  }
  return Done{};
}

int run(const Settings& settings) {
  watch_interrupts();
  const Place place{allowed_cpus()};
  std::vector<PreemptFigures> figures;
  for (const PreemptMechanism mechanism : asked_for(settings.mechanism)) {
    figures.push_back({.mechanism = mechanism, .missing = {}, .delivery = {}, .quanta = {}});
    Status done = available(mechanism);
    if (done.ok()) done = measure(settings, place, figures.back());
    if (interrupted()) return fail("interrupted; nothing was written");
    if (done.ok()) continue;
    figures.back().missing = done.error();
    const std::string line = std::string(to_string(mechanism)) + ": " + done.error();
    if (settings.mechanism != "all") return fail(line.c_str());
  }
  const bool json_only = settings.json_file == "-";
  if (!json_only) {
    Status printed = write_text("-", preempt_table(figures, settings.rounds));
    if (!printed.ok()) return fail(printed.error().c_str());
  }
  if (settings.json_file.empty()) return kDone;
  Status written = write_text(settings.json_file, preempt_json(figures, settings.rounds));
  return written.ok() ? kDone : fail(written.error().c_str());
}

void add_preempt(CommandLine& command) {
  auto settings = std::make_shared<Settings>();
  command.add_choice("--mechanism", settings->mechanism,
                     {"all", "checkpoint", "signal", "timer", "uintr", "kmod"},
                     "Which one; all lists what is missing too");
  add_count(command, "--rounds", settings->rounds, 100u, 100'000'000u, "interrupts per mechanism",
            "Interrupts that are timed, per mechanism; a tenth as many slices per quantum");
  command.add_output("--json", settings->json_file, "Write the figures here as JSON; - = stdout");
  command.footer("Leave the machine alone meanwhile. Needs two CPUs for all but the timer.");
  command.action([settings] { return run(*settings); });
}

const Command kBenchPreempt(
    {"bench", "preempt",
     "Measure each way to preempt: stages of delivery, achieved quanta, end to end", add_preempt});

}  // namespace
}  // namespace rubato::cli
