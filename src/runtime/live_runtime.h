// SPDX-License-Identifier: Apache-2.0
//
// LiveRuntime<P>: the Runtime of one policy: threads, and sums over workers. See runtime/runtime.h.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "mechanism/cpu/pin.h"
#include "mechanism/cpu/pause.h"
#include "runtime/live_worker.h"
#include "runtime/overseer.h"
#include "runtime/runtime.h"
#include "runtime/timer_core.h"

namespace rubato {

template <Policy P>
class LiveRuntime final : public Runtime {
 public:
  LiveRuntime(P policy, const RuntimeOptions& options, std::vector<uint32_t> cpus,
              Datapath& datapath, Application& application)
      : shared_(policy, options, datapath, application),
        cpus_(std::move(cpus)),
        timer_core_(shared_, workers_),
        overseer_(shared_, workers_) {
    for (uint32_t i = 0; i < options.workers; ++i) {
      workers_.push_back(std::make_unique<LiveWorker<P>>(shared_, WorkerId{i}, i + 1));
      shared_.worker_stats.push_back(&workers_.back()->context().stats);
    }
    shared_.server_loop = [&application, foreign = options.foreign_runtime] {
      while (Request* request = rubato::recv()) {
        foreign ? handle_on_thread(application, *request) : application.handle(*request);
        rubato::send(*request);
      }
    };
  }

  void set_server_loop(std::function<void()> loop) override {
    shared_.server_loop = std::move(loop);
  }

  bool run() override {
    std::vector<std::thread> threads;
    started_ns_.store(now().ns(), std::memory_order_relaxed);
    for (const auto& worker : workers_) worker->prepare();
    for (uint32_t i = 0; i < workers_.size(); ++i) threads.emplace_back([this, i] { work(i); });
    std::atomic<bool> workers_left{true};
    std::thread timer;
    if (shared_.options.preemption_clock == PreemptionClock::kTimerCore) {
      timer = std::thread([this, &workers_left] { tick(workers_left); });
    } else if (overseer_.is_needed()) {
      timer = std::thread([this, &workers_left] { overseer_.watch(workers_left); });
    }
    // The timer core writes to words of the workers' threads, so it stops before they do.
    shared_.shutdown.wait_until_stopped();
    workers_left.store(false, std::memory_order_release);
    if (timer.joinable()) timer.join();
    timer_gone_.store(true, std::memory_order_release);
    timer_gone_.notify_all();
    for (auto& thread : threads) thread.join();
    const bool drained = !shared_.shutdown.failed();
    RUBATO_DCHECK(!drained || shared_.fibers.unfinished() == 0);
    return drained;
  }

  std::optional<bool> run_here() override {
    LiveWorker<P>& worker = *workers_[0];
    if (started_ns_.load(std::memory_order_relaxed) == 0) {
      started_ns_.store(now().ns(), std::memory_order_relaxed);
      worker.prepare();
    }
    if (!worker.run()) return std::nullopt;
    worker.detach();
    return !shared_.shutdown.failed();
  }

  void stop() override { shared_.ask_to_stop(); }
  void set_slow_threshold(Nanos threshold) override {
    shared_.slow_threshold_ns.store(threshold.count(), std::memory_order_relaxed);
  }
  LiveSettings& settings() const override { return shared_.settings; }
  bool serving() const override { return shared_.shutdown.running(); }
  void poll_timer() override { timer_core_.poll(); }

  RuntimeStats stats() const override;
  std::vector<QueueDepth> queue_depths() const override;
  std::vector<WorkerActivity> activity() const override;
  size_t stack_high_water_bytes() const override {
    return shared_.fibers.stack_high_water_bytes();
  }
  Nanos queue_delay(JobClass job_class) const override {
    Nanos longest;
    for (const WorkerStats* worker : shared_.worker_stats) {
      longest = std::max(longest, worker->delay.of(job_class));
    }
    return longest;
  }

