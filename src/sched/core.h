// SPDX-License-Identifier: Apache-2.0
//
// Core<P, Platform>: what one worker does with requests, from their arrival to their reply, by the
// decisions of policy P. It alone calls the hooks of policy/contract.h that concern a request. The
// live worker, the simulated one and the driver of the policies' tests are its platforms
// (sched/platform.h): they lend it time, queues and a way to switch, and say what happens.
//
//   admit    a request has come      -> it is answered at once, refused, or put where `route` says
//   next     the worker is free      -> the request whose turn it is, or null
//   start    it is given the worker  -> false: it was refused instead, for it has waited too long
//                                       or nobody wants it any more
//   cancels  it runs                 -> whether it is to end as soon as it can
//   expire   its slice has ended     -> whether it is to leave the worker
//   requeue  it has left the worker  -> it waits where `requeue` says
//   ready    it has left it to wait for something, which has come -> it waits for its turn
//   finish   it is done              -> its reply leaves, the policy learns from it, and the next
//                                       command of its flow follows or queues
//
// One per worker, used by that worker's thread only. What a request waited counts from when it
// reached the server: a backlog in the sockets is a queue like any other. Read it from the top: it
// goes the way that a request goes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "overload/class_delay.h"
#include "overload/limiter.h"
#include "overload/refusal_rule.h"
#include "policy/contract.h"
#include "sched/classify.h"
#include "sched/group_shares.h"
#include "sched/service_time_estimator.h"
#include "sched/platform.h"
#include "sched/request_state.h"

namespace rubato::sched {

struct CoreOptions {
  Classify classify = Classify::kAge;
  std::optional<overload::RefusalSettings> refusal_rule;  // none = what fits the queues is served
  bool firm_deadlines = true;  // a reply is worth nothing after the deadline
  GroupWeights weights{};      // where the platform has groups
};

template <Policy P, class Platform>
class Core {
 public:
  using Request = typename Platform::Request;

  Core(const P& policy, const CoreOptions& options, Platform platform)
      : policy_(policy),
        platform_(platform),
        classify_(options.classify),
        firm_deadlines_(options.firm_deadlines),
        groups_(options.weights) {
    static_assert(kIsPlatform<Platform>);
    const bool controlled = options.refusal_rule || platform_.limiter() != nullptr;
    if (!controlled && classify_ != Classify::kLearned && !kGoesBySize<P>) return;
    experience_ = std::make_unique<Experience>();
    experience_->limiter = platform_.limiter();
    if (options.refusal_rule) experience_->refusal_rule.emplace(*options.refusal_rule);
  }

  // ---- Arrival --------------------------------------------------------------------------------

  // A request has come to this worker.
  void admit(Request& request) {
    RUBATO_DCHECK(!request.has_started);
    Request* first = answer_at_once(&request);
    if (first == nullptr) return;
    platform_.note_arrived(*first);
    if (!serves(*first, Refusal::kDelay)) return refuse_late(*first, Refusal::kDelay);
    enqueue(*first);
  }

 private:
  // A request with nothing to run does not wait behind those that have. After a run of them the
  // flow's next one queues with the control plane, so that a client that sends nothing else gets no
  // more than that.
  Request* answer_at_once(Request* next) {
    if constexpr (kHasConnections) {
      for (uint32_t run = 0; next != nullptr && next->at_once && run < kFlowRun; ++run) {
        next = platform_.answer(*next);
      }
      if (next != nullptr && next->at_once) next->group = kControlGroup;
    }
    return next;
  }

  // Full means an explicit refusal and a counter. The flow's next command gets its own chance: it
  // may go to another queue. The flow yields at the latest when its turn of input is used up.
  void enqueue(Request& request) {
    if (!queue_up(request)) refuse_one(request, Refusal::kFull);
  }

  // False: its queue is full.
  bool queue_up(Request& request) {
    if constexpr (kHasGroups) {
      if (request.group != kPolicyGroup) return put_in_group(request, false);
    }
    if (kGoesBySize<P> && request.size_hint == Nanos()) request.size_hint = expected(request);
    const QueueRef q = hook::route(policy_, request, platform_.me(), platform_.host());
    return platform_.enqueue(q, request);
  }

