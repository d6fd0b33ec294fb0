// SPDX-License-Identifier: Apache-2.0
//
// PolicyRuntime: the workers of a runtime under one policy, from their start until the runtime
// stops or changes its policy (runtime/reconfigurable_runtime.h, which owns it).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/host_state.h"
#include "runtime/runtime.h"
#include "runtime/worker_stats.h"

namespace rubato {

class PolicyRuntime {
 public:
  virtual ~PolicyRuntime() = default;

  // Fails with one line for options that do not fit each other, the datapath or the machine; all
  // else outlives what is made.
  static Result<std::unique_ptr<PolicyRuntime>> make(const RuntimeOptions& options,
                                                     HostState& host_state, Datapath& datapath,
                                                     Application& application);

  // Makes what the workers begin with, before they run. False: there is no memory for it.
  virtual bool prepare() = 0;

  // Starts the workers, and blocks until they have ended: see HostState::shutdown.
  virtual void run() = 0;
  // Runs one worker on the calling thread, as Runtime::run_here. True = it has ended.
  virtual bool run_here(WorkerId worker) = 0;

  // Any thread; safe in a signal handler.
  virtual void wake_all() = 0;
  virtual Waits& waits() = 0;
  // As Runtime::poll_timer and Runtime::manage_cores.
  virtual void poll_timer() = 0;
  virtual overload::CoreSignals manage_cores(std::optional<uint32_t> most, bool fresh) = 0;

  // Any thread, each.
  virtual const std::vector<const WorkerStats*>& worker_stats() const = 0;
  // Adds what is counted elsewhere than in worker_stats().
  virtual void add_to(RuntimeStats& sum) const = 0;
  virtual std::vector<QueueDepth> queue_depths() const = 0;
  virtual size_t stack_high_water_bytes() const = 0;
  // As Runtime::stack_resident_bytes.
  virtual size_t stack_resident_bytes(bool release) = 0;
  virtual std::vector<std::string> explain(const TypeNames& name_of, uint32_t types) const = 0;
  virtual const RuntimeOptions& options() const = 0;
};

}  // namespace rubato
