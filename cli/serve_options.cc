// SPDX-License-Identifier: Apache-2.0
#include "serve_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "cli/command.h"
#include "cli/options.h"
#include "config_file.h"
#include "mechanism/cpu/cgroup.h"
#include "mechanism/cpu/pin.h"
#include "mechanism/preempt/mechanism.h"

namespace rubato::cli {
namespace {

constexpr uint32_t kMaxCpus = 4096;
constexpr uint32_t kMaxTimeoutSeconds = 1u << 31;
constexpr Nanos kShortestTarget = Nanos::micros(1);
constexpr Nanos kLongestTarget = Nanos::seconds(1);
constexpr Nanos kLongestTargetOfLong = Nanos::seconds(60);
constexpr Nanos kLongestProfile = Nanos::seconds(1'000'000);

const std::map<std::string, Classify> kClassify{{"feedback", Classify::kFeedback},
                                                {"age", Classify::kAge},
                                                {"learned", Classify::kLearned}};
const std::map<std::string, PreemptionClock> kClock{{"self", PreemptionClock::kSelf},
                                                    {"timer-core", PreemptionClock::kTimerCore}};
const std::map<std::string, Idle> kIdle{{"adaptive", Idle::kAdaptive}, {"spin", Idle::kSpin}};

void add_runtime_options(CLI::App& command, ServeOptions& o) {
  command.add_option("--policy", o.runtime.policy, "Scheduling policy, see `rubato policies`")
      ->capture_default_str();
  command.add_option("--set", o.settings, "Setting of the policy, name=value; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  o.runtime.workers = std::min(usable_cpus(), limits::kMaxWorkers);
  command.add_option("--workers", o.runtime.workers,
                     "Worker threads; unless given one for each CPU that this process may use, by "
                     "its affinity and the CPU quota of its control group")
      ->check(whole_number(1, limits::kMaxWorkers));
  command.add_option("--classify", o.classify,
                     "Who says that a request is long: feedback (the application alone), age (or "
                     "it outlives a quantum), learned (or its kind did so before)")
      ->check(CLI::IsMember({"feedback", "age", "learned"}))
      ->capture_default_str();
  command.add_option("--preempt", o.preempt,
                     "How long requests are preempted: checkpoint (where their code has one), "
                     "signal, timer, uintr, kmod (at any instruction), none, auto (the best that "
                     "works here); `rubato doctor` says which do")
      ->check(CLI::IsMember({"checkpoint", "signal", "timer", "uintr", "kmod", "none", "auto"}))
      ->capture_default_str();
  command.add_option("--preempt-clock", o.preempt_clock,
                     "Who watches long requests: self (each worker), timer-core (a thread)")
      ->check(CLI::IsMember({"self", "timer-core"}))
      ->capture_default_str();
  command.add_option("--stack-kib", o.stack_kib, "Stack of a fiber")
      ->check(whole_number(16, 8192))
      ->capture_default_str();
  command.add_option("--max-fibers", o.runtime.max_fibers, "Requests that can be suspended at once")
      ->check(whole_number(2, 32768))
      ->capture_default_str();
}

void add_thread_options(CLI::App& command, ServeOptions& o) {
  command.add_option("--idle", o.idle,
                     "Idle workers: adaptive (spin, then sleep), spin (never sleep)")
      ->check(CLI::IsMember({"adaptive", "spin"}))
      ->capture_default_str();
  command.add_option("--idle-spin-us", o.idle_spin_us,
                     "How long an idle worker spins before it sleeps; 10 beside --best-effort "
                     "unless given")
      ->check(number(0.0, 1e6))
      ->capture_default_str();
  command.add_flag("--pin,!--no-pin", o.runtime.pin,
                   "Pin worker i to the i-th allowed CPU; beside --best-effort also without being "
                   "asked, unless --no-pin, where there is a worker for each CPU");
  command.add_option("--pin-first", o.runtime.pin_first, "First CPU used by --pin, as an index")
      ->check(whole_number(0, kMaxCpus))
      ->capture_default_str();
  command.add_option("--drain-limit-s", o.drain_limit_s,
                     "Longest time between SIGTERM and the end")
      ->check(number(0.0, 3600.0))
      ->capture_default_str();
}

void add_network_options(CLI::App& command, ServeOptions& o) {
  command.add_option("--bind", o.tcp.bind, "Address to listen on; * = all")->capture_default_str();
  command.add_option("--port", o.tcp.port, "TCP port; 0 = any free one")
      ->check(whole_number(0, 65535))
      ->capture_default_str();
  command.add_option("--maxclients", o.tcp.max_flows,
                     "Connections at most; fewer where ulimit -n allows no more")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--timeout", o.timeout_s,
                     "Close idle connections after so many seconds; 0 = never")
      ->check(whole_number(0, kMaxTimeoutSeconds))
      ->capture_default_str();
  command.add_option("--metrics-port", o.serving.metrics_port,
                     "Port of /metrics, /plan, /healthz, /readyz; 0 = any free one; none by "
                     "default")
      ->check(whole_number(0, 65535));
  command.add_option("--metrics-bind", o.serving.metrics_bind, "Address of the metrics port")
      ->capture_default_str();
  command.add_option("--config", o.config_file, "TOML file with these options as keys")
      ->check(CLI::ExistingFile);
}

void add_overload_options(CLI::App& command, ServeOptions& o) {
  command.add_option("--overload", o.overload,
                     "What an overloaded server does: none (serves as long as queues have room), "
                     "aqm (refuses requests that have waited longer than twice the target)")
      ->check(CLI::IsMember({"none", "aqm"}))
      ->capture_default_str();
  add_seconds(command, "--target-delay", o.target_delay, kShortestTarget, kLongestTarget,
              "How long requests may wait for their turn")
      ->default_str("3ms");
  add_seconds(command, "--target-delay-long", o.target_delay_long, kShortestTarget,
              kLongestTargetOfLong,
              "The same of long requests; default: as others, or eight times their own service "
              "where they share a worker");
  command.add_option("--agent-port", o.serving.agent_port,
                     "Port that tells a load balancer the server's weight (HAProxy's agent-check); "
                     "0 = any free one; none by default")
      ->check(whole_number(0, 65535));
  command.add_option("--agent-bind", o.serving.agent_bind, "Address of the agent port")
      ->capture_default_str();
}

void add_profile_options(CLI::App& command, ServeOptions& o) {
  command.add_option("--profile", o.serving.recording.file,
                     "Write what requests come to this file, for `rubato sim --workload "
                     "profile:FILE`: every 10 s and at the end")
      ->type_name("FILE");
  add_seconds(command, "--profile-for", o.profile_for, Nanos::seconds(1), kLongestProfile,
              "Record for so long, from the first request on; default: until the server stops");
}

Status resolve_settings(ServeOptions& o) {
  for (const std::string& setting : o.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{"--set: takes name=value, got '" + setting + "'"};
    }
    // The command line comes first in the list, and wins over the file.
    o.runtime.policy_settings.emplace(setting.substr(0, equals), setting.substr(equals + 1));
  }
  return Done{};
}

Status resolve_recording(const CLI::App& command, ServeOptions& o) {
  RecordingOptions& recording = o.serving.recording;
  if (command.get_option("--profile")->count() > 0 && recording.file.empty()) {
    return Error{"--profile: takes the name of a file"};
  }
  if (o.profile_for > Nanos() && recording.file.empty()) {
    return Error{"--profile-for: needs --profile FILE"};
  }
  if (o.profile_for > Nanos()) recording.length = o.profile_for;
  recording.version = version();
  o.runtime.record_arrivals = !recording.file.empty();
  return Done{};
}

// Before the runtime does, whose word for it is another.
Status check_stack(const ServeOptions& o) {
  const PreemptMechanism mechanism = resolve(o.runtime.preempt);
  const size_t needed = min_stack_bytes(mechanism);
  if (o.runtime.stack_bytes >= needed || !available(mechanism).ok()) return Done{};
  return Error{"--stack-kib: --preempt " + std::string(to_string(mechanism)) + " needs at least " +
               std::to_string((needed + 1023) / 1024) +
               ", for the state of interrupted code; got " + std::to_string(o.stack_kib)};
}

}  // namespace