  // ---- Refusal --------------------------------------------------------------------------------
  // Asked when a request arrives and when its turn has come. Never refused: the control plane, and
  // what has been started.

  bool serves(Request& request, Refusal why) {
    return experience_ == nullptr || request.is_control() || judge(request, why);
  }

  // At its turn. The host that gives the credits judges the wait of a request that came with one,
  // a limiter that of one that it let in.
  bool admits(Request& request) {
    if (request.credited && !platform_.admits(request)) return false;
    if (!request.limited) [[likely]] return true;
    const Instant now = platform_.now();
    return limiter().starts(platform_.me().value, now - request.arrived, now);
  }

  // A limiter judges a request once, when it arrives.
  bool is_let_in(Request& request) {
    if (request.limited) return true;
    request.limited = limiter().admits(
        platform_.me().value, {request.priority, request.cohort, request.flow}, platform_.now());
    request.admitted_levels = limiter().levels();
    platform_.note_overloaded(limiter().limits());
    return request.limited;
  }

  // kShare: its connection has just had its turn, and others wait.
  bool judge(Request& request, Refusal why) {
    if (experience_->limiter != nullptr) return is_let_in(request);
    if (!experience_->refusal_rule) return true;
    const Instant now = platform_.now();
    const Nanos wait = std::max(now - request.arrived, wait_among_long(request));
    const bool is_long = will_be_long(request);
    const bool served = why == Refusal::kShare ? refusal_rule().serves_more(wait, now, is_long)
                                               : refusal_rule().serves(wait, now, is_long);
    if (!served && is_long) request.job_class = JobClass::kLong;
    platform_.note_overloaded(refusal_rule().overloaded());
    return served;
  }

  // Asked only where long requests have a target of their own. Before they start this is a guess.
  bool will_be_long(const Request& request) const {
    if (!refusal_rule().settings().tells_long()) return false;
    return request.job_class == JobClass::kLong ||
           estimator().was_long(request.type, bytes_of(request));
  }

  // A policy that preempts starts a long request soon and lets it wait afterwards. So its overload
  // shows in the number that are underway, which wait for each other whenever they came, and, where
  // short ones leave them little, in how long the last one waited to go on. Zero if the request
  // will be short, or its wait is in order (docs/decisions/011-overload-by-class.md).
  Nanos wait_among_long(Request& request) {
    if constexpr (P::kPreempts == Preempts::kNothing) return Nanos();
    const Nanos service = expected(request);
    if (service <= hook::quantum(policy_, state_, request, platform_.host())) return Nanos();
    const int64_t suspended = platform_.suspended();
    if (suspended <= 0) return Nanos();
    const Nanos turns = overload::wait_in_turns(service, suspended, platform_.host().workers());
    const Nanos longest = std::max(turns, experience_->waited_long);
    const Nanos wait = refusal_rule().late_among_long(longest, service);
    if (wait > Nanos()) request.job_class = JobClass::kLong;
    return wait;
  }

  // Refuses it, and what of its connection is late, or beyond a limit, too: together their replies
  // cost one send. The first that is not is queued.
  void refuse_late(Request& late, Refusal why) {
    if (experience_->limiter != nullptr) why = Refusal::kLimit;
    const Instant begun = platform_.look_at_clock();
    waited(late.job_class, begun - late.arrived);
    Request* next = refuse(late, why);
    for (uint32_t refused = 1; next != nullptr; ++refused) {
      platform_.note_arrived(*next);
      if (refused == kRefusalRun || serves(*next, why)) break;
      next = refuse(*next, why);
    }
    if (experience_->refusal_rule) refusal_rule().spent(platform_.look_at_clock() - begun);
    if (next != nullptr) enqueue(*next);
  }

  // Refuses it; the next command of its flow is queued.
  void refuse_one(Request& request, Refusal why) {
    for (Request* next = &request;; why = Refusal::kFull) {
      next = refuse(*next, why);
      if (next == nullptr) return;
      platform_.note_arrived(*next);
      if (queue_up(*next)) return;
    }
  }

