// SPDX-License-Identifier: Apache-2.0
//
// Intake<P>: brings requests to one worker: it polls the datapath in bursts, admits the requests
// and calls other workers when there are more than this worker will serve soon. It also takes in
// requests that wait at stuck workers and at workers whose core is parked. sched/core.h makes the
// decisions about a request. Worker's thread only; nothing here switches fibers.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/limits.h"
#include "policy/archetype.h"
#include "runtime/worker_context.h"

namespace rubato {

template <Policy P>
class Intake {
 public:
  Intake(WorkerContext<P>& context, LiveCore<P>& core) : context_(context), core_(core) {}

  // Before the first poll.
  void start() {
    last_poll_ = context_.step();
    context_.note_polled();
    context_.meter.loss().restart(last_poll_);
  }

  // Asks the kernel when the worker's own queue has run dry, and every now and then otherwise.
  void poll_if_due() {
    if (context_.waits.any_back()) [[unlikely]] take_back(context_.waits);
    const bool dry = !core_.holds_next() && !others_wait() && !core_.holds_groups();
    if (!dry && ++picks_since_poll_ < limits::kPollPicks && !is_late()) return;
    take_in();
    CoreControl& cores = context_.shared.cores;
    if (!cores.allocates()) return;
    if (context_.id == CoreControl::proxy()) poll_delegated();
    context_.shared.core_looks.look_if_due(context_.host.now());
  }

  // The request that runs keeps the replies before it no longer than further requests would. Its
  // first look at the clock is no reason: each request has one.
  void push_if_late() {
    if (is_late()) context_.datapath.push();
  }

  // The next poll is due at once.
  void poll_next() { picks_since_poll_ = limits::kPollPicks; }

  void take_in() {
    RuntimeState<P>& shared = context_.shared;
    if (shared.options.refuses_late()) refresh_refusal_rule();
    ingest(context_.datapath);
    shared.waits.sweep_if_due(context_.host.now());
    if (context_.waits.any_back()) [[unlikely]] take_back(context_.waits);
    if (shared.options.preemption_clock == PreemptionClock::kSelf) {
      shared.central.adapt_if_due(context_.host.now());
    }
    context_.host.refresh_plan();
  }

  void refresh_refusal_rule() {
    overload::RefusalSettings settings;
    if (context_.shared.settings.refresh(settings, refusal_rule_seen_)) {
      core_.change_refusal_rule(settings);
    }
  }

  // Takes in one burst from this worker's queue or from another's. Returns the number of requests.
  uint32_t ingest(DatapathQueue& from) {
    std::array<Request*, limits::kBurst> burst;
    context_.datapath.push();
    const uint32_t n = context_.held() ? 0 : from.poll(burst);
    RUBATO_DCHECK(n <= burst.size());
    if (n > 0) context_.stats.taken_in += n;
    if (context_.shared.options.goes_by_waits()) context_.step();
    queued_ = 0;
    called_help_ = false;
    for (uint32_t i = 0; i < n; ++i) core_.admit(*burst[i]);
    wake_pushed();
    picks_since_poll_ = 0;
    last_poll_ = context_.step();
    context_.meter.loss().restart_if_old(last_poll_);
    if (&from == &context_.datapath) context_.note_polled();
    return n;
  }

  // The request has waited for something, and that is here. The caller holds no worker with it.
  void take_back(Request& request) {
    ++context_.stats.came_back;
    core_.ready(request);
    wake_pushed();
  }

  // Takes in the requests that have come back from waits, to this worker or to another one. Another
  // worker may run a request on as soon as the core has it, and its waiter is gone then.
  [[gnu::noinline]] void take_back(WaitPort& from) {
    queued_ = 0;
    called_help_ = false;
    for (Waiter* waiter = from.take_back(); waiter != nullptr;) {
      Request& request = waiter->request();
      waiter = waiter->next_in_list;
      take_back(request);
    }
  }

  // True if a request waits in this worker's arrival queue.
  bool others_wait() { return context_.host.depth({0, own_index()}) > 0; }

  // Puts an arrival into a queue of the policy, or of its group; false = full. Calls other workers
  // if this one will not serve the request soon.
  bool put(QueueRef q, Request& request) {
    ++queued_;
    if (!context_.host.put(q, &request)) return false;
    if (!is_pushed(P::kQueues[q.declaration])) call_for(q);
    call_for_groups();
    return true;
  }
  // A suspended one was left for others' sake, so any idle worker may go on with it.
  bool put_in_group(Request& request, bool suspended) {
    if (!suspended) ++queued_;
    if (!context_.shared.groups.put(context_.id, &request, suspended)) return false;
    suspended ? context_.shared.wakeups.wake_any(context_.id) : call_for_groups();
    return true;
  }
  // Wakes the workers into whose own queues a request was put.
  void wake_pushed() {
    context_.host.take_pushed([this](WorkerId worker) { context_.shared.wakeups.wake(worker); });
  }

