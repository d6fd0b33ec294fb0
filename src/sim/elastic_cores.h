// SPDX-License-Identifier: Apache-2.0
//
// ElasticCores<P, Server>: the control of an elastic server's cores: once per interval it measures
// the delay of requests, and grants or releases a core as the allocator says
// (sim/elastic_server.h). One owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "metrics/trace.h"
#include "overload/cores/kinds.h"
#include "overload/cores/rule.h"
#include "policy/contract.h"
#include "sched/delay_scale.h"
#include "sim/context.h"
#include "sim/core_allocation.h"
#include "sim/worker_pool.h"

namespace rubato::sim {

template <Policy P, class Server>
class ElasticCores {
 public:
  // All references outlive this.
  ElasticCores(SimContext<P, Server>& context, WorkerPool<P, Server>& workers)
      : context_(context), workers_(workers), server_(context.server), delays_(workers.size()) {}

  // All workers have a core and poll.
  void start() {
    for (uint32_t w = 0; w < workers_.size(); ++w) workers_[w].rest();
    schedule(Instant() + server_.cores().interval());
  }

  void on_event() {
    if (is_over()) return stop();
    server_.note_delay(measure_delays(), context_.now());
    const bool unserved = server_.cores().granted() == 0 && context_.host.queues().waiting() > 0;
    const overload::CoreChange change =
        server_.cores().tick(context_.now(), delays_, common_delay_, unserved);
    if (change == overload::CoreChange::kGrant) grant();
    if (change == overload::CoreChange::kRelease) release();
    server_.update_credits(context_.now());
    if (server_.cores().granted() > 0) {
      workers_[server_.cores().redirect(turn_++ % workers_.size())].pay_for_messages();
    }
    if (context_.trace() != nullptr) trace_levels();
    schedule(context_.now() + server_.cores().interval());
  }

  // Of the parked workers the last of the kind to which the core is due. Where idle workers park by
  // themselves a core is for a request that waits, so the very last, which may serve most
  // (policy/darc.h reserves the first ones).
  void grant() {
    const bool for_one = server_.cores().rule_parks();
    const overload::CoreKinds kinds = for_one ? overload::CoreKinds() : count_kinds();
    uint32_t chosen = workers_.size();
    for (uint32_t w = workers_.size(); w-- > 0;) {
      if (server_.cores().state(w) != CoreAllocation::State::kParked) continue;
      const bool first = chosen == workers_.size();
      if (first || kinds.is_due_before(kind_of(w), kind_of(chosen))) chosen = w;
    }
    if (chosen < workers_.size()) workers_[chosen].grant(context_.costs().cores.wake);
  }

 private:
  void schedule(Instant at) { context_.events.schedule(context_.sources.cores(), at); }

  bool is_over() const {
    return context_.all_arrived() && context_.pool.in_use() == 0 &&
           server_.clients().next() == Instant::never();
  }
  void stop() {
    server_.clients().abort();
    for (uint32_t w = 0; w < workers_.size(); ++w) context_.events.cancel(w);
    context_.events.cancel(context_.sources.adapt());
    context_.events.cancel(context_.sources.cores());
  }

  // Of the kind that has a core too many an idle worker parks; without one, the worker whose oldest
  // request waits least is to park.
  void release() {
    const overload::CoreKinds kinds = count_kinds();
    uint32_t chosen = workers_.size();
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      if (!keeps_core(w)) continue;
      if (chosen == workers_.size() || leaves_before(w, chosen, kinds)) chosen = w;
    }
    if (chosen == workers_.size()) return;
    if (can_park(chosen)) return workers_[chosen].park();
    server_.cores().wants_back(chosen);
  }

  bool leaves_before(uint32_t w, uint32_t other, const overload::CoreKinds& kinds) {
    if (kind_of(w) != kind_of(other)) return kinds.was_due_after(kind_of(w), kind_of(other));
    if (can_park(other)) return false;
    return can_park(w) || delays_[w] < delays_[other];
  }
  bool keeps_core(uint32_t w) const {
    return server_.cores().available(w) && !server_.cores().leaving(w);
  }
  bool can_park(uint32_t w) const {
    const bool polls = server_.cores().state(w) == CoreAllocation::State::kPolling;
    return polls && context_.idle.has(w) && workers_[w].may_park();
  }

  uint32_t kind_of(uint32_t w) {
    context_.host.call_as(SimContext<P, Server>::Host::kCentralCaller);
    return hook::kind(context_.policy, WorkerId{w}, context_.host);
  }
  overload::CoreKinds count_kinds() {
    overload::CoreKinds kinds;
    for (uint32_t w = 0; w < workers_.size(); ++w) kinds.count(kind_of(w), keeps_core(w));
    return kinds;
  }

  // The waits of requests, per worker and in queues that all share. Returns the longest, in terms
  // of the delay that credits aim at.
  Nanos measure_delays() {
    std::fill(delays_.begin(), delays_.end(), Nanos());
    common_delay_ = Nanos();
    Nanos longest;
    const Instant now = context_.now();
    const sched::DelayScale scale = delay_scale();
    context_.host.queues().for_each_head([&](QueueRef q, const Job& job) {
      const auto& request = static_cast<const SimRequest&>(job);
      const bool own = P::kQueues[q.declaration].scope == Scope::kPerWorker;
      Nanos& delay = own ? delays_[q.index] : common_delay_;
      delay = std::max(delay, now - std::max(request.arrived, request.put_back));
      longest = std::max(longest, scale.of(request, now));
    });
    return longest;
  }

  // A class that takes longer may wait longer; of a request that was cut all of its waiting counts,
  // but none of its service (docs/decisions/011-overload-by-class.md).
  sched::DelayScale delay_scale() {
    using By = sched::DelayScale::By;
    constexpr By kBy = P::kPreempts != Preempts::kNothing          ? By::kClass
                       : kClaimsMayStarve<P> == MayStarve::kLong ? By::kType
                                                                 : By::kNothing;
    const ElasticSetup& elastic = *context_.setup.elastic;
    sched::DelayScale scale(elastic.delay_by_class ? kBy : By::kNothing,
                            elastic.credits.target_delay);
    context_.host.call_as(SimContext<P, Server>::Host::kCentralCaller);
    scale.learn(context_.host);
    return scale;
  }

  void trace_levels() {
    const auto level = [&](const char* name, int64_t value) {
      const auto shown = static_cast<uint32_t>(std::max<int64_t>(value, 0));
      context_.trace()->depth(name, 0, context_.now(), shown);
    };
    level("cores granted", server_.cores().granted());
    level("credits", server_.pool().total());
    level("credits issued", server_.pool().issued());
    level("sessions drained", server_.pool().drained());
    level("delay in us", server_.delay().count() / 1000);
  }

  SimContext<P, Server>& context_;
  WorkerPool<P, Server>& workers_;
  Server& server_;
  std::vector<Nanos> delays_;  // by worker
  Nanos common_delay_;
  uint32_t turn_ = 0;  // of the workers, to pay for messages
};

}  // namespace rubato::sim
