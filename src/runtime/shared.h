// SPDX-License-Identifier: Apache-2.0
//
// Shared<P>: what the seats of one runtime share: queues, the published plan, the central seat's
// state behind a try-lock, the fibers, and the run state. Built before the workers start.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "datapath/datapath.h"
#include "mechanism/clock/clock.h"
#include "mechanism/queue/steal_queue.h"
#include "policy/contract.h"
#include "runtime/app.h"
#include "runtime/core_control.h"
#include "runtime/fiber_pool.h"
#include "runtime/live_host.h"
#include "runtime/managers.h"
#include "runtime/options.h"
#include "runtime/plan_cell.h"
#include "runtime/queue_set.h"
#include "runtime/sleepers.h"
#include "runtime/turn.h"

namespace rubato {

// kRunning -> kDraining (stop was asked for) -> kStopped (nothing left, or the limit has passed).
enum class RunState : uint8_t { kRunning, kDraining, kStopped };

template <Policy P>
class Shared {
 public:
  Shared(P the_policy, const RuntimeOptions& opts, Datapath& dp, Application& app)
      : policy(the_policy),
        options(opts),
        datapath(dp),
        application(app),
        commons(opts.workers, managers(the_policy, opts.workers), &dp),
        queues(policy, opts.workers, opts.inbox_capacity, opts.shared_capacity),
        fibers(opts.stack_bytes, opts.max_fibers, is_asynchronous(opts.preempt)),
        slow_threshold_ns(opts.slow_threshold.count()),
        sleepers(opts.workers),
        cores(rule_of(opts), opts.workers, opts.guaranteed_cores, opts.credits),
        watched_(opts.workers),
        central_host_(queues, plan, hook::initial_plan(policy), opts.workers, worker_stats,
                      commons, 0),
        managers_(policy, queues, plan, opts.workers, worker_stats, commons) {
    plan.publish(hook::initial_plan(policy));
    for (uint32_t i = 0; i < opts.workers; ++i) {
      control.push_back(std::make_unique<StealQueue<Job*>>(opts.inbox_capacity));
    }
  }

  // The slow path of the policy, if it is due and nobody else is at it.
  void adapt_if_due(Instant at) {
    if (at.ns() < next_adapt_ns_.load(std::memory_order_relaxed)) return;
    central_turn_.take([&] {
      if (at.ns() < next_adapt_ns_.load(std::memory_order_relaxed)) return;  // somebody else did
      central_host_.set_now(at);
      central_host_.refresh_plan();
      const Nanos period = hook::adapt_period(policy);
      if (period != Nanos::max()) {
        plan.publish(hook::adapt(policy, central_, central_host_));
        next_adapt_ns_.store((at + period).ns(), std::memory_order_relaxed);
      } else {
        next_adapt_ns_.store(Instant::never().ns(), std::memory_order_relaxed);
      }
    });
  }

  // The policy pushes, here or by the thread that is at it.
  void dispatch(Instant at) {
    central_turn_.take([&] {
      central_host_.set_now(at);
      central_host_.refresh_plan();
      hook::dispatch(policy, central_, central_host_);
      central_host_.take_pushed([this](WorkerId worker) { wake(worker); });
    });
  }

  // The allocator of cores, if it is due and nobody else is at it.
  void look_at_cores(Instant at) {
    if (!cores.allocates() || !cores.due(at)) return;
    const uint32_t granted =
        cores.look(at, [&](WorkerId worker) { return signs_of(worker, at); }, stranded(at));
    if (granted != CoreControl::kNobody) datapath.queue({granted}).wake();
    call_parked();
  }

  // Calls parked workers for what somebody has put where only they take it. Who puts it calls them
  // too, but for a pipeline's next command; this is what a limit of the sleep is to other sleepers.
  void call_parked() {
    for (uint32_t i = 0; i < options.workers; ++i) {
      if (cores.has_core({i}) || !queues.pushed_to({i})) continue;
      cores.call({i});
      datapath.queue({i}).wake();
    }
  }

  // The managers' steps: of the one whose group the worker is in, or of all.
  void manage_for(WorkerId worker, Instant at) {
    managers_.step_for(worker, at, waker(), group_waker());
  }
  void manage_all(Instant at) { managers_.step_all(at, waker(), group_waker()); }
  uint64_t sent_between_managers() const { return managers_.sent(); }