  // Returns the next command of the flow that is to run, if it is here.
  Request* refuse(Request& request, Refusal why) {
    RUBATO_DCHECK(!request.has_started);
    request.refusal = why;
    if (experience_ != nullptr && experience_->refusal_rule) {
      const bool is_long = request.job_class == JobClass::kLong;
      request.retry_after = refusal_rule().retry_after(platform_.now(), is_long);
    }
    if (experience_ != nullptr && experience_->limiter != nullptr) {
      if (request.limited) limiter().leaves(platform_.now());
      request.limited = false;
      request.retry_after = limiter().retry_after();
    }
    platform_.note_refused(request);
    return answer_at_once(platform_.refuse(request));
  }

  // ---- Choice ---------------------------------------------------------------------------------

 public:
  // The request whose turn it is, null if there is none.
  Request* next() {
    if (aside_ != nullptr) [[unlikely]] return next_of_aside();
    return next_in_turn();
  }

  // Of the policy on this worker, to see whether it has changed.
  auto state_bytes() const {
    std::array<std::byte, std::is_empty_v<typename P::Worker> ? 0 : sizeof(state_)> bytes;
    if constexpr (bytes.size() > 0) std::memcpy(bytes.data(), &state_, bytes.size());
    return bytes;
  }

  // The worker has found nothing to do.
  void ran_out() {
    platform_.note_none_waits();
    if (experience_ == nullptr) return;
    experience_->waited_long = Nanos();
    if (experience_->limiter != nullptr) {
      limiter().look(platform_.now());
      platform_.note_overloaded(limiter().limits());
    }
    if (!experience_->refusal_rule) return;
    refusal_rule().ran_out(platform_.now());
    platform_.note_overloaded(refusal_rule().overloaded());
  }

  // Requires that the core was made with a refusal rule.
  void change_refusal_rule(const overload::RefusalSettings& settings) {
    refusal_rule().change(settings);
  }

  // Does the next command of the pipeline just served wait here?
  bool holds_next() const { return turn_.next != nullptr; }
  // May requests of groups other than the policy's wait here?
  bool holds_groups() const { return groups_.waiting() != 0; }
  // A request that has left its worker waits for a lock; one comes from a queue that this worker
  // has taken over. Neither was put back for others' sake, so its wait is none for its turn.
  // `stuck`: it did not say so itself, so that its tries take long, and one of the others is next.
  void wait_for_lock(Request& request, bool stuck) {
    RUBATO_DCHECK(request.has_started);
    leaves(request);
    aside().locked.push_back(&request);
    if (stuck) aside().locked_turn = false;
  }
  void take_over(Request& request) { aside().overflow.push_back(&request); }
  // A request leaves its worker to wait for something else; it comes back by ready().
  void leaves(const Request& request) {
    if constexpr (kHasGroups) {
      const Nanos stay = request.attained - attained_before_;
      groups_.charge(request.group, stay - platform_.lost());
    }
  }

 private:
  // A request that waits for a lock tries again after every other one, so that the lock's holder
  // gets on even if it waits here too.
  [[gnu::noinline, gnu::cold]] Request* next_of_aside() {
    if (aside_->locked.empty()) return next_in_turn();
    aside_->locked_turn = !aside_->locked_turn;
    if (aside_->locked_turn) {
      if (Request* request = next_in_turn()) return request;
      platform_.help();  // the holder may wait at a worker that is stuck
    }
    Request* request = aside_->locked.front();
    aside_->locked.pop_front();
    return request;
  }

  Request* next_in_turn() {
    if constexpr (kHasGroups) {
      Request* const request = groups_.waiting() == 0 ? next_of_policy() : next_by_share();
      return request != nullptr ? request : next_of_others();
    } else {
      return next_of_policy();
    }
  }

