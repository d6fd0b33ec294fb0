// SPDX-License-Identifier: Apache-2.0
//
// ArchetypeHost: a host with exactly the members of concept Host, those of the extensions that the
// policy asks for, and nothing else. A policy whose hooks compile with it asks of a host no more
// than the contract gives. For compile-time checks
// only: every member aborts when it is called.
//
//   static_assert(kHooksFit<P>);   every hook that P names has the contract's parameters and result
//   instantiate_hooks<P>();        every hook body compiles with the archetype
#pragma once

#include <concepts>
#include <tuple>

#include "base/check.h"
#include "policy/contract.h"
#include "policy/extensions.h"

namespace rubato {

namespace internal {
[[noreturn]] inline void archetype_called() {
  check_failed(__FILE__, __LINE__, "archetype was called");
}

template <bool kGiven>
struct ManagerVerbs {};
template <>
struct ManagerVerbs<true> {
  Job* take_tail(QueueRef) { archetype_called(); }
  bool send(ManagerId, const Message&) { archetype_called(); }
  bool receive(ManagerId, Message&) { archetype_called(); }
};

template <bool kGiven>
struct SteeringVerbs {};
template <>
struct SteeringVerbs<true> {
  uint64_t hint(WorkerId) { archetype_called(); }
  bool publish_hint(WorkerId, uint64_t, uint64_t) { archetype_called(); }
  bool steer(uint64_t, WorkerId) { archetype_called(); }
  bool unsteer(uint64_t) { archetype_called(); }
};
}  // namespace internal

template <class P>
class ArchetypeHost : public internal::ManagerVerbs<kManages<P>>,
                      public internal::SteeringVerbs<kSteersFlows<P>> {
 public:
  ArchetypeHost() = default;
  ArchetypeHost(const ArchetypeHost&) = delete;
  ArchetypeHost& operator=(const ArchetypeHost&) = delete;

  Instant now() { internal::archetype_called(); }
  uint32_t workers() { internal::archetype_called(); }
  uint32_t depth(QueueRef) { internal::archetype_called(); }
  uint64_t produced(QueueRef) { internal::archetype_called(); }
  uint64_t consumed(QueueRef) { internal::archetype_called(); }
  Instant oldest(QueueRef) { internal::archetype_called(); }
  uint64_t first_word(QueueRef) { internal::archetype_called(); }
  bool busy(WorkerId) { internal::archetype_called(); }
  uint64_t arrived(uint32_t) { internal::archetype_called(); }
  Served served(uint32_t) { internal::archetype_called(); }
  Served served_as(JobClass) { internal::archetype_called(); }
  Job* take(QueueRef) { internal::archetype_called(); }
  bool put(QueueRef, Job*) { internal::archetype_called(); }
  Job* steal(QueueRef, QueueRef, uint32_t) { internal::archetype_called(); }
  uint32_t random(uint32_t) { internal::archetype_called(); }
  const typename P::Plan& plan() { internal::archetype_called(); }
};

// Does P push, that is, has it a `dispatch`?
template <Policy P, class H = ArchetypeHost<P>>
inline constexpr bool kDispatches =
    requires(const P& policy, typename P::Central& central, H& host) {
      policy.dispatch(central, host);
    };

// Does P learn on the slow path, that is, has it an `adapt`? Others ask for no totals.
template <Policy P, class H = ArchetypeHost<P>>
inline constexpr bool kAdapts = requires(const P& policy, typename P::Central& central, H& host) {
  policy.adapt(central, host);
};

// True if the policy gives arrivals to their own worker only, so that no other worker takes them
// in.
template <Policy P>
inline constexpr bool kOwnArrivals = P::kQueues[0].scope == Scope::kPerWorker &&
                                     P::kQueues[0].sharing == Sharing::kOwner;

namespace internal {

// A name found in two bases is ambiguous, so `&Named<P>::route` is ill-formed exactly if P declares
// some `route`, template or not, whatever its parameters.
struct HookNames {
  void route() {}
  void begins() {}
  void quantum() {}
  void expired() {}
  void requeue() {}
  void finished() {}
  void dispatch() {}
  void manage() {}
  void may_serve() {}
  void kind() {}
  void adapt() {}
  void adapt_period() {}
  void initial_plan() {}
  void explain() {}
};

template <class P>
struct Named : P, HookNames {};

// Each reads: P declares no such name, or the call of namespace hook compiles.
template <class P, class H>
concept RouteFits = requires { &Named<P>::route; } ||
                    requires(const P& policy, Job& job, WorkerId at, H& host) {
                      { policy.route(job, at, host) } -> std::same_as<QueueRef>;
                    };
template <class P, class H>
concept NextFits = requires(const P& policy, typename P::Worker& worker, WorkerId me, H& host) {
  { policy.next(worker, me, host) } -> std::same_as<Job*>;
};
template <class P, class H>
concept BeginsFits =
    requires { &Named<P>::begins; } ||
    requires(const P& policy, typename P::Worker& worker, const Job& job, WorkerId me, H& host) {
      { policy.begins(worker, job, me, host) } -> std::same_as<void>;
    };
template <class P, class H>
concept QuantumFits = requires {
  &Named<P>::quantum;
} || requires(const P& policy, const typename P::Worker& worker, const Job& job, H& host) {
  { policy.quantum(worker, job, host) } -> std::same_as<Nanos>;
};
template <class P, class H>
concept ExpiredFits =
    requires { &Named<P>::expired; } ||
    requires(const P& policy, const Job& job, WorkerId me, H& host) {
      { policy.expired(job, me, host) } -> std::same_as<SliceDecision>;
    };
template <class P, class H>
concept RequeueFits = requires { &Named<P>::requeue; } ||
                      requires(const P& policy, Job& job, RequeueReason why, WorkerId me, H& host) {
                        { policy.requeue(job, why, me, host) } -> std::same_as<QueueRef>;
                      };
template <class P>
concept FinishedFits = requires { &Named<P>::finished; } ||
                       requires(const P& policy, typename P::Worker& worker, const Job& job,
                                Nanos service) { policy.finished(worker, job, service); };
template <class P, class H>
concept DispatchFits =
    requires { &Named<P>::dispatch; } || requires(const P& policy, typename P::Central& central,
                                                  H& host) { policy.dispatch(central, host); };
template <class P, class H>
concept ManageFits =
    requires { &Named<P>::manage; } ||
    requires(const P& policy, ManagerState<P>& manager, ManagerId me, WorkerId worker, H& host) {
      { policy.manage(manager, me, host) } -> std::same_as<Instant>;
      { policy.managers(uint32_t{}) } -> std::same_as<uint32_t>;
      { policy.manager_of(worker, uint32_t{}) } -> std::same_as<ManagerId>;
    };
template <class P, class H>
concept MayServeFits =
    requires { &Named<P>::may_serve; } ||
    requires(const P& policy, QueueRef q, WorkerId worker, H& host) {
      { policy.may_serve(q, worker, host) } -> std::same_as<bool>;
    };
template <class P, class H>
concept KindFits = requires { &Named<P>::kind; } ||
                   requires(const P& policy, WorkerId worker, H& host) {
                     { policy.kind(worker, host) } -> std::same_as<uint32_t>;
                   };
template <class P, class H>
concept AdaptFits = requires { &Named<P>::adapt; } ||
                    requires(const P& policy, typename P::Central& central, H& host) {
                      { policy.adapt(central, host) } -> std::same_as<typename P::Plan>;
                    };
template <class P>
concept PeriodFits = requires { &Named<P>::adapt_period; } || requires(const P& policy) {
  { policy.adapt_period() } -> std::same_as<Nanos>;
};
template <class P>
concept InitialPlanFits = requires { &Named<P>::initial_plan; } || requires(const P& policy) {
  { policy.initial_plan() } -> std::same_as<typename P::Plan>;
};
template <class P>
concept ExplainFits = requires { &Named<P>::explain; } ||
                      requires(const P& policy, const typename P::Plan& plan, uint32_t workers,
                               Explanation& out) { policy.explain(plan, workers, out); };

}  // namespace internal

template <Policy P, class H = ArchetypeHost<P>>
inline constexpr bool kHooksFit =
    internal::RouteFits<P, H> && internal::NextFits<P, H> && internal::BeginsFits<P, H> &&
    internal::QuantumFits<P, H> && internal::ExpiredFits<P, H> && internal::RequeueFits<P, H> &&
    internal::FinishedFits<P> && internal::DispatchFits<P, H> && internal::ManageFits<P, H> &&
    internal::MayServeFits<P, H> && internal::KindFits<P, H> && internal::AdaptFits<P, H> &&
    internal::PeriodFits<P> && internal::InitialPlanFits<P> && internal::ExplainFits<P>;

// Compiles every hook of P with the archetype; the result is of no other use.
template <Policy P>
constexpr auto instantiate_hooks() {
  using H = ArchetypeHost<P>;
  static_assert(Host<H, typename P::Plan>);
  static_assert(ManagedHost<H> == kManages<P> && SteeringHost<H> == kSteersFlows<P>);
  return std::tuple(&hook::route<P, H>, &hook::next<P, H>, &hook::begins<P, H>,
                    &hook::quantum<P, H>, &hook::expired<P, H>, &hook::requeue<P, H>,
                    &hook::finished<P>, &hook::dispatch<P, H>, &hook::manage<P, H>,
                    &hook::may_serve<P, H>, &hook::kind<P, H>, &hook::adapt<P, H>);
}

}  // namespace rubato
