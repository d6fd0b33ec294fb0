// SPDX-License-Identifier: Apache-2.0
//
// The policy contract: what a scheduling policy says, and what a host does for it.
//
// A policy is plain data plus member templates over a Host. It owns no queue, reads no clock, holds
// no atomic, allocates nothing. The host owns the queues, the clock, randomness and memory order,
// and lends the policy only what its context may touch:
//   * a `Worker&` is lent on that worker only,
//   * a `Central&` is lent to one context at a time (timer core, dispatcher),
//   * the `Plan` is a small trivially copyable value that `adapt` returns and the host publishes;
//     every context reads it as `host.plan()`, possibly one period old.
// So a policy cannot race. `policy/fcfs.h` is the template to start a new policy from. What only a
// few policies need, managers of groups and flows that move, is in policy/extensions.h.
//
// Hooks, in the order in which one request meets them. Only `next` is required; the free functions
// of namespace `hook` hold the defaults, written once, and hosts call only those:
//   route(job, at, host)            -> QueueRef   a request arrived at worker `at`
//   next(worker, me, host)          -> Job*       worker `me` is free; null = nothing to do
//   begins(worker, job, me, host)                 a job begins or goes on at worker `me`, or is
//                                                 long from now on, whoever chose it: also one of
//                                                 another group, or the next of its flow
//   quantum(worker, job, host)      -> Nanos      how long a slice of it is; Nanos::max() = no end
//   expired(job, me, host)          -> SliceDecision    its slice on worker `me` has ended
//   requeue(job, why, me, host)     -> QueueRef   it goes back
//   finished(worker, job, service)                it is done, after `service` on workers in all
//   dispatch(central, host)                       push-style policies move jobs between queues
//   may_serve(q, worker, host)      -> bool       may that worker take what waits in this queue, of
//                                                 a global declaration? Default: any may. A hint by
//                                                 which the host wakes one, asked on any worker
//   kind(worker, host)              -> uint32_t   up to kTypes; workers of one kind may serve the
//                                                 same. Default: all are of one. Where only some
//                                                 have a core, each kind has its part of the cores
//                                                 (overload/cores/kinds.h)
//   adapt(central, host)            -> Plan       slow path, every adapt_period(), never if max()
//   explain(plan, workers, out)                   tells people what a plan says; any thread, as
//                                                 often as asked (policy/explanation.h)
// Hooks run with preemption off and must be bounded.
//
// What the host does around them:
//   * It puts the job where route or requeue said. If that queue is full, an arrival is refused
//     (and counted), a preempted job keeps its worker for another slice.
//   * `quantum` is asked only of jobs that kPreempts covers: when such a job is given to a worker,
//     or when it becomes long there, after `begins`. On kContinue the slice is renewed with the
//     same length. It changes nothing: it may also be asked of a job that does not begin.
//   * A policy may write one field of a job, `policy_word`: in `route` and `requeue`, which get a
//     Job&, and in `next`, of what it takes. The other hooks read.
//   * `expired` may run on another core than the job, the timer core's: it may read depths, first
//     words and the plan, no more. The job is as it was when its slice began, but for `attained`,
//     which there counts to this moment. If the job leaves its worker at that very moment, its
//     fields may be of two jobs, each as some job had it; the verdict is void then.
//   * A hook that is declared with other parameters than these would be skipped in silence;
//     policy/archetype.h refuses to compile it.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/ids.h"
#include "base/limits.h"
#include "base/option_info.h"
#include "base/time.h"
#include "policy/job.h"

namespace rubato {

class Explanation;

enum class Scope : uint8_t {
  kPerWorker,   // one queue per worker
  kPerManager,  // one queue per manager (policy/extensions.h)
  kGlobal,      // `queue_count` queues shared by all
};

enum class Sharing : uint8_t {
  kOwner,      // only its worker puts and takes; depth may be read by all
  kStealable,  // its worker puts; every worker takes
  kShared,     // every worker puts and takes
  kManaged,    // of a manager: every worker puts; it takes, from both ends
};

enum class Order : uint8_t {
  kFifo,
  kByWord,  // the smallest policy_word first, of equal ones the one that was put first. The word
            // is read when the job is put. Requires kShared, and not aged
};

// One declared queue (or row of queues), bounded by the host.
struct QueueDeclaration {
  const char* name;
  Scope scope;
  Sharing sharing;
  uint32_t queue_count = 1;  // of a global declaration: how many queues it stands for
  bool aged = false;   // the policy asks for oldest(). Requires kShared
  Order order = Order::kFifo;
};

// Names one queue: `declaration` indexes the policy's kQueues, `index` is the worker, manager or
// index.
struct QueueRef {
  uint32_t declaration = 0;
  uint32_t index = 0;
  friend constexpr bool operator==(QueueRef, QueueRef) = default;
};

enum class RequeueReason : uint8_t { kPreempted, kYielded };

enum class SliceDecision : uint8_t {
  kContinue,  // renew the slice: nobody would gain
  kPreempt,   // put the job back and choose again
};

// The requests that a policy may keep waiting for as long as others that it prefers come.
enum class MayStarve : uint8_t {
  kNobody,
  kUnknown,  // requests whose type is not known
  kLong,     // all but those of the shortest type
};

// Which jobs get a slice whose end is looked at.
enum class Preempts : uint8_t { kNothing, kLong, kEverything };

// What has to wait for a slice's end to cut: where nothing does, `expired` says kContinue.
enum class CutsFor : uint8_t {
  kUnknown,    // ask `expired`
  kOwnQueues,  // a request in one of the worker's own queues
  kAnyQueue,   // a request in any queue
};

// What has been served of one request type since the start, by all workers together.
struct Served {
  uint64_t count = 0;
  Nanos service;  // in all
  Nanos waited;   // in all, from arrival to the first slice