std::string preemption_text(const ServeOptions& options) {
  const PreemptMechanism mechanism = resolve(options.runtime.preempt);
  const bool chosen = options.runtime.preempt == PreemptMechanism::kAuto;
  return std::string("preempt ") + to_string(mechanism) + (chosen ? " (auto)" : "");
}

void add_serve_options(CLI::App& command, ServeOptions& options) {
  add_runtime_options(command, options);
  add_thread_options(command, options);
  add_cores_options(command, options.cores);
  add_network_options(command, options);
  add_overload_options(command, options);
  add_profile_options(command, options);
}

Status finish_serve_options(CLI::App& command, ServeOptions& o) {
  if (!o.config_file.empty()) {
    Status applied = apply_config_file(o.config_file, command);
    if (!applied.ok()) return applied;
  }
  o.runtime.classify = kClassify.at(o.classify);
  o.runtime.preempt = preempt_mechanism(o.preempt).value();
  o.runtime.preemption_clock = kClock.at(o.preempt_clock);
  o.runtime.idle = kIdle.at(o.idle);
  o.runtime.idle_spin = Nanos::from_micros(o.idle_spin_us);
  o.runtime.drain_limit = Nanos::from_seconds(o.drain_limit_s);
  o.runtime.stack_bytes = size_t{o.stack_kib} * 1024;
  if (Status fits = check_stack(o); !fits.ok()) return fits;
  o.runtime.shed = o.tcp.date_backlog = o.overload == "aqm";
  o.runtime.shedding.target_delay = o.target_delay;
  o.runtime.shedding.target_delay_long = o.target_delay_long;
  if (command.get_option("--workers")->count() == 0) {
    o.runtime.workers -= std::min(o.runtime.pin_first, o.runtime.workers - 1);
  }
  if (Status fits = finish_cores_options(command, o.cores, o.runtime); !fits.ok()) return fits;
  o.tcp.queues = o.runtime.workers;
  o.tcp.idle_timeout = Nanos::seconds(o.timeout_s);
  if (Status fits = resolve_recording(command, o); !fits) return fits;
  return resolve_settings(o);
}

Error option_error(const std::string& message) {
  const size_t end = message.find(": ");
  const std::string name = message.substr(0, end);
  if (end == std::string::npos || name.find(' ') != std::string::npos) return Error{message};
  std::string option = "--" + name;
  std::replace(option.begin(), option.end(), '_', '-');
  return Error{option + message.substr(end)};
}

}  // namespace rubato::cli
