// SPDX-License-Identifier: Apache-2.0
#include "serve_cores.h"

#include <CLI/CLI.hpp>

#include "cli/options.h"
#include "mechanism/cpu/pin.h"
#include "overload/cores/rule.h"

namespace rubato::cli {

void add_cores_options(CLI::App& command, CoresOptions& o) {
  command.add_option("--cores", o.cores,
                     "Which workers have a core: adaptive (all, and they sleep when idle), or an "
                     "allocator that parks and wakes workers: " + overload::core_rule_names())
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--cores-set", o.settings, "Setting of the allocator; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command.add_option("--guaranteed-cores", o.guaranteed,
                     "Workers that an allocator leaves alone; the others are for bursts")
      ->check(whole_number(1, limits::kMaxWorkers))
      ->capture_default_str();
  command.add_option("--best-effort", o.best_effort.command,
                     "Command for the shell that runs on the CPU time that the server leaves, and "
                     "ends with it; INFO scheduler and the metrics tell its share")
      ->type_name("CMD");
  command.add_flag("--best-effort-restart", o.best_effort.restart,
                   "Start that command again when it has ended, 1 s later, or up to 60 s if it "
                   "ends soon each time");
  command.add_flag("--best-effort-no-group", o.no_group,
                   "Make no control group for it: SCHED_IDLE alone keeps it back, which leaves it "
                   "the share of the server's session against those of others");
}

namespace {

// An idle worker spins for what it costs to sleep and wake: longer, and it takes more from the
// command than it can save; shorter, and it pays for the switches.
constexpr Nanos kSharedSpin = Nanos::micros(10);

Status share_cpus(const CLI::App& command, RuntimeOptions& runtime) {
  const size_t cpus = allowed_cpus().size();
  if (runtime.idle == Idle::kSpin && runtime.workers >= cpus) {
    return Error{"--best-effort: needs --idle adaptive, or fewer workers than CPUs: with --idle "
                 "spin nothing is left"};
  }
  if (command.get_option("--idle-spin-us")->count() == 0) runtime.idle_spin = kSharedSpin;
  // The kernel looks for an idle CPU less eagerly where the command fills all of them: left to it,
  // two workers share a CPU for up to a tick while the command has the other.
  if (command.get_option("--pin")->count() == 0) runtime.pin = runtime.workers == cpus;
  return Done{};
}

}  // namespace

Status finish_cores_options(const CLI::App& command, const CoresOptions& o,
                            RuntimeOptions& runtime) {
  if (command.get_option("--best-effort")->count() > 0) {
    if (Status fits = share_cpus(command, runtime); !fits.ok()) return fits;
  }
  if (o.cores == "adaptive") {
    if (command.get_option("--guaranteed-cores")->count() > 0) {
      return Error{"--guaranteed-cores: needs --cores with an allocator: " +
                   overload::core_rule_names()};
    }
  } else {
    runtime.cores = o.cores;
  }
  for (const std::string& setting : o.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{"--cores-set: takes name=value, got '" + setting + "'"};
    }
    runtime.cores_settings.emplace(setting.substr(0, equals), setting.substr(equals + 1));
  }
  runtime.guaranteed_cores = o.guaranteed;
  return Done{};
}

Result<std::unique_ptr<BestEffort>> prepare_best_effort(const CLI::App& command,
                                                        const CoresOptions& o) {
  if (command.get_option("--best-effort")->count() == 0) {
    if (o.best_effort.restart) return Error{"best_effort_restart: needs --best-effort CMD"};
    if (o.no_group) return Error{"best_effort_no_group: needs --best-effort CMD"};
    return std::unique_ptr<BestEffort>();
  }
  BestEffortOptions options = o.best_effort;
  options.group = !o.no_group;
  return BestEffort::prepare(options);
}

}  // namespace rubato::cli