  Request* next_of_policy() {
    if constexpr (kHasConnections) {
      if (turn_.next != nullptr) return std::exchange(turn_.next, nullptr);
    }
    if (aside_ != nullptr && !aside_->overflow.empty()) [[unlikely]] {
      Request* request = aside_->overflow.back();
      aside_->overflow.pop_back();
      return request;
    }
    platform_.begin_look();
    auto* const found =
        static_cast<Request*>(hook::next(policy_, state_, platform_.me(), platform_.host()));
    platform_.end_look(found != nullptr);
    return found;
  }

  // ---- Groups ---------------------------------------------------------------------------------
  // A policy orders one group. The requests of the others wait in queues of their own, first come
  // first served, those that were preempted apart from those that have just come.

  bool put_in_group(Request& request, bool suspended) {
    groups_.waits(request.group);
    return platform_.put_in_group(request, suspended);
  }

  // A group that runs empty in its turn may have new requests among those that are not taken in
  // yet, such as the successors of its last ones; without that look it would lose its turns to
  // groups that are not behind.
  [[gnu::noinline]] Request* next_by_share() {
    for (uint32_t among = groups_.waiting() | GroupShares::bit(kPolicyGroup); among != 0;) {
      const uint32_t group = groups_.first(among);
      if (Request* request = next_of(group)) return request;
      if (groups_.ran_empty(group)) {
        platform_.take_in();
        if (Request* request = next_of(group)) return request;
      }
      among &= ~GroupShares::bit(group);
    }
    return nullptr;
  }

  Request* next_of(uint32_t group) {
    if (group == kPolicyGroup) return next_of_policy();
    const bool suspended = groups_.prefers_suspended(group);
    if (Request* request = platform_.take_in_group(group, suspended)) return request;
    groups_.is_empty(group);
    return nullptr;
  }

  // This worker has nothing left of its own.
  Request* next_of_others() {
    for (uint32_t among = groups_.all_but_policy(); among != 0;) {
      const uint32_t group = groups_.first(among);
      if (Request* request = platform_.take_from_others(group)) return request;
      among &= ~GroupShares::bit(group);
    }
    return nullptr;
  }

  // Is a running request to give way to one of another group, or of its own? What the policy would
  // have is done within its share.
  [[gnu::noinline]] bool gives_way(const Request& request, Nanos stay, bool policy_wants) {
    for (uint32_t rest = groups_.waiting(); rest != 0; rest &= rest - 1) {
      const auto group = static_cast<uint32_t>(std::countr_zero(rest));
      if (group != request.group && !groups_.is_due(group, request.group, stay)) continue;
      if (platform_.waits_in_group(group)) return true;
    }
    if (request.group == kPolicyGroup) return policy_wants;
    return policy_wants && groups_.is_due(kPolicyGroup, request.group, stay);
  }

  // ---- Slices ---------------------------------------------------------------------------------
  // `service` is what the request has had in all, as far as it had a CPU. A caller that takes a
  // request from the worker adds the time that it ran to `attained` first.

 public:
  // The request starts, or goes on after a preemption. False: it was refused instead.
  bool start(Request& request) {
    const bool first = !request.has_started;
    if (first && is_unwanted(request)) [[unlikely]] {
      refuse_one(request, request.refusal);
      return false;
    }
    if (first && !serves(request, Refusal::kDelay)) {
      refuse_late(request, Refusal::kDelay);
      return false;
    }
    if (first) classify_by_experience(request);
    if (first && !admits(request)) {
      refuse_one(request, Refusal::kDelay);
      return false;
    }
    platform_.take_up(request);
    if constexpr (kHasGroups) {
      groups_.begins(request.group);
      attained_before_ = request.attained;
    }
    start_slice(request);
    const Instant at = platform_.begin(request);
    if (first) {
      request.has_started = true;
      request.started = at;
      platform_.note_started(request);
      if (request.group == kPolicyGroup) waited(request.job_class, at - request.arrived);
    } else if (request.put_back != Instant()) {
      const Nanos wait = at - std::exchange(request.put_back, Instant());
      if (request.group == kPolicyGroup) waited(JobClass::kLong, wait);
    }
    return true;
  }

