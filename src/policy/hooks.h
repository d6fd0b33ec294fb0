// SPDX-License-Identifier: Apache-2.0
//
// The hooks as hosts call them, with the defaults of those that a policy does not declare, and the
// verbs that follow from others. Included by policy/contract.h only; see there.
#pragma once

#include <cstdint>
#include <span>

#include "base/check.h"
#include "policy/contract.h"

namespace rubato {

// Verbs that follow from the others; a host may have a faster one of its own.
namespace verb {

// The first of the `count` queues of a per-worker declaration from index `from` on, in ring order,
// that holds more than `above` jobs: how many steps it is after `from`, or `count` if there is
// none. A hint, like depth. Requires from < workers and count <= workers.
template <class H>
uint32_t find_deeper(H& host, uint32_t declaration, uint32_t from, uint32_t count, uint32_t above) {
  RUBATO_DCHECK(from < host.workers() && count <= host.workers());
  if constexpr (requires { host.find_deeper(declaration, from, count, above); }) {
    return host.find_deeper(declaration, from, count, above);
  } else {
    for (uint32_t step = 0, index = from; step < count; ++step) {
      if (host.depth(QueueRef{declaration, index}) > above) return step;
      if (++index == host.workers()) index = 0;
    }
    return count;
  }
}

// The first of the workers `from` to `end` - 1 that holds at most `most` jobs: those in its queue
// of a per-worker declaration and the one it runs; `end` if there is none. A hint, like depth and
// busy. Requires end <= workers.
template <class H>
uint32_t find_shorter(H& host, uint32_t declaration, uint32_t most, uint32_t from,
                      uint32_t end) {
  RUBATO_DCHECK(end <= host.workers());
  if constexpr (requires { host.find_shorter(declaration, most, from, end); }) {
    return host.find_shorter(declaration, most, from, end);
  } else {
    for (uint32_t w = from; w < end; ++w) {
      if (host.depth(QueueRef{declaration, w}) + (host.busy(WorkerId{w}) ? 1 : 0) <= most) return w;
    }
    return end;
  }
}

// The first job of the first of these queues of a declaration, in this order, that holds one; null
// = none does.
template <class H>
Job* take_first(H& host, uint32_t declaration, std::span<const uint8_t> indices) {
  if constexpr (requires { host.take_first(declaration, indices); }) {
    return host.take_first(declaration, indices);
  } else {
    for (const uint32_t index : indices) {
      if (Job* job = host.take(QueueRef{declaration, index})) return job;
    }
    return nullptr;
  }
}

}  // namespace verb

namespace internal {

// Has the policy declared this queue, with so many workers?
template <Policy P>
bool has_queue(const P& policy, QueueRef q, uint32_t workers) {
  const std::span<const QueueDeclaration> declared(P::kQueues);
  return q.declaration < declared.size() &&
         q.index < queue_count_of(policy, declared[q.declaration], workers);
}

}  // namespace internal

namespace hook {

template <Policy P, class H>
QueueRef route(const P& policy, Job& job, WorkerId at, H& host) {
  RUBATO_DCHECK(at.value < host.workers());
  if constexpr (requires { policy.route(job, at, host); }) {
    const QueueRef q = policy.route(job, at, host);
    RUBATO_DCHECK(internal::has_queue(policy, q, host.workers()));
    return q;
  } else {
    return {0, P::kQueues[0].scope == Scope::kPerWorker ? at.value : 0};
  }
}

template <Policy P, class H>
Job* next(const P& policy, typename P::Worker& worker, WorkerId me, H& host) {
  RUBATO_DCHECK(me.value < host.workers());
  return policy.next(worker, me, host);
}

template <Policy P, class H>
void begins(const P& policy, typename P::Worker& worker, const Job& job, WorkerId me, H& host) {
  if constexpr (requires { policy.begins(worker, job, me, host); }) {
    RUBATO_DCHECK(me.value < host.workers());
    policy.begins(worker, job, me, host);
  }
}

template <Policy P, class H>
Nanos quantum(const P& policy, const typename P::Worker& worker, const Job& job, H& host) {
  if constexpr (requires { policy.quantum(worker, job, host); }) {
    const Nanos slice = policy.quantum(worker, job, host);
    RUBATO_DCHECK(slice > Nanos());  // a slice without length would never be over
    return slice;
  } else {
    return Nanos::max();
  }
}

template <Policy P, class H>
SliceDecision expired(const P& policy, const Job& job, WorkerId me, H& host) {
  if constexpr (requires { policy.expired(job, me, host); }) {
    RUBATO_DCHECK(me.value < host.workers());
    return policy.expired(job, me, host);
  } else {
    return SliceDecision::kContinue;
  }
}

// Default: back to the tail of where it would arrive.
template <Policy P, class H>
QueueRef requeue(const P& policy, Job& job, RequeueReason why, WorkerId me, H& host) {
  if constexpr (requires { policy.requeue(job, why, me, host); }) {
    const QueueRef q = policy.requeue(job, why, me, host);
    RUBATO_DCHECK(internal::has_queue(policy, q, host.workers()));
    return q;
  } else {
    return hook::route(policy, job, me, host);
  }
}

template <Policy P, class H>
bool may_serve(const P& policy, QueueRef q, WorkerId worker, H& host) {
  if constexpr (requires { policy.may_serve(q, worker, host); }) {
    RUBATO_DCHECK(worker.value < host.workers());
    RUBATO_DCHECK(internal::has_queue(policy, q, host.workers()));
    return policy.may_serve(q, worker, host);
  } else {
    return true;
  }
}

template <Policy P, class H>
uint32_t kind(const P& policy, WorkerId worker, H& host) {
  if constexpr (requires { policy.kind(worker, host); }) {
    RUBATO_DCHECK(worker.value < host.workers());
    const uint32_t kind = policy.kind(worker, host);
    RUBATO_DCHECK(kind <= limits::kTypes);
    return kind;
  } else {
    return 0;
  }
}

template <Policy P>
void finished(const P& policy, typename P::Worker& worker, const Job& job, Nanos service) {
  if constexpr (requires { policy.finished(worker, job, service); }) {
    policy.finished(worker, job, service);
  }
}

template <Policy P, class H>
void dispatch(const P& policy, typename P::Central& central, H& host) {
  if constexpr (requires { policy.dispatch(central, host); }) policy.dispatch(central, host);
}

template <Policy P, class H>
typename P::Plan adapt(const P& policy, typename P::Central& central, H& host) {
  if constexpr (requires { policy.adapt(central, host); }) {
    return policy.adapt(central, host);
  } else {
    return host.plan();
  }
}

template <Policy P>
Nanos adapt_period(const P& policy) {
  if constexpr (requires { policy.adapt_period(); }) {
    const Nanos period = policy.adapt_period();
    RUBATO_DCHECK(period > Nanos());
    return period;
  } else {
    return Nanos::max();
  }
}

// The Plan before the first adapt.
template <Policy P>
typename P::Plan initial_plan(const P& policy) {
  if constexpr (requires { policy.initial_plan(); }) {
    return policy.initial_plan();
  } else {
    return typename P::Plan{};
  }
}

template <Policy P>
void explain(const P& policy, const typename P::Plan& plan, uint32_t workers, Explanation& out) {
  if constexpr (requires { policy.explain(plan, workers, out); }) {
    policy.explain(plan, workers, out);
  }
}

}  // namespace hook
}  // namespace rubato
