// SPDX-License-Identifier: Apache-2.0
//
// IdleLoop<P>: the loop of a worker that has nothing to run. The worker helps stuck workers, spins
// for a while, looks a last time and sleeps; asleep it also watches the arrivals of stuck workers
// and of workers whose cores are parked. After a sleep it wakes the next worker if more requests
// wait. Worker's thread only; nothing here switches fibers.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "mechanism/cpu/pause.h"
#include "policy/archetype.h"
#include "runtime/core_parking.h"
#include "runtime/idling.h"
#include "runtime/intake.h"
#include "runtime/watchdog.h"
#include "runtime/worker_context.h"

namespace rubato {

template <Policy P>
class IdleLoop {
 public:
  IdleLoop(WorkerContext<P>& context, LiveCore<P>& core, Intake<P>& intake)
      : context_(context),
        core_(core),
        intake_(intake),
        looks_itself_(!context.datapath.is_looked_after() &&
                      Watchdog<P>::is_needed(context.shared.options)),
        idling_(context.shared.options.idle, context.shared.options.idle_spin),
        core_parking_(context) {
    delegated_.reserve(context.shared.options.workers);
    watched_.reserve(context.shared.options.workers);
  }

  // One round. Null = nothing was found; the worker may have slept. What it brings away from stuck
  // workers has waited long.
  [[gnu::noinline]] Request* idle() {
    const Instant at = context_.host.now();
    if (intake_.help_stuck()) return last_look();
    if (context_.held()) [[unlikely]] return nap();
    // The workers of another group may all be running long requests.
    if constexpr (kManages<P>) context_.shared.managers.step_all(at);
    if (!context_.shared.cores.is_guaranteed(context_.id)) {
      return core_parking_.idle(at, [this] { return last_look(); });
    }
    if (idling_.should_park(at)) return park();
    cpu_pause();
    context_.step();  // what is found next may have come since, and its service counts from here
    return nullptr;
  }

  // The worker has something to do.
  void found_work() {
    idling_.found_work(context_.host.now());
    looks_itself_ ? pass_watch() : wake_next();
    core_parking_.found_work();
  }

 private:
  // The longest sleep while a worker is stuck, or may become so.
  static constexpr Nanos kWatchfulSleep = Nanos::millis(2);
  static constexpr std::chrono::microseconds kHeldNap{50};

  // Nobody wakes a worker when the client of a request that waits is gone.
  Nanos longest_sleep() const {
    const Shutdown& shutdown = context_.shared.shutdown;
    if (!shutdown.running()) return shutdown.longest_sleep(context_.host.now());
    const bool sweeps = context_.shared.waits.clients() > 0;
    return sweeps ? Waits::kSweepPeriod : longest_wait(context_.datapath);
  }

  // While nothing is taken in, arrivals end no sleep: the worker would find them again and again.
  [[gnu::noinline]] Request* nap() {
    Request* found = last_look();
    if (found != nullptr) return found;
    context_.datapath.push();
    context_.note_sleep();
    std::this_thread::sleep_for(kHeldNap);
    context_.note_awake();
    return nullptr;
  }

  // Sleeps until a request arrives, or another thread has queued a request that this worker may
  // serve: see runtime/sleepers.h for why that is not missed. The policy itself says whether there
  // is work: a worker that stayed awake for requests that it may not take would only take CPU time
  // from workers that may.
  [[gnu::noinline]] Request* park() {
    Sleepers<>& sleepers = context_.shared.sleepers;
    sleepers.falls_asleep(context_.id);
    Request* found = last_look();
    if (found == nullptr) sleep();
    if (!sleepers.is_asleep(context_.id)) ++context_.stats.woken;
    sleepers.wakes_up(context_.id);
    woken_ = true;  // also when it found work itself before it was claimed for more
    idling_.parked();
    context_.step();
    return found;
  }

  [[gnu::noinline]] Request* last_look() {
    if (context_.waits.any_back()) intake_.take_back(context_.waits);
    if constexpr (kDispatches<P>) context_.shared.central.dispatch(context_.step());
    if constexpr (kManages<P>) context_.shared.managers.step_all(context_.step());
    context_.host.refresh_plan();
    return core_.next();
  }