  Nanos refuses_for(JobClass job_class) const override {
    for (const WorkerStats* worker : shared_.worker_stats) {
      if (!worker->overloaded.load(std::memory_order_relaxed)) return {};
    }
    const bool is_long = job_class == JobClass::kLong;
    const Nanos least = shared_.settings.refusal_rule().refuse_delay(is_long);
    return std::max(queue_delay(job_class), least);
  }

  Histogram latency(uint32_t type) const override {
    return merged(type, [](const TypeStats& stats) { return stats.latency.snapshot(); });
  }
  Histogram service(uint32_t type) const override {
    return merged(type, [](const TypeStats& stats) { return stats.service.snapshot(); });
  }
  uint64_t finished(WorkerId worker, uint32_t type) const override {
    const TypeStats* stats = workers_[worker.value]->context().stats.find_type(type);
    return stats != nullptr ? stats->latency.snapshot().count() : 0;
  }
  Histogram overrun() const override {
    Histogram sum;
    for (const auto& worker : workers_) sum.merge(worker->context().stats.overrun.snapshot());
    return sum;
  }
  std::vector<ArrivalSlots*> arrivals() override {
    std::vector<ArrivalSlots*> slots;
    for (const auto& worker : workers_) {
      if (worker->context().arrivals != nullptr) slots.push_back(worker->context().arrivals.get());
    }
    return slots;
  }
  const RuntimeOptions& options() const override { return shared_.options; }
  std::vector<std::string> explain_policy(const TypeNames& name_of,
                                          uint32_t types) const override {
    typename P::Plan plan = hook::initial_plan(shared_.policy);
    uint32_t seen = 0;
    while (!shared_.plan.refresh(plan, seen)) std::this_thread::yield();  // it is being written
    Explanation out(name_of, types);
    hook::explain(shared_.policy, plan, shared_.options.workers, out);
    return out.take();
  }

 private:
  void work(uint32_t index) {
    if (!cpus_.empty()) static_cast<void>(pin_this_thread(cpus_[index]).ok());
    static_cast<void>(workers_[index]->run());
    timer_gone_.wait(false, std::memory_order_acquire);
    workers_[index]->detach();
  }