  constexpr Served operator+(const Served& other) const {
    return {count + other.count, service + other.service, waited + other.waited};
  }
  constexpr Served operator-(const Served& other) const {
    return {count - other.count, service - other.service, waited - other.waited};
  }
};

// Everything a policy may ask of its host.
//   depth(q)                jobs waiting in q. A hint: it may be stale. Where the host can see them
//                           it counts requests of that worker still in the kernel or the NIC
//   produced(q)             jobs ever put into q, and
//   consumed(q)             ever taken from it; hints as well, but they never go back
//   oldest(q)               when the head of q arrived; Instant::never() if q seems empty. A hint.
//                           Requires a queue declared `aged`
//   first_word(q)           policy_word of the job that is taken next; kNoWord if q seems empty. A
//                           hint. Requires a queue in the order kByWord
//   busy(w)                 whether worker w has a job now; a hint
//   arrived(type)           requests of that type that came since the start, those refused as well;
//                           a hint. Requires type < limits::kTypes. For the slow path
//   served(type)            what was done of that type; a hint. Requires type < limits::kTypes, of
//                           which the last stands for all higher ones. For the slow path
//   served_as(class)        the same of all jobs that were of this class when they finished
//   take(q)                 null = empty; of a kShared queue also: a race was lost
//   put(q, job)             false = full; the caller still owns the job
//   steal(victim, into, n)  moves up to n jobs from the head of `victim`: the first is returned,
//                           the others are appended to `into`, in order; null = empty, or a race
//                           was lost. Requires room for n-1 jobs in `into`, which is FIFO
//   random(n)               uniform in 0 .. n-1. Requires n > 0. After a `next` that returned null
//                           the worker draws the same again, so null must not be a matter of luck:
//                           who tries one queue at random goes on to the others
template <class H, class Plan>
concept Host = requires(H& host, QueueRef q, Job* job, uint32_t n) {
  { host.now() } -> std::same_as<Instant>;
  { host.workers() } -> std::same_as<uint32_t>;
  { host.depth(q) } -> std::same_as<uint32_t>;
  { host.produced(q) } -> std::same_as<uint64_t>;
  { host.consumed(q) } -> std::same_as<uint64_t>;
  { host.oldest(q) } -> std::same_as<Instant>;
  { host.first_word(q) } -> std::same_as<uint64_t>;
  { host.busy(WorkerId{n}) } -> std::same_as<bool>;
  { host.arrived(n) } -> std::same_as<uint64_t>;
  { host.served(n) } -> std::same_as<Served>;
  { host.served_as(JobClass::kLong) } -> std::same_as<Served>;
  { host.take(q) } -> std::same_as<Job*>;
  { host.put(q, job) } -> std::same_as<bool>;
  { host.steal(q, q, n) } -> std::same_as<Job*>;
  { host.random(n) } -> std::same_as<uint32_t>;
  { host.plan() } -> std::same_as<const Plan&>;
};

// What first_word says of an empty queue.
inline constexpr uint64_t kNoWord = UINT64_MAX;

namespace internal {
constexpr bool heads_fit(std::span<const QueueDeclaration> queues) {
  for (const QueueDeclaration& declaration : queues) {
    const bool ordered = declaration.order != Order::kFifo;
    if (ordered && declaration.aged) return false;
    if ((ordered || declaration.aged) && declaration.sharing != Sharing::kShared) return false;
  }
  return true;
}
}  // namespace internal

// Every policy names itself, its tunables and its queues. kQueues[0] is where requests arrive,
// unless `route` says otherwise. A policy may also claim by `static constexpr bool`, and the
// conformance tests hold it to that, or its hosts to it (kLowestIdleFirst, kParksEmpty):
//   kWorkConserving    no worker idles while a job waits
//   kInterchangeable   what one idle worker does not find, no other finds either, but for queues of
//                      its own: a host that knows the idle workers need not ask them all
//   kLowestIdleFirst   of several idle workers that may serve a queue that all share, the lowest is
//                      the one to ask
//   cuts_for()         -> CutsFor, for requests that are long, or whatever they are if it preempts
//                      every one; default: kUnknown. By which a host may skip ends of slices
//   kPushes            a worker takes from queues of its own only; `dispatch` empties the others
//   kUsesSizes         it goes by size_hint: a request that comes without one gets what requests of
//                      its type and size took before
//   kSimulatedOnly     it stands for hardware: the live host refuses it
//   kElastic           every worker finds every request, or a worker that parks leaves it where
//                      others do: may be simulated with sessions and allocated cores
//   kParksEmpty        nobody else may find what waits at a worker: it gives its core away only
//                      with nothing in its own queues
//   kMayStarve         a MayStarve: the requests that may wait for as long as others come
template <class P>
concept Policy = requires(typename P::Config config) {
  { P::kName } -> std::convertible_to<const char*>;
  { P::kSummary } -> std::convertible_to<const char*>;
  { P::kSource } -> std::convertible_to<const char*>;
  { P::kPreempts } -> std::convertible_to<Preempts>;
  { std::span<const QueueDeclaration>(P::kQueues) };
  requires internal::heads_fit(P::kQueues);
  typename P::Worker;
  typename P::Central;
  typename P::Plan;
  requires std::is_trivially_copyable_v<typename P::Plan>;
  requires std::constructible_from<P, typename P::Config>;
};

namespace internal {
// What `claim` reads of P, or `otherwise` where P does not claim it.
template <class P, class Claim, class Value>
consteval Value claimed(Claim claim, Value otherwise) {
  if constexpr (std::invocable<Claim, std::type_identity<P>>) {
    return claim(std::type_identity<P>{});
  } else {
    return otherwise;
  }
}
}  // namespace internal

template <Policy P>
inline constexpr bool kClaimsWorkConserving = internal::claimed<P>(
    []<class Q>(std::type_identity<Q>) -> decltype(Q::kWorkConserving) {
      return Q::kWorkConserving;
    },
    false);

// Has P a queue that is not FIFO?
template <Policy P>
inline constexpr bool kOrders = [] {
  for (const QueueDeclaration& declaration : P::kQueues) {
    if (declaration.order != Order::kFifo) return true;
  }
  return false;
}();

template <Policy P>
inline constexpr bool kClaimsPushes = internal::claimed<P>(
    []<class Q>(std::type_identity<Q>) -> decltype(Q::kPushes) { return Q::kPushes; }, false);

template <Policy P>
inline constexpr bool kAsksLowestFirst = internal::claimed<P>(
    []<class Q>(std::type_identity<Q>) -> decltype(Q::kLowestIdleFirst) {
      return Q::kLowestIdleFirst;
    },
    false);

// The claim may depend on the settings: bool interchangeable() const.
template <Policy P>
bool interchangeable(const P& policy) {
  if constexpr (requires { policy.interchangeable(); }) {
    return policy.interchangeable();
  } else if constexpr (requires { P::kInterchangeable; }) {
    return P::kInterchangeable;
  } else {
    return false;
  }
}

template <Policy P>
CutsFor cuts_for(const P& policy) {
  if constexpr (requires { policy.cuts_for(); }) {
    return policy.cuts_for();
  } else {
    return CutsFor::kUnknown;
  }
}

template <Policy P>
inline constexpr bool kServesLive = !internal::claimed<P>(
    []<class Q>(std::type_identity<Q>) -> decltype(Q::kSimulatedOnly) { return Q::kSimulatedOnly; },
    false);

template <Policy P>
inline constexpr bool kGoesElastic = internal::claimed<P>(
    []<class Q>(std::type_identity<Q>) -> decltype(Q::kElastic) { return Q::kElastic; }, false);

template <Policy P>
inline constexpr bool kParksWhenEmpty = internal::claimed<P>(
    []<class Q>(std::type_identity<Q>) -> decltype(Q::kParksEmpty) { return Q::kParksEmpty; },
    false);

template <Policy P>
inline constexpr bool kGoesBySize = internal::claimed<P>(
    []<class Q>(std::type_identity<Q>) -> decltype(Q::kUsesSizes) { return Q::kUsesSizes; }, false);

template <Policy P>
inline constexpr MayStarve kClaimsMayStarve = internal::claimed<P>(
    []<class Q>(std::type_identity<Q>) -> decltype(Q::kMayStarve) { return Q::kMayStarve; },
    MayStarve::kNobody);

// Empty state for policies that need none.
struct None {};

// How many queues a declaration stands for.
template <Policy P>
uint32_t queue_count_of(const P& policy, const QueueDeclaration& declaration, uint32_t workers) {
  if (declaration.scope == Scope::kGlobal) return declaration.queue_count;
  if constexpr (requires { policy.managers(workers); }) {
    if (declaration.scope == Scope::kPerManager) return policy.managers(workers);
  }
  return workers;
}

}  // namespace rubato

#include "policy/hooks.h"
