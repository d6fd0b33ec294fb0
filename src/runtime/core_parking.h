// SPDX-License-Identifier: Apache-2.0
//
// CoreParking<P>: the idling of a worker whose core comes and goes (runtime/core_control.h). The
// worker polls as long as the allocator of cores says, then gives its core up and sleeps until it
// has the core back or is called. Workers with a guaranteed core idle by runtime/idle_loop.h alone.
// Worker's thread only; nothing here switches fibers.
#pragma once

#include "mechanism/cpu/pause.h"
#include "policy/archetype.h"
#include "runtime/worker_context.h"

namespace rubato {

template <Policy P>
class CoreParking {
 public:
  explicit CoreParking(WorkerContext<P>& context) : context_(context) {}

  // The worker has found something to do.
  void found_work() {
    if (workless_since_ == Instant::never()) return;
    workless_since_ = Instant::never();
    context_.shared.cores.resumed(context_.id);
  }

  // The worker has found nothing, at `at`. last_look() -> Request* looks once more. Null = no
  // request came.
  template <class LastLook>
  Request* idle(Instant at, LastLook&& last_look) {
    if (workless_since_ == Instant::never()) workless_since_ = at;
    if (context_.shared.cores.should_park(context_.id, at - workless_since_)) {
      return park(last_look);
    }
    cpu_pause();
    context_.step();
    return nullptr;
  }

 private:
  // The worker found nothing a moment ago, so it holds no request, and a request that is queued for
  // it later comes with a call (CoreSlot). Where no proxy can serve its connections, the worker
  // sleeps on them itself, and has its core back with the first arrival. It looks for work a last
  // time after it has parked, and takes its core back for work that it finds.
  template <class LastLook>
  [[gnu::noinline]] Request* park(LastLook&& last_look) {
    RuntimeState<P>& shared = context_.shared;
    CoreControl& cores = shared.cores;
    const WorkerId id = context_.id;
    cores.park(id);
    DatapathQueue& proxy = shared.datapath.queue(CoreControl::proxy());
    const bool delegated = !kOwnArrivals<P> && context_.datapath.delegate_to(&proxy);
    cores.delegated(id).store(delegated, std::memory_order_release);
    if (delegated) proxy.wake();  // it takes this queue into its waits
    shared.sleepers.leaves();
    Request* found = nullptr;
    while (cores.repark(id)) {
      found = last_look();
      if (found != nullptr || !shared.shutdown.running()) break;
      if (!delegated && context_.datapath.pending()) break;
      context_.note_sleep();
      delegated ? cores.sleep(id) : context_.datapath.wait(longest_wait(context_.datapath));
      context_.note_awake();
    }
    shared.sleepers.comes_back();
    cores.delegated(id).store(false, std::memory_order_relaxed);
    if (delegated) context_.datapath.delegate_to(nullptr);
    cores.unpark(id);
    workless_since_ = context_.step();
    return found;
  }

  WorkerContext<P>& context_;
  Instant workless_since_ = Instant::never();  // only for a worker without a guaranteed core
};

}  // namespace rubato