  // A slice whose end will be looked at, if the policy can preempt this request at all.
  void start_slice(Request& request) {
    hook::begins(policy_, state_, request, platform_.me(), platform_.host());
    if constexpr (P::kPreempts == Preempts::kNothing) return platform_.disarm();
    const bool timed = P::kPreempts == Preempts::kEverything ||
                       request.job_class == JobClass::kLong || by_age(classify_);
    quantum_ = Nanos::max();
    if (!timed) return platform_.disarm();
    quantum_ = hook::quantum(policy_, state_, request, platform_.host());
    platform_.arm(request, quantum_);
  }

  // Is the running request to end as soon as it can, because its reply is no longer wanted? Once it
  // is, it stays so. The host tells the request at its next checkpoint.
  bool cancels(Request& request) {
    if (request.cancelled) return true;
    if (!is_unwanted(request)) [[likely]] return false;
    request.cancelled = true;
    platform_.note_cancelled(request);
    return true;
  }

  Nanos quantum() const { return quantum_; }  // of the slice that began last; max() = no end

  // The application says that the request is long. True: that is news.
  bool mark_long(Request& request, uint8_t priority) {
    request.priority = std::max(priority, request.client_priority);
    if (request.job_class == JobClass::kLong && request.promoted_after == Nanos()) return false;
    request.job_class = JobClass::kLong;
    request.promoted_after = Nanos();
    platform_.note_long(Classify::kFeedback);
    return true;
  }

  // What waits in the kernel or the NIC counts as waiting, so it is taken in before the policy is
  // asked (Synergy 5.1.3.2 looks at the NIC queue too). A request that has just been cancelled gets
  // a slice to end in, even if others wait; beyond that it may be one that cannot end. False: the
  // request goes on.
  bool expire(Request& request, Nanos service) {
    const bool promoted = P::kPreempts == Preempts::kLong && request.job_class == JobClass::kShort;
    if (promoted) [[unlikely]] {
      request.job_class = JobClass::kLong;
      request.promoted_after = service;
      platform_.note_long(Classify::kAge);
    }
    platform_.take_in();
    const bool ends = !request.cancelled && cancels(request);
    const Nanos before = std::exchange(request.attained, service);
    const bool leaves = platform_.stops() || (!ends && gives_way(request, service - before));
    request.attained = before;
    if (leaves) return true;
    if (!promoted) [[likely]] {
      platform_.renew(request, quantum_);
    } else {
      start_slice(request);
    }
    return false;
  }

  // A preempted request that has left goes back: from now on another worker may have it. Returns
  // where it waits, of the policy's group; nothing = the queue is full, and it is this worker's
  // next.
  std::optional<QueueRef> requeue(Request& request) {
    RUBATO_DCHECK(request.has_started);
    ++request.preemptions;
    request.put_back = platform_.now();
    leaves(request);
    QueueRef q;
    if (put_back(request, q)) return q;
    --request.preemptions;
    aside().overflow.push_back(&request);
    return std::nullopt;
  }

  // A request that gave its worker away, to wait for something that is here now, goes on in its
  // turn: one that the policy preempts behind those that were preempted, any other as if it came
  // now, for what it waited for was no load. It is never refused: if the queue is full, it is this
  // worker's next.
  void ready(Request& request) {
    RUBATO_DCHECK(request.has_started);
    const bool put_back = may_be_preempted(request);
    if (put_back) request.put_back = platform_.now();
    if constexpr (kHasGroups) {
      if (request.group != kPolicyGroup) {
        if (!put_in_group(request, put_back)) aside().overflow.push_back(&request);
        return;
      }
    }
    const QueueRef q =
        put_back ? hook::requeue(policy_, request, RequeueReason::kYielded, platform_.me(),
                                 platform_.host())
                 : hook::route(policy_, request, platform_.me(), platform_.host());
    if (!platform_.enqueue(q, request)) aside().overflow.push_back(&request);
  }

