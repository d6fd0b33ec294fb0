// SPDX-License-Identifier: Apache-2.0
//
// ReconfigurableRuntime: the Runtime, whose policy and other options of the scheduler change while
// it serves. Each policy has workers of its own (PolicyRuntime). A change makes the next ones,
// holds those that serve until they have answered what they had taken in (runtime/hold.h), and
// starts the next; what outlives them is in HostState, and counters go on where they were.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "runtime/host_state.h"
#include "runtime/lent.h"
#include "runtime/policy_runtime.h"
#include "runtime/runtime.h"

namespace rubato {

class ReconfigurableRuntime final : public Runtime {
 public:
  ReconfigurableRuntime(std::unique_ptr<HostState> host_state,
                        std::unique_ptr<PolicyRuntime> first, Datapath& datapath,
                        Application& application, PreemptionClock asked_clock);

  void set_server_loop(std::function<void()> loop) override;
  bool run() override;
  std::optional<bool> run_here(WorkerId worker) override;
  std::optional<bool> stop_if_drained() override;
  void stop() override;
  Status change(const SchedulerOptions& options) override;
  Status change(const std::function<Status(SchedulerOptions& options)>& edit) override;
  SchedulerOptions scheduler_options() const override;

  LiveSettings& settings() const override { return host_state_->settings; }
  Waits& waits() override { return current_.owned().waits(); }
  bool serving() const override;
  void poll_timer() override;
  overload::CoreSignals manage_cores(std::optional<uint32_t> most, bool fresh) override;

  RuntimeStats stats() const override;
  std::vector<QueueDepth> queue_depths() const override;
  std::vector<WorkerActivity> activity() const override;
  size_t stack_high_water_bytes() const override;
  size_t stack_resident_bytes(bool release) override;
  Nanos queue_delay(JobClass job_class) const override;
  Nanos refuses_for(JobClass job_class) const override;
  Histogram latency(uint32_t type) const override;
  Histogram service(uint32_t type) const override;
  ServedFigures served(uint32_t type) const override;
  std::vector<BlockedPair> blocked() const override;
  GroupFigures group(uint32_t group) const override;
  uint64_t finished(WorkerId worker, uint32_t type) const override;
  Histogram overrun() const override;
  std::vector<ArrivalSlots*> arrivals() override;
  std::vector<RequestRing*> request_rings() override;
  std::vector<TraceRing*> trace_rings() override;
  const RuntimeOptions& options() const override;
  std::vector<std::string> explain_policy(const TypeNames& name_of,
                                          uint32_t types) const override;

 private:
  void starts();
  const RuntimeOptions& asked_for() const;
  SchedulerOptions asked_of_scheduler() const;
  Status change_locked(const SchedulerOptions& wanted);
  void take_next();
  void begin_with(std::unique_ptr<PolicyRuntime> next);
  uint64_t awake_ns() const;
  template <class F>
  void each_worker(F&& f) const;

  const std::unique_ptr<HostState> host_state_;
  Datapath& datapath_;
  Application& application_;

  mutable std::mutex changing_;  // guards the next three, and orders changes
  PreemptionClock asked_clock_;  // as it was asked for, which the mechanism may have changed
  std::unique_ptr<PolicyRuntime> next_;  // null = no change is underway
  bool started_ = false;

  // Guards what follows against a change; readers share it. Stop, the timer's steps and the hot
  // paths read `current_` without.
  mutable std::shared_mutex mutex_;
  Lent<PolicyRuntime> current_;
  std::vector<WorkerStats> past_;      // of the workers before these, by worker
  RuntimeStats past_sums_;             // likewise, PolicyRuntime::add_to
  std::deque<RuntimeOptions> options_;  // as they were in force; all are kept, as readers have them
  std::atomic<uint64_t> changes_{0};
  std::atomic<int64_t> started_ns_{0};
};

}  // namespace rubato
