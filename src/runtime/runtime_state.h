// SPDX-License-Identifier: Apache-2.0
//
// RuntimeState<P>: the state that the contexts of one runtime share under one policy: the queues,
// the published plan, the fibers, and the parts that wake, watch and stop workers. Built before the
// workers start, in this order; each part says which threads may call it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "datapath/datapath.h"
#include "policy/contract.h"
#include "runtime/app.h"
#include "runtime/central_context.h"
#include "runtime/shared_state.h"
#include "runtime/core_control.h"
#include "runtime/core_looks.h"
#include "runtime/fiber_pool.h"
#include "runtime/group_queues.h"
#include "runtime/hold.h"
#include "runtime/host_state.h"
#include "runtime/live_limiter.h"
#include "runtime/live_settings.h"
#include "runtime/managers.h"
#include "runtime/options.h"
#include "runtime/plan_cell.h"
#include "runtime/queue_set.h"
#include "runtime/shutdown.h"
#include "runtime/sleepers.h"
#include "runtime/stuck_workers.h"
#include "runtime/wait_port.h"
#include "runtime/wakeups.h"
#include "runtime/worker_tracer.h"
#include "sched/limiter_options.h"

namespace rubato {

template <Policy P>
struct RuntimeState {
  RuntimeState(P the_policy, const RuntimeOptions& opts, HostState& host_state, Datapath& dp,
               Application& app)
      : policy(the_policy),
        options(opts),
        datapath(dp),
        application(app),
        shared_state(opts.workers, rubato::managers(the_policy, opts.workers), &dp),
        queues(policy, opts.workers, opts.inbox_capacity, opts.shared_capacity),
        groups(opts.workers, kFirstOwnGroup + static_cast<uint32_t>(opts.groups.own.size()),
               opts.inbox_capacity, opts.max_fibers),
        fibers(opts.stack_bytes, opts.max_fibers, is_asynchronous(opts.preempt)),
        server_loop(host_state.server_loop),
        shutdown(host_state.shutdown),
        settings(host_state.settings),
        hold(opts.workers, worker_stats),
        sleepers(opts.workers),
        cores(rule_of(opts), opts.workers, opts.guaranteed_cores, opts.credits),
        stuck(opts.workers, worker_stats),
        wakeups(policy, opts.workers, dp, queues, groups, sleepers, cores),
        core_looks(policy, plan, cores, dp, queues, wakeups, stuck, worker_stats),
        central(policy, queues, plan, opts.workers, worker_stats, shared_state, wakeups),
        managers(policy, queues, plan, opts.workers, worker_stats, shared_state, wakeups),
        waits(opts.workers, shutdown, opts.half_closed_limit,
              [this](WorkerId worker) { wakeups.wake(worker); }) {
    // Requires options that Runtime::create has accepted.
    const auto limits = limiter_settings(opts).value();
    if (limits) limiter = std::make_unique<LiveLimiter>(*limits, opts.workers, kLimiterSeed);
  }

  const P policy;
  const RuntimeOptions options;
  Datapath& datapath;
  Application& application;
  SharedState shared_state;
  QueueSet<P> queues;
  typename WorkerTracer<P>::Shared traced_depths;
  PlanCell<typename P::Plan> plan;
  GroupQueues groups;
  // The counters of every worker, filled before the first worker starts.
  std::vector<const WorkerStats*> worker_stats;
  FiberPool fibers;
  // HostState's.
  const std::function<void()>& server_loop;
  Shutdown& shutdown;
  LiveSettings& settings;
  Hold hold;
  Sleepers<> sleepers;
  CoreControl cores;
  StuckWorkers stuck;
  Wakeups<P> wakeups;
  CoreLooks<P> core_looks;
  CentralContext<P> central;
  Managers<P> managers;
  std::unique_ptr<LiveLimiter> limiter;  // null = none
  Waits waits;  // goes first: other threads may still be waking a worker

 private:
  static constexpr uint64_t kLimiterSeed = 1;

  // Requires options that Runtime::create has accepted.
  static std::unique_ptr<overload::CoreRule> rule_of(const RuntimeOptions& options) {
    if (!options.allocates_cores()) return nullptr;
    return std::move(overload::CoreRule::make(options.cores, options.cores_settings,
                                              options.workers, kCoreTimeScale)
                         .value());
  }
};

}  // namespace rubato
