// SPDX-License-Identifier: Apache-2.0
//
// What sched::Core asks of its host: a Platform is a handle on one worker of it.
//
//   Request                   derived from RequestState
//   kOutlivesReply            may a request still be looked at after reply()?
//   kHasConnections           do requests come by connections, in pipelines?
//   kHasGroups                are there groups that share the workers by weight, the control plane
//                             among them?
//   me()                      the worker
//   host()                    the verbs of policy/contract.h, on this worker
//   now(), look_at_clock()    the time of this decision; the same, read anew
//   payload_bytes(request)    of the request's own bytes
//   is_abandoned(request)     does nobody want its reply any more?
//   admits(request)           is the credited request, whose turn it is, still to be served?
//   Limiter, limiter()        what limits the requests that the server takes in
//                             (overload/limiter.h), for as long as the core lives; null = nothing
// Queues:
//   enqueue(q, request)       puts an arrival; false = full. Wakes a worker that may take it
//   put_back(q, request)      the same for a request that has been preempted
//   take_in()                 takes in what has arrived meanwhile
//   help()                    looks for work at workers that are stuck
// The client:
//   reply(request)            the reply of a finished request leaves
//   refuse(request)           an explicit refusal does. Returns the next command of the flow, if it
//                             is here; null = it is not
// Slices:
//   take_up(request)          the worker turns to the request
//   arm(request, quantum)     a slice of that length begins
//   disarm()                  one without an end does
//   renew(request, quantum)   the slice goes on for so long
//   begin(request)            the request runs from now on; returns since when
//   stops()                   is the host waiting for the last requests to end?
//   begin_look(), end_look(found)
//                             the policy is asked for the next request; what it draws in a look
//                             that finds none is taken back (sched/draws.h)
//   suspended()               requests of all workers that were preempted and wait
// What is counted, by hosts that count it:
//   note_arrived, note_refused, note_started, note_cancelled, note_finished (request)
//   note_long(by)             a request has become long, by that way to classify
//   note_waited(class, wait)  how long a request of that class waited for its turn
//   note_none_waits()         there is nothing to do
//   note_overloaded(so)       requests are refused for their wait, or not
// With groups also, of which each worker has two queues for each group but the policy's:
//   put_in_group(request, suspended)
//                             into the queue of those that were preempted, or have just come; false
//                             = full. Wakes a worker if this one does not come to it soon
//   take_in_group(group, suspended)    from this worker's queues, from the one with those that were
//                             preempted first or last; null = they are empty
//   take_from_others(group)   from any worker's queues; null = they are empty
//   waits_in_group(group)     does one wait at this worker?
//   lost()                    of the time that the last request had here, without a CPU
// With connections also:
//   others_wait()             does something wait in this worker's arrival queue?
//   answer(request)           the reply of a request with nothing to run; returns as refuse does
//   flush(request)            the replies of its flow that are due leave now
#pragma once

#include <concepts>
#include <cstddef>

#include "base/time.h"
#include "overload/limiter.h"
#include "policy/contract.h"
#include "sched/classify.h"
#include "sched/request_state.h"

namespace rubato::sched {

// What came of sending a reply.
template <class Request>
struct Replied {
  Request* next = nullptr;  // the next command of the flow, if it is here
  Nanos cost;               // sending it is part of what the request costs those behind it
  Nanos lost;               // of that, without a CPU
};

// What a platform need not say whose requests do not come by connections and which counts nothing:
// to derive from.
struct PlainPlatform {
  static constexpr bool kOutlivesReply = true;
  static constexpr bool kHasConnections = false;
  static constexpr bool kHasGroups = false;
  static size_t payload_bytes(const RequestState&) { return 0; }
  static bool is_abandoned(const RequestState&) { return false; }
  static bool admits(const RequestState&) { return true; }
  using Limiter = overload::Limiter<overload::OneThread>;
  static Limiter* limiter() { return nullptr; }
  static void take_in() {}
  static void help() {}
  static void arm(const RequestState&, Nanos) {}
  static void renew(const RequestState&, Nanos) {}
  static void disarm() {}
  static bool stops() { return false; }
  static void begin_look() {}
  static void end_look(bool) {}
  static void note_started(const RequestState&) {}
  static void note_cancelled(const RequestState&) {}
  static void note_refused(const RequestState&) {}
  static void note_waited(JobClass, Nanos) {}
  static void note_none_waits() {}
  static void note_long(Classify) {}
  static void note_overloaded(bool) {}
};

template <class T>
inline constexpr bool kIsPlatform =
    std::derived_from<typename T::Request, RequestState> &&
    requires(T t, typename T::Request& request, QueueRef q, Nanos time, JobClass job_class) {
      { T::kOutlivesReply } -> std::convertible_to<bool>;
      { T::kHasConnections } -> std::convertible_to<bool>;
      { T::kHasGroups } -> std::convertible_to<bool>;
      { t.me() } -> std::same_as<WorkerId>;
      t.host();
      { t.now() } -> std::same_as<Instant>;
      { t.look_at_clock() } -> std::same_as<Instant>;
      { t.payload_bytes(request) } -> std::same_as<size_t>;
      { t.is_abandoned(request) } -> std::same_as<bool>;
      { t.admits(request) } -> std::same_as<bool>;
      { t.limiter() } -> std::same_as<typename T::Limiter*>;
      { t.enqueue(q, request) } -> std::same_as<bool>;
      { t.put_back(q, request) } -> std::same_as<bool>;
      t.take_in();
      t.help();
      { t.reply(request) } -> std::same_as<Replied<typename T::Request>>;
      { t.refuse(request) } -> std::same_as<typename T::Request*>;
      t.take_up(request);
      t.arm(request, time);
      t.disarm();
      t.renew(request, time);
      { t.begin(request) } -> std::same_as<Instant>;
      { t.stops() } -> std::same_as<bool>;
      t.begin_look();
      t.end_look(true);
      { t.suspended() } -> std::same_as<int64_t>;
      t.note_arrived(request);
      t.note_refused(request);
      t.note_started(request);
      t.note_cancelled(request);
      t.note_finished(request);
      t.note_long(Classify::kAge);
      t.note_waited(job_class, time);
      t.note_none_waits();
      t.note_overloaded(true);
    };

}  // namespace rubato::sched