 private:
  // Is a running request, with the service of its finished slices and of this `stay`, to leave the
  // worker to others?
  bool gives_way(const Request& request, Nanos stay) {
    const bool policy_wants = hook::expired(policy_, request, platform_.me(), platform_.host()) ==
                              SliceDecision::kPreempt;
    if constexpr (kHasGroups) {
      const bool alone = request.group == kPolicyGroup && groups_.waiting() == 0;
      return alone ? policy_wants : gives_way(request, stay, policy_wants);
    } else {
      return policy_wants;
    }
  }

  // False: the queue is full.
  bool put_back(Request& request, QueueRef& q) {
    if constexpr (kHasGroups) {
      if (request.group != kPolicyGroup) return put_in_group(request, true);
    }
    q = hook::requeue(policy_, request, RequeueReason::kPreempted, platform_.me(),
                      platform_.host());
    return platform_.put_back(q, request);
  }

  // A policy whose slices have no end has no place for requests that were preempted.
  bool may_be_preempted(const Request& request) const {
    if constexpr (P::kPreempts == Preempts::kNothing) return false;
    if (P::kPreempts == Preempts::kLong && request.job_class == JobClass::kShort) return false;
    return hook::quantum(policy_, state_, request, platform_.host()) < Nanos::max();
  }

  // A client that is gone, a deadline that has passed. Sets `refusal`.
  bool is_unwanted(Request& request) {
    if (platform_.is_abandoned(request)) [[unlikely]] {
      request.refusal = Refusal::kAbandoned;
      return true;
    }
    if (request.deadline == Instant::never() || !firm_deadlines_) return false;
    request.refusal = Refusal::kExpired;
    return platform_.now() >= request.deadline;
  }

  void classify_by_experience(Request& request) {
    if (P::kPreempts == Preempts::kNothing || classify_ != Classify::kLearned) return;
    if (expected(request) <= hook::quantum(policy_, state_, request, platform_.host())) return;
    request.job_class = JobClass::kLong;
    platform_.note_long(Classify::kLearned);
  }

  void waited(JobClass job_class, Nanos wait) {
    if (experience_ != nullptr && job_class == JobClass::kLong) experience_->waited_long = wait;
    platform_.note_waited(job_class, wait);
  }

  // ---- The end --------------------------------------------------------------------------------

 public:
  // `service` on the worker in all, of which it had no CPU for `lost`.
  void finish(Request& request, Nanos service, Nanos lost) {
    RUBATO_DCHECK(request.has_started);
    // A request without checkpoints that took long is noticed only now.
    if (P::kPreempts == Preempts::kLong && by_age(classify_) &&
        request.job_class == JobClass::kShort && service - lost > quantum_) {
      request.promoted_after = quantum_;
    }
    if constexpr (kHasGroups) groups_.charge(request.group, service - request.attained - lost);
    request.attained = service;
    platform_.note_finished(request);
    if (request.limited) [[unlikely]] {
      limiter().finished(platform_.me().value, request.arrived, platform_.now());
    }
    Finished done = request;
    const size_t payload_bytes = bytes_of(request);
    const Replied<Request> replied = platform_.reply(request);
    learn(done, payload_bytes, service + replied.cost, lost + replied.lost);
    if constexpr (kHasConnections) {
      Request* next = answer_at_once(replied.next);
      next != nullptr ? follow(*next) : end_flow_run();
    }
  }

 private:
  // Average service of requests like this one; zero = not known, or nobody asks.
  Nanos expected(const Request& request) const {
    return experience_ == nullptr ? Nanos() : estimator().expected(request.type, bytes_of(request));
  }

  // A request that became long only by age counts as a short one of at most that age: were it left
  // out, the average could only ever fall and the quantum with it. Quanta are CPU time, so what was
  // `lost` is no part of the service that they follow.
  void learn(const RequestState& done, size_t payload_bytes, Nanos service, Nanos lost) {
    // What was cut short says nothing of requests like it.
    if (experience_ != nullptr && !done.cancelled) {
      estimator().add(done.type, payload_bytes, service, done.job_class);
    }
    if (done.promoted_after == Nanos()) [[likely]] {
      return hook::finished(policy_, state_, done, service - lost);
    }
    Job as_short = done;
    as_short.job_class = JobClass::kShort;
    hook::finished(policy_, state_, as_short, done.promoted_after);
  }

