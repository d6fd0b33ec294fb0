// SPDX-License-Identifier: Apache-2.0
//
// Wakeups<P>: wakes the worker that will serve a request that was put into a queue: a worker that
// sleeps (runtime/sleepers.h), otherwise one whose core is parked (runtime/core_control.h). At most
// one wake per request, whatever the number of workers. Called after the request is visible. Any
// thread.
#pragma once

#include <cstdint>

#include "datapath/datapath.h"
#include "policy/contract.h"
#include "policy/extensions.h"
#include "runtime/core_control.h"
#include "runtime/group_queues.h"
#include "runtime/queue_set.h"
#include "runtime/sleepers.h"

namespace rubato {

template <Policy P>
class Wakeups {
 public:
  Wakeups(const P& policy, uint32_t workers, Datapath& datapath, QueueSet<P>& queues,
          GroupQueues& groups, Sleepers<>& sleepers, CoreControl& cores)
      : policy_(policy),
        workers_(workers),
        datapath_(datapath),
        queues_(queues),
        groups_(groups),
        sleepers_(sleepers),
        cores_(cores) {}

  // Ends the sleep of a worker that has work which other workers would not do.
  void wake(WorkerId worker) {
    if (sleepers_.claim(worker) || (cores_.allocates() && cores_.wake(worker))) end_wait(worker);
  }

  // Wakes one sleeping worker, if there is one, to look for work.
  void wake_any(WorkerId from) {
    const uint32_t woken = sleepers_.claim_one(from, [](WorkerId) { return true; });
    if (woken != Sleepers<>::kNobody) end_wait({woken});
  }

  // A request was put into `q` that the worker `from` may not come to serve soon: wakes a sleeping
  // worker that will; if no sleeping worker may serve it and `from` may not either, wakes one whose
  // core is parked.
  template <class H>
  void wake_for(QueueRef q, WorkerId from, H& host) {
    const auto may = [&](WorkerId worker) { return may_serve(q, worker, host); };
    const WorkerId before = kAsksLowestFirst<P> ? WorkerId{workers_ - 1} : from;
    const uint32_t woken = sleepers_.claim_one(before, may);
    if (woken != Sleepers<>::kNobody) return end_wait({woken});
    if (cores_.allocates() && !may(from)) call_one(may);
  }

  // The same for every request that waits where several workers may take it.
  template <class H>
  void wake_for_waiting(WorkerId from, H& host) {
    queues_.for_each_waiting([&](QueueRef q) {
      if (!sleepers_.all_awake()) wake_for(q, from, host);
    });
    if (sleepers_.all_awake()) return;
    if (queues_.any_to_steal() || groups_.any_waiting()) wake_any(from);
  }

  // Wakes one worker of the manager's group, which does the manager's step.
  void wake_group(ManagerId group) {
    const auto in_group = [&](WorkerId worker) {
      return manager_of(policy_, worker, workers_) == group;
    };
    const uint32_t woken = sleepers_.claim_one({0}, in_group);
    if (woken != Sleepers<>::kNobody) return end_wait({woken});
    if (cores_.allocates()) call_one(in_group);
  }

  // True if that worker may come to take the requests in this queue.
  template <class H>
  bool may_serve(QueueRef q, WorkerId worker, H& host) const {
    const QueueDeclaration& declaration = P::kQueues[q.declaration];
    switch (declaration.scope) {
      case Scope::kGlobal: return hook::may_serve(policy_, q, worker, host);
      case Scope::kPerManager: return manager_of(policy_, worker, workers_).value == q.index;
      case Scope::kPerWorker: break;
    }
    return declaration.sharing == Sharing::kStealable || q.index == worker.value;
  }

  // Calls parked workers for requests that only they take. The worker that puts such a request
  // calls them too, except for a pipeline's next command; this call replaces the limit on sleep
  // that other workers have.
  void call_parked() {
    for (uint32_t i = 0; i < workers_; ++i) {
      if (cores_.has_core({i}) || !queues_.pushed_to({i})) continue;
      cores_.wake({i});
      end_wait({i});
    }
  }

  // The runtime stops.
  void wake_all() {
    for (uint32_t i = 0; i < workers_; ++i) {
      cores_.wake({i});
      end_wait({i});
    }
  }

 private:
  template <class May>
  void call_one(May&& may) {
    for (uint32_t i = 0; i < workers_; ++i) {
      if (may(WorkerId{i}) && cores_.wake({i})) return end_wait({i});
    }
  }

  void end_wait(WorkerId worker) { datapath_.queue(worker).wake(); }

  const P& policy_;
  const uint32_t workers_;
  Datapath& datapath_;
  QueueSet<P>& queues_;
  GroupQueues& groups_;
  Sleepers<>& sleepers_;
  CoreControl& cores_;
};

}  // namespace rubato
