// SPDX-License-Identifier: Apache-2.0
//
// The contract of core allocators: how many cores a server has, and what a core does that has
// nothing to do. What it does not have is left to best-effort work.
//
// An allocator is plain data plus member templates over a host, as a policy is (policy/contract.h):
// no clock, no atomic, no thread, no memory of its own. It is asked from two contexts:
//   change(controller, signals) -> CoreChange   every interval(), by one controller for all cores
//   idle(idle, polled, host)    -> Rest         by a core that finds no work, time and again while
//                                               it polls and steals; `polled` is how long it has
//                                               been without work, or since it was woken
//   resumed(idle, host)                         by that core, before it serves what it found while
//                                               it polled, and when it is woken after parking
// A `Controller` is lent to the controller's context only, an `Idle` to its core only. Both start
// as they are made. If not kParks, no core parks by itself, and idle() need not be asked.
//
// What the host does around them:
//   * kGrant: it wakes a parked core, if it has one. kRelease: it parks the core whose requests
//     have waited least, an idle one first; a busy one parks when it is done with its request.
//     Whatever waits at a core that parks must be found by others.
//   * kPark is an order: after it the core asks nothing until it is woken, and then calls resumed.
//     A host that promises some cores (guaranteed ones) does not ask idle() of those.
//   * A core that is told to park by the controller while it polls calls resumed() before it does.
//   * It keeps at least one core, or wakes one as soon as something arrives.
#pragma once

#include <concepts>
#include <cstdint>

#include "base/option_info.h"
#include "base/time.h"

namespace rubato::overload {

// What the controller sees, of the time since it last looked.
struct CoreSignals {
  uint32_t cores = 0;  // granted: they serve, poll, or are being woken
  uint32_t limit = 0;  // the most there can be
  Nanos max_delay;     // how long the request has waited that waits longest, at any core
  Nanos mean_delay;    // the same of each granted core, on average; 0 for those where none waits
  double busy = 0;     // share of the granted cores' time in which they served requests, 0 .. 1
  bool parked_has_work = false;  // a request waits where only a parked core would take it
};

enum class CoreChange : int8_t { kRelease = -1, kKeep = 0, kGrant = 1 };

enum class IdleAction : uint8_t {
  kPoll,  // look for work again, and ask again
  kPark,
};

// What an idle core may ask of its host; any core, at the same time as others. All but the last
// four are hints: they may be as old as a few instructions.
//   drained()          sessions that were told zero credits (num_drained_sess of Algorithm 1)
//   sessions()         open sessions (num_sess)
//   outstanding()      credits told to clients and not in use by a request at the server
//                      (Credits_issued; III-C defines it so)
//   cores()            granted cores, this one included (num_cores)
//   claim_parking()    true = nobody else is parking, and this core is until it releases that
//   release_parking()
//   withhold(n)        takes n credits from the total, atomically; credits that are underway come
//                      back later
//   give_back(n)       returns what was withheld
// A host without credits has no drained sessions and none outstanding.
template <class H>
concept IdleHost = requires(H& host, int64_t n) {
  { host.drained() } -> std::convertible_to<int64_t>;
  { host.sessions() } -> std::convertible_to<int64_t>;
  { host.outstanding() } -> std::convertible_to<int64_t>;
  { host.cores() } -> std::convertible_to<int64_t>;
  { host.claim_parking() } -> std::same_as<bool>;
  host.release_parking();
  host.withhold(n);
  host.give_back(n);
};

// Empty state for allocators that need none.
struct NoState {};

namespace internal {
struct NoCredits {
  int64_t drained() { return 0; }
  int64_t sessions() { return 0; }
  int64_t outstanding() { return 0; }
  int64_t cores() { return 1; }
  bool claim_parking() { return true; }
  void release_parking() {}
  void withhold(int64_t) {}
  void give_back(int64_t) {}
};
}  // namespace internal

template <class A, class H = internal::NoCredits>
concept CoreAllocator = IdleHost<H> && requires(const A& a, typename A::Controller& controller,
                                                typename A::Idle& idle, const CoreSignals& signals,
                                                Nanos polled, H& host) {
  { A::kName } -> std::convertible_to<const char*>;
  { A::kSummary } -> std::convertible_to<const char*>;
  { A::kSource } -> std::convertible_to<const char*>;
  typename A::Config;
  { A::kParks } -> std::convertible_to<bool>;
  { a.interval() } -> std::same_as<Nanos>;
  { a.change(controller, signals) } -> std::same_as<CoreChange>;
  { a.idle(idle, polled, host) } -> std::same_as<IdleAction>;
  a.resumed(idle, host);
};

// Is a request waiting for too long, or where nobody looks? The first question of all allocators
// that grant cores ("a queueing delay threshold of 5 us" for each, CoreSync IV-A).
inline bool congested(const CoreSignals& signals, Nanos threshold) {
  return signals.parked_has_work || signals.max_delay >= threshold;
}

}  // namespace rubato::overload