  // The next command of a pipeline follows at once while its turn lasts, so that its replies leave
  // together; a pipeline without end goes to the tail.
  void follow(Request& next) {
    if (turn_.flow_run++ == 0) turn_.flow_run_start = platform_.now();
    if (turn_.next == nullptr && next.group == kPolicyGroup && turn_.flow_run < kFlowRun &&
        platform_.now() - turn_.flow_run_start < kFlowTime) {
      turn_.next = &next;
      platform_.note_arrived(next);
      return;
    }
    end_flow_run();
    if (platform_.others_wait()) {
      if (!serves(next, Refusal::kShare)) {
        platform_.note_arrived(next);
        return refuse_late(next, Refusal::kShare);
      }
      platform_.flush(next);
    }
    admit(next);
  }

  void end_flow_run() { turn_.flow_run = 0; }

  // ---- What a worker keeps --------------------------------------------------------------------

  static constexpr bool kHasConnections = Platform::kHasConnections;
  static constexpr bool kHasGroups = Platform::kHasGroups;
  using Finished = std::conditional_t<Platform::kOutlivesReply, const RequestState&, RequestState>;

  // Commands of one pipeline that may follow each other, and for how long, before the flow goes to
  // the tail.
  static constexpr uint32_t kFlowRun = 32;
  static constexpr Nanos kFlowTime = Nanos::micros(50);
  // Requests of one connection that are refused in one go.
  static constexpr uint32_t kRefusalRun = 64;

  // What was learned from the requests before.
  struct Experience {
    typename Platform::Limiter* limiter = nullptr;  // the server's; null = it has none
    std::optional<overload::RefusalRule> refusal_rule;  // none = what fits the queues is served
    ServiceTimeEstimator estimator;
    Nanos waited_long;  // how long the last long request waited for its turn
  };

  // The turns of connections, where requests come by these.
  struct Turn {
    uint32_t flow_run = 0;    // commands of one pipeline that followed each other
    Instant flow_run_start;
    Request* next = nullptr;  // the next command of the pipeline just served
  };
  struct NoTurn {};
  struct NoStay {};
  struct NoGroups {
    explicit NoGroups(const GroupWeights&) {}
  };

  // Requests that wait at this worker, in no queue of the policy.
  struct Aside {
    std::vector<Request*> overflow;  // preempted, but their queue was full: next to run
    std::deque<Request*> locked;     // they wait for locks, and take turns with all others
    bool locked_turn = false;
  };

  overload::RefusalRule& refusal_rule() const {
    RUBATO_DCHECK(experience_ != nullptr && experience_->refusal_rule);
    return *experience_->refusal_rule;
  }
  auto& limiter() const {
    RUBATO_DCHECK(experience_ != nullptr && experience_->limiter != nullptr);
    return *experience_->limiter;
  }
  ServiceTimeEstimator& estimator() const {
    RUBATO_DCHECK(experience_ != nullptr);
    return experience_->estimator;
  }
  size_t bytes_of(const Request& request) const { return platform_.payload_bytes(request); }
  Aside& aside() {
    if (aside_ == nullptr) aside_ = std::make_unique<Aside>();
    return *aside_;
  }

  const P& policy_;
  Platform platform_;
  std::unique_ptr<Experience> experience_;  // null = nobody asks what was learned
  std::unique_ptr<Aside> aside_;            // null = none ever did
  Nanos quantum_ = Nanos::max();
  const Classify classify_;
  const bool firm_deadlines_;
  [[no_unique_address]] std::conditional_t<kHasConnections, Turn, NoTurn> turn_;
  [[no_unique_address]] std::conditional_t<kHasGroups, GroupShares, NoGroups> groups_;
  // By the running request, when it was given the worker.
  [[no_unique_address]] std::conditional_t<kHasGroups, Nanos, NoStay> attained_before_;
  [[no_unique_address]] typename P::Worker state_{};  // last, as it may be large
};

}  // namespace rubato::sched
