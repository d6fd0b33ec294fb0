// SPDX-License-Identifier: Apache-2.0
//
// LiveRuntime<P>: the workers of a runtime under one policy, and their threads. See
// runtime/policy_runtime.h.
#pragma once

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "mechanism/cpu/pin.h"
#include "mechanism/cpu/pause.h"
#include "runtime/live_worker.h"
#include "runtime/overseer.h"
#include "runtime/policy_runtime.h"
#include "runtime/timer_core.h"
#include "runtime/workers_left.h"

namespace rubato {

template <Policy P>
class LiveRuntime final : public PolicyRuntime {
 public:
  LiveRuntime(P policy, const RuntimeOptions& options, std::vector<uint32_t> cpus,
              HostState& host_state, Datapath& datapath, Application& application)
      : shared_(policy, options, host_state, datapath, application),
        cpus_(std::move(cpus)),
        timer_core_(shared_, workers_),
        overseer_(shared_, workers_) {
    for (uint32_t i = 0; i < options.workers; ++i) {
      workers_.push_back(std::make_unique<LiveWorker<P>>(shared_, WorkerId{i},
                                                         host_state.records_of(i)));
      shared_.worker_stats.push_back(&workers_.back()->context().stats);
    }
  }

  bool prepare() override {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const auto& worker) { return worker->prepare(); });
  }

  void run() override {
    RUBATO_CHECK(prepare());
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < workers_.size(); ++i) threads.emplace_back([this, i] { work(i); });
    WorkersLeft workers_left;
    std::thread timer;
    if (shared_.options.preemption_clock == PreemptionClock::kTimerCore) {
      timer = std::thread([this, &workers_left] { tick(workers_left); });
    } else if (overseer_.is_needed()) {
      timer = std::thread([this, &workers_left] { overseer_.watch(workers_left); });
    }
    // The timer core writes to words of the workers' threads, so it stops before they do.
    shared_.waits.reactor().serve();
    shared_.shutdown.wait_until_over();
    workers_left.end();
    if (timer.joinable()) timer.join();
    timer_gone_.store(true, std::memory_order_release);
    timer_gone_.notify_all();
    for (auto& thread : threads) thread.join();
    RUBATO_DCHECK(shared_.shutdown.failed() || shared_.fibers.unfinished() == 0);
  }

  bool run_here(WorkerId id) override {
    LiveWorker<P>& worker = *workers_[id.value];
    RUBATO_CHECK(worker.prepare());
    if (!worker.run()) return false;
    worker.detach();
    return true;
  }

  void wake_all() override { shared_.wakeups.wake_all(); }
  Waits& waits() override { return shared_.waits; }
  void poll_timer() override { timer_core_.poll(); }
  overload::CoreSignals manage_cores(std::optional<uint32_t> most, bool fresh) override {
    return shared_.core_looks.manage(now(), most, fresh);
  }

  const std::vector<const WorkerStats*>& worker_stats() const override {
    return shared_.worker_stats;
  }
  void add_to(RuntimeStats& sum) const override {
    for (const auto& worker : workers_) {
      sum.steals += worker->context().host.steals().value();
      sum.stolen += worker->context().host.stolen().value();
    }
    const CoreControl::Counts cores = shared_.cores.counts();
    sum.cores_granted += cores.granted;
    sum.core_parks += cores.parked;
    sum.core_grants += cores.grants;
    sum.limiter.reset();
    if (shared_.limiter) sum.limiter = shared_.limiter->report();
    sum.core_self_unparks += cores.self_unparks;
    sum.moved += shared_.managers.sent();
    sum.fibers += shared_.fibers.made();
  }
  std::vector<QueueDepth> queue_depths() const override {
    std::vector<QueueDepth> depths;
    for (uint32_t declaration = 0; declaration < std::size(P::kQueues); ++declaration) {
      for (uint32_t index = 0; index < shared_.queues.queue_count(declaration); ++index) {
        depths.push_back({P::kQueues[declaration].name, index,
                          shared_.queues.depth({declaration, index})});
      }
    }
    return depths;
  }
  size_t stack_high_water_bytes() const override {
    return shared_.fibers.stack_high_water_bytes();
  }
  size_t stack_resident_bytes(bool release) override {
    if (release) shared_.fibers.release_parked();
    return shared_.fibers.stack_resident_bytes();
  }
  std::vector<std::string> explain(const TypeNames& name_of, uint32_t types) const override {
    typename P::Plan plan = hook::initial_plan(shared_.policy);
    uint32_t seen = 0;
    while (!shared_.plan.refresh(plan, seen)) std::this_thread::yield();  // it is being written
    Explanation out(name_of, types);
    hook::explain(shared_.policy, plan, shared_.options.workers, out);
    return out.take();
  }
  const RuntimeOptions& options() const override { return shared_.options; }

 private:
  void work(uint32_t index) {
    if (!cpus_.empty()) static_cast<void>(pin_this_thread(cpus_[index]).ok());
    static_cast<void>(workers_[index]->run());
    timer_gone_.wait(false, std::memory_order_acquire);
    workers_[index]->detach();
  }

  // Polls without rest while a slice is armed, naps otherwise, and sleeps while all workers do.
  void tick(WorkersLeft& workers_left) {
    while (workers_left.any()) {
      const bool armed = timer_core_.poll();
      overseer_.look();
      if (armed || shared_.options.idle == Idle::kSpin) {
        cpu_pause();
      } else if (shared_.sleepers.all_asleep()) {
        shared_.sleepers.wait_while_all_asleep();
      } else {
        workers_left.pause(kTick);
      }
    }
  }

  static constexpr Nanos kTick = Nanos::micros(50);

  mutable RuntimeState<P> shared_;
  std::vector<uint32_t> cpus_;
  std::vector<std::unique_ptr<LiveWorker<P>>> workers_;
  TimerCore<P> timer_core_;
  Overseer<P> overseer_;
  std::atomic<bool> timer_gone_{false};
};

}  // namespace rubato
