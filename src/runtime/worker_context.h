// SPDX-License-Identifier: Apache-2.0
//
// WorkerContext<P>: the state that the parts of one live worker share: its context, its queues, its
// clock and its counters, beside the runtime's RuntimeState<P>. Made and owned by LiveWorker<P>;
// never moves. Worker's thread only, except the counters, which any thread reads.
#pragma once

#include "mechanism/clock/clock.h"
#include "runtime/live_host.h"
#include "runtime/current_worker.h"
#include "runtime/host_state.h"
#include "runtime/service_meter.h"
#include "runtime/runtime_state.h"
#include "runtime/worker_stats.h"
#include "runtime/worker_tracer.h"
#include "sched/core.h"

namespace rubato {

template <Policy P>
class LivePlatform;

// The core that decides for a live worker.
template <Policy P>
using LiveCore = sched::Core<P, LivePlatform<P>>;

template <Policy P>
struct WorkerContext {
  WorkerContext(RuntimeState<P>& the_shared, CurrentWorker& the_worker, Records the_records)
      : shared(the_shared),
        current(the_worker),
        id(the_worker.worker()),
        host(shared.queues, shared.plan, hook::initial_plan(shared.policy),
             shared.options.workers, shared.worker_stats, shared.shared_state,
             sched::Draws(shared.options.seed, id.value)),
        datapath(shared.datapath.queue(id)),
        waits(shared.waits.port(id)),
        records(the_records),
        tracer(the_records.trace, id, host, shared.traced_depths),
        meter(stats) {}

  // Reads the clock: the result is the time of the decisions that follow.
  Instant step() {
    const Instant at = now();
    host.set_now(at);
    return at;
  }

  bool stopping() {
    const RunState state = shared.shutdown.state();
    if (state == RunState::kRunning) [[likely]] return false;
    return stops(state);
  }

  // Takes the worker in nothing now, because the runtime is about to change its policy? If so, the
  // others know.
  bool held() {
    const RunState state = shared.shutdown.state();
    if (state == RunState::kRunning || state == RunState::kDraining) [[likely]] return false;
    return sees_hold();
  }

  void note_polled() { stats.polled_ns.store(host.now().ns(), std::memory_order_relaxed); }
  void note_sleep() {
    stats.polled_ns.store(WorkerStats::kAsleep, std::memory_order_relaxed);
    stats.asleep_since_ns.store(now().ns(), std::memory_order_relaxed);
  }
  void note_awake() {
    const Instant since(stats.asleep_since_ns.exchange(0, std::memory_order_relaxed));
    RUBATO_DCHECK(since != Instant());
    const Instant at = step();
    stats.asleep_ns += static_cast<uint64_t>((at - since).count());
    meter.loss().slept(since, at);
    note_polled();
  }

  RuntimeState<P>& shared;
  CurrentWorker& current;
  const WorkerId id;
  LiveHost<P> host;
  DatapathQueue& datapath;
  WaitPort& waits;  // of its requests
  const Records records;
  WorkerTracer<P> tracer;
  WorkerStats stats;
  ServiceMeter meter;

 private:
  [[gnu::noinline]] bool stops(RunState state) {
    if (state == RunState::kHeld) return changes();
    if (state == RunState::kDraining) {
      shared.waits.sweep_at_drain_limit(host.now());
      if (!shared.shutdown.stop_if_drained(host.now())) return false;
      ends();
    }
    return true;
  }

  void ends() {
    shared.wakeups.wake_all();
    shared.waits.reactor().stop();
  }

  // While held. True = it is the next policy's turn.
  bool changes() {
    const uint32_t number = shared.shutdown.held();
    if (number == 0) return shared.shutdown.changed();
    shared.hold.sees(id, number);
    if (!shared.hold.is_empty(number)) {
      if (shared.shutdown.give_up_hold(number, host.now())) shared.wakeups.wake_all();
    } else if (shared.shutdown.end_hold(number)) {
      ends();
    }
    return shared.shutdown.changed();
  }

  [[gnu::noinline]] bool sees_hold() {
    const uint32_t number = shared.shutdown.held();
    if (number != 0) shared.hold.sees(id, number);
    return number != 0 || shared.shutdown.changed();
  }
};

}  // namespace rubato