  // Where requests that come in at this worker are put, unless the policy says otherwise.
  uint32_t arrival_lane(WorkerId worker) const {
    switch (P::kQueues[0].scope) {
      case Scope::kGlobal: return 0;
      case Scope::kPerWorker: return worker.value;
      case Scope::kPerManager: return manager_of(policy, worker, options.workers).value;
    }
    return 0;
  }

  // Ends the sleep of a worker that has something to do which others would not do. Any thread.
  void wake(WorkerId worker) {
    if (sleepers.claim(worker) || (cores.allocates() && cores.call(worker))) {
      datapath.queue(worker).wake();
    }
  }

  // Wakes one worker that sleeps, if there is one, to see what it can do. Any thread.
  void wake_any(WorkerId from) {
    const uint32_t woken = sleepers.claim_one(from, [](WorkerId) { return true; });
    if (woken != Sleepers<>::kNobody) datapath.queue({woken}).wake();
  }

  // Something was put into `q` that the worker `from` may not come to serve soon: wakes one that
  // will, if it sleeps; where none that sleeps may and `from` may not either, also one whose core
  // is parked. One wake at the most, whatever the number of workers.
  template <class H>
  void wake_for(QueueRef q, WorkerId from, H& host) {
    const auto may = [&](WorkerId worker) { return may_serve(q, worker, host); };
    const uint32_t woken = sleepers.claim_one(from, may);
    if (woken != Sleepers<>::kNobody) return datapath.queue({woken}).wake();
    if (cores.allocates() && !may(from)) call_one(may);
  }

  // The same for everything that waits where several workers may take it.
  template <class H>
  void wake_for_waiting(WorkerId from, H& host) {
    queues.for_each_waiting([&](QueueRef q) {
      if (!sleepers.all_awake()) wake_for(q, from, host);
    });
    if (!sleepers.all_awake() && queues.any_to_steal()) wake_any(from);
  }

  // May that worker come to take what is in this queue?
  template <class H>
  bool may_serve(QueueRef q, WorkerId worker, H& host) const {
    const QueueSpec& spec = P::kQueues[q.spec];
    switch (spec.scope) {
      case Scope::kGlobal: return hook::may_serve(policy, q, worker, host);
      case Scope::kPerManager: return manager_of(policy, worker, options.workers).value == q.lane;
      case Scope::kPerWorker: break;
    }
    return spec.sharing == Sharing::kStealable || q.lane == worker.value;
  }

  RunState state() const { return state_.load(std::memory_order_acquire); }

  void wait_until_stopped() const {
    for (RunState seen = state(); seen != RunState::kStopped; seen = state()) {
      state_.wait(seen, std::memory_order_acquire);
    }
  }

  // Any thread; safe in a signal handler.
  void ask_to_stop() {
    int64_t never = 0;
    drain_began_ns_.compare_exchange_strong(never, now().ns(), std::memory_order_relaxed);
    RunState expected = RunState::kRunning;
    state_.compare_exchange_strong(expected, RunState::kDraining, std::memory_order_acq_rel);
    wake_all();
  }

  // Since the order to stop; below 0 = there was none.
  Nanos drained_for(Instant at) const {
    const int64_t began = drain_began_ns_.load(std::memory_order_relaxed);
    return began != 0 ? at - Instant(began) : Nanos(-1);
  }

  // Workers call this while draining. True = stop now: nothing is left, or what is does not end
  // although it has been told to.
  bool drained(Instant at) {
    if (!drain_started_.test_and_set(std::memory_order_acq_rel)) datapath.drain();
    const bool empty = datapath.in_flight() == 0;
    const Nanos since = drained_for(at);
    if (!empty && since < options.drain_limit + kEndLimit) return false;
    if (!empty) drain_failed.store(true, std::memory_order_relaxed);
    state_.store(RunState::kStopped, std::memory_order_release);
    state_.notify_all();
    wake_all();
    return true;
  }

  void wake_all() {
    for (uint32_t i = 0; i < options.workers; ++i) {
      cores.call({i});
      datapath.queue({i}).wake();
    }
  }

  // Is the worker awake and has not looked after its arrivals for long: in a request that is not
  // preempted, or without a CPU?
  bool is_stuck(WorkerId worker, Instant at) const { return stuck_for(worker, at) >= kStuck; }
  // So long that another worker should look after its arrivals from now on; before that it does
  // when something has come. Workers without a CPU get it back within milliseconds.
  bool is_stuck_for_long(WorkerId worker, Instant at) const {
    return stuck_for(worker, at) >= kStuckForLong;
  }

