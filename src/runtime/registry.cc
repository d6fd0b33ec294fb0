// SPDX-License-Identifier: Apache-2.0
//
// PolicyRuntime::make: from a policy's name to its instantiation.
#include <string>
#include <utility>
#include <vector>

#include "base/name_list.h"
#include "mechanism/cpu/cgroup.h"
#include "mechanism/cpu/pin.h"
#include "mechanism/preempt/unsafe_code.h"
#include "mechanism/preempt/interposed.h"
#include "mechanism/preempt/mechanism.h"
#include "overload/cores/rule.h"
#include "policy/aliases.h"
#include "policy/unit.h"
#include "runtime/current_worker.h"
#include "runtime/fiber_local.h"
#include "runtime/idle_cores.h"
#include "runtime/live_policy.h"
#include "runtime/policy_runtime.h"
#include "runtime/runtime.h"
#include "sched/limiter_options.h"

namespace rubato {
namespace {

auto live_policies() {
  return of_each_policy_unit<RUBATO_POLICIES>(
      []<uint32_t kUnit>(PolicyUnit<kUnit>) { return &live_policy<kUnit>(); });
}

std::string names_of_live_policies() {
  std::string names;
  for (const LivePolicy* policy : live_policies()) {
    if (policy->create != nullptr) add_name(names, policy->name);
  }
  return names;
}

// One CPU per worker, or an empty list when they are not to be pinned.
Result<std::vector<uint32_t>> choose_cpus(const RuntimeOptions& options) {
  if (!options.pin) return std::vector<uint32_t>();
  return cpus_of_workers(options.pin_first, options.workers);
}

Status check_cores(const RuntimeOptions& options) {
  if (options.guaranteed_cores < 1 || options.guaranteed_cores > options.workers) {
    return Error{"guaranteed_cores: takes 1 .. the number of workers, " +
                 std::to_string(options.workers) + "; got " +
                 std::to_string(options.guaranteed_cores)};
  }
  if (!options.allocates_cores()) {
    const char* needless = options.guaranteed_cores != 1       ? "guaranteed_cores"
                           : !options.cores_settings.empty() ? "cores_set"
                                                             : nullptr;
    if (needless == nullptr) return Done{};
    return Error{std::string(needless) + ": needs cores with an allocator, one of " +
                 overload::core_rule_names()};
  }
  auto rule = overload::CoreRule::make(options.cores, options.cores_settings, options.workers,
                                       kCoreTimeScale);
  if (!rule.ok()) return Error{rule.error()};
  if (options.guaranteed_cores == options.workers) {
    return Error{"cores: needs more workers than it leaves alone as guaranteed; there are " +
                 std::to_string(options.workers) + " of each"};
  }
  return Done{};
}

Status check_bounds(const RuntimeOptions& options, const Datapath& datapath) {
  if (options.workers < 1 || options.workers > limits::kMaxWorkers) {
    return Error{"workers: " + std::to_string(options.workers) + " is not in 1 .. " +
                 std::to_string(limits::kMaxWorkers)};
  }
  if (datapath.queues() != options.workers) {
    return Error{"workers: the datapath has " + std::to_string(datapath.queues()) +
                 " queues for " + std::to_string(options.workers) + " workers"};
  }
  if (options.max_fibers <= options.workers) {
    return Error{"max_fibers: must be greater than the number of workers, got " +
                 std::to_string(options.max_fibers)};
  }
  return check_cores(options);
}

bool flush_piece(Request& request) {
  const PreemptDisableGuard no_preemption;
  return request.datapath->flush_some(request, kReplyPieceBytes);
}

// Resolves the mechanism that will be used, and the options that depend on it. A worker that spins
// while other workers wait for its CPU delays the very work that it waits for.
Result<RuntimeOptions> resolve_options(RuntimeOptions options) {
  options.policy = policy_called(options.policy);
  if (options.workers > usable_cpus()) options.idle_spin = Nanos();
  options.preempt = resolve(options.preempt);
  // What never is preempted needs no interrupts, which harm a runtime that uses the same signal, or
  // whose stacks have no room for a handler's frame (Go).
  if (options.foreign_runtime && is_asynchronous(options.preempt)) {
    options.preempt = PreemptMechanism::kCheckpoint;
  }
  const std::string name = to_string(options.preempt);
  if (Status has = available(options.preempt); !has.ok()) {
    return Error{"preempt: " + name + " is not to be had here: " + has.error()};
  }
  if (is_asynchronous(options.preempt)) {
    if (Status safe = protect_unsafe_code(); !safe.ok()) {
      return Error{"preempt: " + name + " would not be safe in this program: " + safe.error()};
    }
  } else {
    static_cast<void>(interposers_attach());  // without them, a checkpoint may leave a lock held
  }
  if (options.stack_bytes < min_stack_bytes(options.preempt)) {
    return Error{"stack: preempt " + name + " needs at least " +
                 format_size(min_stack_bytes(options.preempt)) +
                 ", for the state of interrupted code; got " + format_size(options.stack_bytes)};
  }
  const bool self = options.preemption_clock == PreemptionClock::kSelf;
  if (options.preempt == PreemptMechanism::kTimer && !self) {
    return Error{"preempt: with timer every worker is its own clock, there is no timer core"};
  }
  if (is_asynchronous(options.preempt) && options.preempt != PreemptMechanism::kTimer && self) {
    options.preemption_clock = PreemptionClock::kTimerCore;
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<PolicyRuntime>> PolicyRuntime::make(const RuntimeOptions& given,
                                                           HostState& host_state,
                                                           Datapath& datapath,
                                                           Application& application) {
  Status fits = check_bounds(given, datapath);
  if (!fits.ok()) return Error{fits.error()};
  const auto limits = limiter_settings(given);
  if (!limits.ok()) return Error{limits.error()};
  const auto resolved = resolve_options(given);
  if (!resolved.ok()) return Error{resolved.error()};
  const RuntimeOptions& options = resolved.value();
  for (const LivePolicy* policy : live_policies()) {
    if (options.policy != policy->name) continue;
    if (policy->create == nullptr) {
      return Error{"policy: '" + options.policy +
                   "' is simulated only, it stands for hardware; use rubato sim"};
    }
    auto cpus = choose_cpus(options);
    if (!cpus.ok()) return Error{cpus.error()};
    return policy->create(options, std::move(*cpus), host_state, datapath, application);
  }
  return Error{"policy: '" + options.policy + "' is not one of " + names_of_live_policies()};
}

// The region covers the time until the worker itself is marked as out of the application.
Request* recv() {
  preempt_disable();
  CurrentWorker* worker = current_worker();
  worker->leave_application();
  preempt_enable_no_resched();
  return worker->recv();
}

// A long reply leaves in pieces: the kernel's copy of a megabyte could not be preempted.
void send(Request& request) {
  while (request.reply->size() > kReplyPieceBytes && flush_piece(request)) checkpoint();
  if (request.has_locals) clear_fiber_locals(request);
  preempt_disable();
  CurrentWorker* worker = current_worker();
  worker->leave_application();
  preempt_enable_no_resched();
  worker->send(request);
}

}  // namespace rubato