  // Takes over the work of a worker that has not polled its arrivals for long: the requests in its
  // kernel queue (ZygOS: idle cores look at the network queues of busy ones), those in its inbox,
  // and those that it polls as proxy. Such a worker is in a long request that cannot be preempted,
  // or the operating system has given its CPU to others. True: some of its requests are here now.
  [[gnu::noinline]] bool help_stuck() {
    if (kOwnArrivals<P>) return false;
    RuntimeState<P>& shared = context_.shared;
    uint64_t helped = 0;
    for (uint32_t i = 0; i < shared.options.workers; ++i) {
      const WorkerId other{i};
      if (other == context_.id || !shared.stuck.is_stuck(other, context_.host.now())) continue;
      DatapathQueue& theirs = shared.datapath.queue(other);
      if (theirs.pending()) helped += ingest(theirs);
      if (shared.waits.port(other).any_back()) take_back(shared.waits.port(other));
      helped += take_over(other);
      if (other == CoreControl::proxy()) poll_delegated();
    }
    if (helped > 0) context_.stats.helped += helped;
    return helped > 0;
  }

 private:
  uint32_t own_index() const {
    return arrival_index(context_.shared.policy, context_.id, context_.shared.options.workers);
  }

  bool is_late() const { return context_.host.now() - last_poll_ >= limits::kPollEvery; }

  // Polls the queues of workers whose cores are parked, one per call, in turn: each poll is a
  // system call.
  [[gnu::noinline]] void poll_delegated() {
    const uint32_t workers = context_.shared.options.workers;
    for (uint32_t i = 0; i < workers; ++i) {
      const WorkerId other{next_delegated_++ % workers};
      if (!context_.shared.cores.delegated(other).load(std::memory_order_acquire)) continue;
      ingest(context_.shared.datapath.queue(other));
      return;
    }
  }

  // Takes requests from the inboxes of a stuck worker, as if they had arrived here. A policy may
  // leave the last request of an inbox to its worker, but that worker does not come to it now.
  uint32_t take_over(WorkerId stuck) {
    uint32_t taken = 0;
    for (uint32_t declaration = 0; declaration < std::size(P::kQueues); ++declaration) {
      const QueueDeclaration& queue = P::kQueues[declaration];
      if (queue.scope != Scope::kPerWorker || queue.sharing != Sharing::kStealable) continue;
      taken += take_over({declaration, stuck.value}, {declaration, context_.id.value});
    }
    return taken;
  }

  // Takes half of the requests, as other workers may help too.
  uint32_t take_over(QueueRef theirs, QueueRef mine) {
    LiveHost<P>& host = context_.host;
    const uint32_t most = std::min((host.depth(theirs) + 1) / 2, limits::kStealMax);
    for (uint32_t taken = 0; taken < most; ++taken) {
      Job* job = host.take(theirs);
      if (job == nullptr) return taken;
      if (!host.put(mine, job)) core_.take_over(*static_cast<Request*>(job));
    }
    return most;
  }

  // A request was put into q. If it is alone and this worker may serve it, this worker will. If
  // there are more, one other worker is called, which calls the next; for each request that this
  // worker may not serve, another worker is called.
  void call_for(QueueRef q) {
    Wakeups<P>& wakeups = context_.shared.wakeups;
    LiveHost<P>& host = context_.host;
    if (!wakeups.may_serve(q, context_.id, host)) return wakeups.wake_for(q, context_.id, host);
    if (called_help_ || (queued_ <= 1 && host.depth(q) <= 1)) return;
    called_help_ = true;
    wakeups.wake_for(q, context_.id, host);
  }

  // The same for requests of groups, which any worker may take.
  void call_for_groups() {
    if (!core_.holds_groups() || called_help_) return;
    const uint32_t depth = context_.shared.groups.depth(context_.id);
    if (depth == 0 || (queued_ <= 1 && depth <= 1)) return;
    called_help_ = true;
    context_.shared.wakeups.wake_any(context_.id);
  }

  WorkerContext<P>& context_;
  LiveCore<P>& core_;
  Instant last_poll_;
  uint32_t refusal_rule_seen_ = 0;  // its version
  uint32_t picks_since_poll_ = 0;
  uint32_t queued_ = 0;       // requests of the last poll, with their followers
  bool called_help_ = false;  // for those requests
  uint32_t next_delegated_ = 0;
};

}  // namespace rubato
