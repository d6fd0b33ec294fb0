// SPDX-License-Identifier: Apache-2.0
//
// What the contract gives to the few policies that ask for it, beside policy/contract.h:
//
// Managers, for a policy with a `struct Manager` (Altocumulus). A manager is a context that looks
// after a group of workers; a `Manager&` is lent to one context at a time.
//   managers(workers)              how many there are, at most limits::kMaxManagers
//   manager_of(worker, workers)    whose that worker is
//   manage(manager, me, host)      -> Instant    a hook, its step: moves jobs between the queues of
//                                                its group, talks to other managers
// The host calls `manage` after something came to a queue or the mailbox of that manager, after a
// worker of its group took, finished or gave back a job, and at the instant that the step before
// returned (never() = only for such a reason).
//
// Flows, for a policy that says `static constexpr bool kSteers = true` (SBB): its workers tell each
// other by hints which flows are to arrive elsewhere.
//
// All hosts have both; policy/archetype.h compiles the hooks of a policy with no more than it asks.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>

#include "base/check.h"
#include "policy/contract.h"

namespace rubato {

// What one manager tells another. What `kind` and `value` mean is the policy's business. The jobs
// belong to the message while it is on its way.
struct Message {
  ManagerId from;
  uint8_t kind = 0;
  uint32_t value = 0;
  uint32_t jobs = 0;  // of `job`, in their order
  std::array<Job*, limits::kMessageJobs> job{};
};

//   take_tail(q)            the job that was put last; of a kManaged queue, by its manager
//   send(to, message)       by a manager, which holds the message's jobs; false = the mailbox is
//                           full and the jobs are still the caller's
//   receive(me, message)    by manager `me`, which then holds the message's jobs; false = none is
//                           there. In the order in which each sender sent them
template <class H>
concept ManagedHost = requires(H& host, QueueRef q, ManagerId manager, Message& message) {
  { host.take_tail(q) } -> std::same_as<Job*>;
  { host.send(manager, message) } -> std::same_as<bool>;
  { host.receive(manager, message) } -> std::same_as<bool>;
};

//   hint(w)               what worker w has published, at first 0; a hint
//   publish_hint(w, seen, value)    replaces it if it is still `seen`; false = it is not. A hint
//                                   that all
//                           can read, by any worker
//   steer(flow, w)          the requests of that flow which are received from now on (or soon)
//                           arrive at worker w; false = the flow or the means are not there
//   unsteer(flow)           takes that back; false = there was nothing to take back
template <class H>
concept SteeringHost = requires(H& host, WorkerId worker, uint64_t word) {
  { host.hint(worker) } -> std::same_as<uint64_t>;
  { host.publish_hint(worker, word, word) } -> std::same_as<bool>;
  { host.steer(word, worker) } -> std::same_as<bool>;
  { host.unsteer(word) } -> std::same_as<bool>;
};

// Does P steer flows?
template <Policy P>
inline constexpr bool kSteersFlows = internal::claimed<P>(
    []<class Q>(std::type_identity<Q>) -> decltype(Q::kSteers) { return Q::kSteers; }, false);

// Has P managers?
template <Policy P>
inline constexpr bool kManages = requires { typename P::Manager; };

namespace internal {
template <class P>
struct ManagerOf {
  using type = None;
};
template <class P>
  requires requires { typename P::Manager; }
struct ManagerOf<P> {
  using type = typename P::Manager;
};
}  // namespace internal

template <Policy P>
using ManagerState = typename internal::ManagerOf<P>::type;

template <Policy P>
uint32_t managers(const P& policy, uint32_t workers) {
  if constexpr (kManages<P>) {
    const uint32_t managers = policy.managers(workers);
    RUBATO_DCHECK(managers >= 1 && managers <= limits::kMaxManagers);
    return managers;
  } else {
    return 0;
  }
}
template <Policy P>
ManagerId manager_of(const P& policy, WorkerId worker, uint32_t workers) {
  if constexpr (kManages<P>) {
    const ManagerId manager = policy.manager_of(worker, workers);
    RUBATO_DCHECK(manager.value < policy.managers(workers));
    return manager;
  } else {
    return {};
  }
}

namespace hook {

template <Policy P, class H>
Instant manage(const P& policy, ManagerState<P>& manager, ManagerId me, H& host) {
  if constexpr (kManages<P>) {
    RUBATO_DCHECK(me.value < policy.managers(host.workers()));
    return policy.manage(manager, me, host);
  } else {
    return Instant::never();
  }
}

}  // namespace hook
}  // namespace rubato
