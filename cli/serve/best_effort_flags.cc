// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/best_effort_flags.h"

#include "base/option_text.h"
#include "mechanism/cpu/pin.h"

namespace rubato::cli {

void add_best_effort_options(CommandLine& command, CoresOptions& o) {
  command.add_text("--best-effort", o.best_effort.command,
                   "Command for the shell that runs on the CPU time that the server leaves, and "
                   "ends with it; INFO scheduler and the metrics tell its share")
      .placeholder("CMD");
  command.add_flag("--best-effort-restart", o.best_effort.restart,
                   "Start that command again when it has ended, 1 s later, or up to 60 s if it "
                   "ends soon each time");
  command.add_flag("--best-effort-no-group", o.no_group,
                   "Make no control group for it: SCHED_IDLE alone keeps it back, which leaves it "
                   "the share of the server's session against those of others");
  command
      .add_text("--cores-manager", o.manager,
                "Unix socket of `rubato cores`, which shares CPUs among servers: it says how many "
                "workers have a core, and on which CPUs they run. Needs --cores NAME, by whose "
                "rule it decides; best-effort commands are the manager's")
      .placeholder("PATH");
}

namespace {

// An idle worker spins for about the cost of a sleep and a wake-up: a longer spin takes more from
// the command than it can save; a shorter one pays for the switches.
constexpr Nanos kSharedSpin = Nanos::micros(10);

Status share_cpus(const CommandLine& command, RuntimeOptions& runtime) {
  const size_t cpus = allowed_cpus().size();
  if (runtime.idle == Idle::kSpin && runtime.workers >= cpus) {
    return Error{"--best-effort: needs --idle adaptive, or fewer workers than CPUs: with --idle "
                 "spin nothing is left"};
  }
  if (!command.given("--idle-spin")) {
    runtime.idle_spin = kSharedSpin;
    command.option("--idle-spin").default_text(format_time(kSharedSpin));
  }
  // The kernel looks for an idle CPU less eagerly where the command fills all of them: left to it,
  // two workers share a CPU for up to a tick while the command has the other.
  if (!command.given("--pin")) {
    runtime.pin = runtime.workers == cpus;
    command.option("--pin").default_text(runtime.pin ? "true" : "false");
  }
  return Done{};
}

Status check_manager(const CommandLine& command, const CoresOptions& o,
                     const RuntimeOptions& runtime) {
  if (!command.given("--cores-manager")) return Done{};
  if (o.manager.empty()) return Error{"--cores-manager: takes the path of a Unix socket"};
  if (!runtime.allocates_cores()) {
    return Error{"--cores-manager: needs --cores NAME, an allocator: with adaptive every worker "
                 "has a core"};
  }
  if (runtime.guaranteed_cores == 0) return Error{"--cores-manager: needs a guaranteed core"};
  if (runtime.pin) return Error{"--pin: does not go with --cores-manager, which places workers"};
  if (command.given("--best-effort")) {
    return Error{"--best-effort: does not go with --cores-manager: `rubato cores` has it"};
  }
  return Done{};
}

}  // namespace

Status finish_best_effort_options(const CommandLine& command, const CoresOptions& o,
                                  RuntimeOptions& runtime) {
  if (Status fits = check_manager(command, o, runtime); !fits.ok()) return fits;
  if (command.given("--best-effort")) {
    if (o.best_effort.command.empty()) return Error{"--best-effort: takes a command, got nothing"};
    return share_cpus(command, runtime);
  }
  if (o.best_effort.restart) return Error{"--best-effort-restart: needs --best-effort CMD"};
  if (o.no_group) return Error{"--best-effort-no-group: needs --best-effort CMD"};
  return Done{};
}

Result<std::unique_ptr<BestEffort>> prepare_best_effort(const CoresOptions& o) {
  if (o.best_effort.command.empty()) return std::unique_ptr<BestEffort>();
  BestEffortOptions options = o.best_effort;
  options.group = !o.no_group;
  return BestEffort::prepare(options);
}

}  // namespace rubato::cli