  // Polls without rest while a slice is armed, naps otherwise, and sleeps while all workers do.
  void tick(const std::atomic<bool>& workers_left) {
    while (workers_left.load(std::memory_order_acquire)) {
      const bool armed = timer_core_.poll();
      overseer_.look();
      if (armed || shared_.options.idle == Idle::kSpin) {
        cpu_pause();
      } else if (shared_.sleepers.all_asleep()) {
        shared_.sleepers.wait_while_all_asleep();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

  // Time that all workers together were awake since the start.
  Nanos awake() const {
    const int64_t started = started_ns_.load(std::memory_order_relaxed);
    if (started == 0) return {};
    const int64_t at = now().ns();
    Nanos sum;
    for (const auto& worker : workers_) {
      const WorkerStats& stats = worker->context().stats;
      const int64_t since = stats.asleep_since_ns.load(std::memory_order_relaxed);
      const auto asleep = static_cast<int64_t>(stats.asleep_ns.value());
      sum += Nanos((since != 0 ? since : at) - started - asleep);
    }
    return sum;
  }

  template <class F>
  Histogram merged(uint32_t type, F&& snapshot) const {
    Histogram sum;
    for (const auto& worker : workers_) {
      const TypeStats* stats = worker->context().stats.find_type(type);
      if (stats != nullptr) sum.merge(snapshot(*stats));
    }
    return sum;
  }

  mutable RuntimeState<P> shared_;
  std::vector<uint32_t> cpus_;
  std::vector<std::unique_ptr<LiveWorker<P>>> workers_;
  TimerCore<P> timer_core_;
  Overseer<P> overseer_;
  std::atomic<bool> timer_gone_{false};
  std::atomic<int64_t> started_ns_{0};
};

inline void add_refusals(const WorkerStats& one, RuntimeStats& sum) {
  for (uint32_t why = 0; why < kRefusals; ++why) {
    for (const JobClass job_class : {JobClass::kShort, JobClass::kLong}) {
      sum.refusals[why][static_cast<size_t>(job_class)] +=
          one.refused_for(static_cast<Refusal>(why), job_class).value();
    }
  }
  sum.overloaded += one.overloaded.load(std::memory_order_relaxed) ? 1u : 0u;
}

inline void add_refusals(const CreditReport& credits, RuntimeStats& sum) {
  for (uint32_t why = 0; why < kRefusals; ++why) {
    for (size_t job_class = 0; job_class < sum.refusals[why].size(); ++job_class) {
      sum.refusals[why][job_class] += credits.refusals[why][job_class];
      sum.refused += credits.refusals[why][job_class];
    }
  }
}

template <Policy P>
RuntimeStats LiveRuntime<P>::stats() const {
  RuntimeStats sum;
  if (shared_.options.credits != nullptr) add_refusals(shared_.options.credits->report(), sum);
  for (const auto& worker : workers_) {
    const WorkerStats& one = worker->context().stats;
    sum.requests += one.requests.value();
    sum.refused += one.refused.value();
    add_refusals(one, sum);
    sum.cancelled += one.cancelled.value();
    sum.preemptions += one.preemptions.value();
    sum.preemptions_avoided += one.preemptions_avoided.value();
    sum.preemptions_denied += one.preemptions_denied.value();
    sum.preemptions_deferred += one.preemptions_deferred.value();
    sum.lock_yields += one.lock_yields.value();
    sum.stuck_left += one.stuck_left.value();
    sum.resumed += one.resumed.value();
    sum.long_by_feedback += one.long_by_feedback.value();
    sum.long_by_age += one.long_by_age.value();
    sum.long_learned += one.long_learned.value();
    sum.helped += one.helped.value();
    sum.parked += one.parked.value();
    sum.woken += one.woken.value();
    sum.busy_ns += one.busy_ns.value();
    sum.quanta.emplace_back(one.quantum_ns.load(std::memory_order_relaxed));
    sum.steals += worker->context().host.steals().value();
    sum.stolen += worker->context().host.stolen().value();
  }
  sum.awake_ns = static_cast<uint64_t>(std::max<int64_t>(awake().count(), 0));
  const CoreControl::Counts cores = shared_.cores.counts();
  sum.cores_granted = cores.granted;
  sum.core_parks = cores.parked;
  sum.core_grants = cores.grants;
  sum.core_self_unparks = cores.self_unparks;
  sum.moved = shared_.managers.sent();
  sum.fibers = shared_.fibers.made();
  return sum;
}

template <Policy P>
std::vector<WorkerActivity> LiveRuntime<P>::activity() const {
  std::vector<WorkerActivity> all;
  const Instant at = now();
  for (const WorkerStats* worker : shared_.worker_stats) {
    WorkerActivity& one = all.emplace_back();
    const int64_t polled = worker->polled_ns.load(std::memory_order_relaxed);
    const int64_t since = worker->busy_since_ns.load(std::memory_order_relaxed);
    one.asleep = polled == WorkerStats::kAsleep;
    one.busy = since != 0;
    one.type = worker->busy_type.load(std::memory_order_relaxed);
    if (one.busy) one.busy_for = std::max(at - Instant(since), Nanos());
    if (!one.asleep) one.unpolled = std::max(at - Instant(polled), Nanos());
    one.suspended = worker->suspended();
  }
  return all;
}

template <Policy P>
std::vector<QueueDepth> LiveRuntime<P>::queue_depths() const {
  std::vector<QueueDepth> depths;
  for (uint32_t declaration = 0; declaration < std::size(P::kQueues); ++declaration) {
    for (uint32_t index = 0; index < shared_.queues.queue_count(declaration); ++index) {
      depths.push_back({P::kQueues[declaration].name, index,
                        shared_.queues.depth({declaration, index})});
    }
  }
  return depths;
}

}  // namespace rubato