  // A stuck worker whose arrivals end the sleep of another, which sets and clears this.
  std::atomic<bool>& watched(WorkerId worker) { return watched_[worker.value].value; }

  const P policy;
  const RuntimeOptions options;
  Datapath& datapath;
  Application& application;
  Commons commons;
  QueueSet<P> queues;
  PlanCell<typename P::Plan> plan;
  // Control-plane requests wait apart, one queue per worker, open to thieves.
  std::vector<std::unique_ptr<StealQueue<Job*>>> control;
  // Of every worker, filled before the first of them starts.
  std::vector<const WorkerStats*> worker_stats;
  FiberPool fibers;
  std::atomic<int64_t> slow_threshold_ns;
  std::function<void()> server_loop;
  std::atomic<bool> drain_failed{false};
  Sleepers<> sleepers;
  CoreControl cores;

 private:
  static constexpr Nanos kEndLimit = Nanos::millis(100);
  static constexpr Nanos kStuck = Nanos::micros(100);
  static constexpr Nanos kStuckForLong = Nanos::millis(5);

  Nanos stuck_for(WorkerId worker, Instant at) const {
    const int64_t polled = worker_stats[worker.value]->polled_ns.load(std::memory_order_relaxed);
    return polled != WorkerStats::kAsleep ? at - Instant(polled) : Nanos();
  }

  // Requires options that Runtime::create has accepted.
  static std::unique_ptr<overload::CoreRule> rule_of(const RuntimeOptions& options) {
    if (!options.allocates_cores()) return nullptr;
    return std::move(overload::CoreRule::make(options.cores, options.cores_settings,
                                              options.workers, kCoreTimeScale)
                         .value());
  }

  struct alignas(limits::kCacheLineBytes) Flag {
    std::atomic<bool> value{false};
  };

  auto waker() {
    return [this](WorkerId worker) { wake(worker); };
  }
  auto group_waker() {
    return [this](ManagerId group) {
      const auto in_group = [&](WorkerId worker) {
        return manager_of(policy, worker, options.workers) == group;
      };
      const uint32_t woken = sleepers.claim_one({0}, in_group);
      if (woken != Sleepers<>::kNobody) return datapath.queue({woken}).wake();
      if (cores.allocates()) call_one(in_group);
    };
  }

  template <class May>
  void call_one(May&& may) {
    for (uint32_t i = 0; i < options.workers; ++i) {
      if (!may(WorkerId{i}) || !cores.call({i})) continue;
      datapath.queue({i}).wake();
      return;
    }
  }

  // The arrivals in the kernel are asked for only where nobody has for long: it is a system call.
  CoreControl::Signs signs_of(WorkerId worker, Instant at) {
    const WorkerStats& stats = *worker_stats[worker.value];
    const int64_t since = stats.busy_since_ns.load(std::memory_order_relaxed);
    CoreControl::Signs signs;
    signs.busy = Nanos(static_cast<int64_t>(stats.busy_ns.value())) +
                 (since != 0 ? at - Instant(since) : Nanos());
    signs.finished = stats.requests.value();
    signs.serves = since != 0;
    signs.waits = queues.depth({0, arrival_lane(worker)}) > 0 ||
                  (is_stuck(worker, at) && datapath.queue(worker).pending());
    return signs;
  }

  // Does something wait at a parked worker, and the minder cannot look after it?
  bool stranded(Instant at) {
    if (!is_stuck(CoreControl::minder(), at)) return false;
    for (uint32_t i = 0; i < options.workers; ++i) {
      if (cores.minded({i}).load(std::memory_order_acquire) && datapath.queue({i}).pending()) {
        return true;
      }
    }
    return false;
  }

  std::vector<Flag> watched_;
  std::atomic<RunState> state_{RunState::kRunning};
  std::atomic_flag drain_started_{};
  std::atomic<int64_t> drain_began_ns_{0};  // relaxed: a time; 0 = nobody has asked to stop
  Turn<> central_turn_;
  std::atomic<int64_t> next_adapt_ns_{0};
  typename P::Central central_{};
  LiveHost<P> central_host_;
  Managers<P> managers_;
};

}  // namespace rubato