  [[gnu::noinline]] void sleep() {
    RUBATO_DCHECK(delegated_.empty() && watched_.empty());
    context_.datapath.note_idle(true);
    poll_parked();
    const bool calls = !delegated_.empty();
    const Nanos limit = watch_stuck();
    if (limit > Nanos()) {
      if (calls) context_.shared.wakeups.call_parked();
      ++context_.stats.parked;
      context_.note_sleep();
      delegated_.empty() ? context_.datapath.wait(limit)
                         : context_.datapath.wait(limit, delegated_);
      context_.note_awake();
    }
    context_.datapath.note_idle(false);
    for (const WorkerId stuck : watched_) {
      context_.shared.stuck.watched(stuck).store(false, std::memory_order_release);
    }
    watched_.clear();
    delegated_.clear();
  }

  // An arrival at a worker whose core is parked ends the proxy poller's sleep.
  void poll_parked() {
    RuntimeState<P>& shared = context_.shared;
    if (!shared.cores.allocates() || context_.id != CoreControl::proxy()) return;
    for (uint32_t i = 0; i < shared.options.workers; ++i) {
      if (!shared.cores.delegated({i}).load(std::memory_order_acquire)) continue;
      delegated_.push_back(&shared.datapath.queue({i}));
    }
  }

  // An arrival at a stuck worker ends this worker's sleep, unless another worker watches the stuck
  // one already. Returns the longest time to sleep; zero = a request has come.
  Nanos watch_stuck() {
    for (DatapathQueue* queue : delegated_) {
      if (queue->pending()) return {};
    }
    Nanos limit = longest_sleep();
    if (kOwnArrivals<P>) return limit;
    RuntimeState<P>& shared = context_.shared;
    for (uint32_t i = 0; i < shared.options.workers; ++i) {
      const WorkerId other{i};
      if (other == context_.id) continue;
      if (!shared.stuck.is_stuck_for_long(other, context_.host.now())) {
        if (looks_itself_ && is_late(other)) limit = std::min(limit, kWatchfulSleep);
        continue;
      }
      if (shared.stuck.watched(other).exchange(true, std::memory_order_acq_rel)) continue;
      limit = std::min(limit, kWatchfulSleep);
      watched_.push_back(other);
      DatapathQueue* theirs = &shared.datapath.queue(other);
      if (std::find(delegated_.begin(), delegated_.end(), theirs) != delegated_.end()) continue;
      // A worker in the middle of a poll keeps other workers out; its arrivals must not keep this
      // worker awake.
      if (!theirs->pending()) {
        delegated_.push_back(theirs);
      } else if (intake_.ingest(*theirs) > 0) {
        return {};
      }
    }
    return limit;
  }

  // In place of the watchdog: it has work for others, but it may not be stuck yet.
  bool is_late(WorkerId other) {
    RuntimeState<P>& shared = context_.shared;
    return !shared.sleepers.is_asleep(other) && Watchdog<P>::has_work(shared, other);
  }

  // Called for the first work found after a sleep, or just before one: if more requests wait, the
  // next worker is woken, which does the same.
  void wake_next() {
    if (!std::exchange(woken_, false) || context_.shared.sleepers.all_awake()) return;
    context_.shared.wakeups.wake_for_waiting(context_.id, context_.host);
  }

  // In place of the watchdog: this worker, which may be busy for long now, has slept and looked
  // after others, or has brought away from another one what waits behind the request that it runs.
  // If anything waits, one that sleeps is woken, and looks after that. Such a one marks itself as
  // asleep, passes a fence and looks; here the requests are queued, then comes a fence, and then
  // the look at the marks.
  void pass_watch() {
    const uint64_t brought = brought_so_far();
    const bool more = std::exchange(brought_, brought) != brought;
    if (!std::exchange(woken_, false) && !more) return;
    StdSync::fence();
    RuntimeState<P>& shared = context_.shared;
    if (shared.sleepers.all_awake()) return;
    shared.wakeups.wake_for_waiting(context_.id, context_.host);
    for (uint32_t i = 0; i < shared.options.workers; ++i) {
      if (is_late({i})) return shared.wakeups.wake_any(context_.id);
    }
  }

  // Requests of other workers that came into this one's queues.
  uint64_t brought_so_far() const {
    const LiveHost<P>& host = context_.host;
    return host.stolen().value() - host.steals().value() + context_.stats.helped.value();
  }

  WorkerContext<P>& context_;
  LiveCore<P>& core_;
  Intake<P>& intake_;
  const bool looks_itself_;  // no thread looks after this worker and its like
  Idling idling_;
  CoreParking<P> core_parking_;
  bool woken_ = false;                  // it has slept, and has not found work yet
  uint64_t brought_ = 0;                // as pass_watch() has seen it last
  std::vector<DatapathQueue*> delegated_;  // their arrivals end its sleep as its own do
  std::vector<WorkerId> watched_;       // stuck workers among those
};

}  // namespace rubato
