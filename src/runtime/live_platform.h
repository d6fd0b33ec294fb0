// SPDX-License-Identifier: Apache-2.0
//
// LivePlatform<P>: the parts of a live worker that sched::Core uses: the clock, its queues and
// those of other workers, its datapath, its slices, its counters. It is a handle on parts of
// LiveWorker<P>. Worker's thread only.
#pragma once

#include <algorithm>
#include <utility>

#include "runtime/intake.h"
#include "runtime/slice_clock.h"
#include "runtime/worker_context.h"

namespace rubato {

template <Policy P>
class LivePlatform {
 public:
  using Request = rubato::Request;
  // The datapath may use its memory for the next request of the flow.
  static constexpr bool kOutlivesReply = false;
  static constexpr bool kHasConnections = true;
  static constexpr bool kHasGroups = true;

  LivePlatform(WorkerContext<P>& context, Intake<P>& intake, SliceClock& slice)
      : context_(context), intake_(intake), slice_(slice) {}

  WorkerId me() const { return context_.id; }
  LiveHost<P>& host() const { return context_.host; }
  Instant now() const { return context_.host.now(); }
  Instant look_at_clock() { return context_.step(); }
  static size_t payload_bytes(const Request& request) { return request.payload.size(); }

  // A stop abandons requests of connected clients that have not ended at its limit. A client that
  // has sent its last byte may or may not still read: nothing tells.
  bool is_abandoned(const Request& request) const {
    if (request.client == nullptr) return false;
    const RuntimeOptions& options = context_.shared.options;
    const Nanos stopping = context_.shared.shutdown.drained_for(now());
    const Nanos drain_limit = context_.shared.shutdown.drain_limit();
    switch (request.client->load(std::memory_order_relaxed)) {
      case ClientState::kOpen: return stopping >= drain_limit;
      case ClientState::kHalfClosed:
        return stopping >= std::min(options.half_closed_limit, drain_limit) ||
               attained(request) >= options.half_closed_limit;
      case ClientState::kGone: break;
    }
    return true;
  }

  // Queues.
  bool enqueue(QueueRef q, Request& request) { return intake_.put(q, request); }
  bool put_in_group(Request& request, bool suspended) {
    return intake_.put_in_group(request, suspended);
  }
  bool put_back(QueueRef q, Request& request) {
    if (!host().put(q, &request)) return false;
    intake_.wake_pushed();
    if (!is_pushed(P::kQueues[q.declaration])) context_.shared.wakeups.wake_for(q, me(), host());
    return true;
  }
  Request* take_in_group(uint32_t group, bool suspended) {
    return static_cast<Request*>(context_.shared.groups.take_own(me(), group, suspended));
  }
  Request* take_from_others(uint32_t group) {
    return static_cast<Request*>(context_.shared.groups.take_from_others(me(), group));
  }
  Nanos lost() const { return context_.meter.lost(); }
  bool waits_in_group(uint32_t group) const {
    return context_.shared.groups.depth(me(), group) > 0;
  }
  using Limiter = LiveLimiter;
  Limiter* limiter() const { return context_.shared.limiter.get(); }
  static bool admits(Request& request) { return request.session->admits(request); }
  bool others_wait() { return intake_.others_wait(); }
  void take_in() { intake_.take_in(); }
  void help() { intake_.help_stuck(); }

  // The client.
  sched::Replied<Request> reply(Request& request) {
    const Instant handled = now();
    request.close_after |= request.cancelled && request.refusal == Refusal::kAbandoned;
    context_.current.end_request();
    sched::Replied<Request> replied;
    replied.next = finish(request);
    if (replied.next == nullptr) replied.cost = context_.step() - handled;
    replied.lost = context_.meter.replied(replied.cost, now());
    return replied;
  }
  Request* refuse(Request& request) {
    request.session->refuse(request);
    return finish(request);
  }
  Request* answer(Request& request) {
    request.session->answer(request);
    return finish(request);
  }
  void flush(Request& request) { request.datapath->flush(request); }

  // Slices.
  void take_up(Request& request) {
    context_.current.begin_request(request);
    context_.meter.start(now(), request);
    context_.tracer.turned();
  }
  Instant begin(const Request&) const { return now(); }
  void arm(const Request& request, Nanos quantum) {
    stats().quantum_ns.store(quantum.count(), std::memory_order_relaxed);
    slice_.start(now(), quantum, request, context_.meter.attained(request, now()));
  }
  void renew(const Request& request, Nanos quantum) { arm(request, quantum); }
  void disarm() { slice_.start_without_end(now()); }
  // Past the drain limit a request that is put back never runs again.
  bool stops() { return context_.stopping() || context_.datapath.recalls(); }
  void begin_look() { host().begin_look(); }
  void end_look(bool found) { host().end_look(found); }
  int64_t suspended() const {
    int64_t sum = 0;
    for (const WorkerStats* worker : context_.shared.worker_stats) sum += worker->suspended();
    return sum;
  }

  // Counters.
  void note_arrived(const Request& request) {
    ++stats().groups[request.group].arrived;
    if (request.group == kPolicyGroup) {
      ++stats().arrived[std::min(request.type, limits::kTypes - 1)];
    }
    ArrivalSlots* const arrivals = context_.records.arrivals;
    if (arrivals == nullptr) return;
    request.is_control() ? arrivals->note_control() : arrivals->note(request.arrived);
  }
  void note_started(const Request& request) {
    CoreControl& cores = context_.shared.cores;
    if (cores.allocates()) cores.note_wait(context_.id, request.started - request.arrived);
  }
  void note_cancelled(const Request& request) {
    ++stats().cancelled;
    note_abandoned(request);
  }
  void note_waited(JobClass job_class, Nanos wait) { stats().delay.waited(job_class, wait); }
  void note_none_waits() {
    stats().delay.none_waits(JobClass::kShort);
    stats().delay.none_waits(JobClass::kLong);
    context_.tracer.turned();
  }
  void note_long(Classify by) {
    switch (by) {
      case Classify::kDeclared: return;
      case Classify::kFeedback: ++stats().long_by_feedback; return;
      case Classify::kAge: ++stats().long_by_age; return;
      case Classify::kLearned: ++stats().long_learned; return;
    }
  }
  void note_refused(const Request& request) {
    ++stats().refused;
    ++stats().groups[request.group].refused;
    ++stats().refused_for(request.refusal, request.job_class);
    RequestRing* const requests = context_.records.requests;
    if (requests != nullptr) requests->note(request, now() - request.arrived, true);
    note_abandoned(request);
  }
  void note_overloaded(bool overloaded) {
    if (stats().overloaded.load(std::memory_order_relaxed) == overloaded) return;
    stats().overloaded.store(overloaded, std::memory_order_relaxed);
  }
  void note_finished(const Request& request) {
    const Nanos latency = now() - request.arrived;
    const Nanos service = request.attained;
    ++stats().requests;
    TypeStats& type = stats().of_type(request.type);
    type.latency.record(latency);
    type.service.record(service);
    RequestRing* const requests = context_.records.requests;
    if (requests != nullptr) requests->note(request, latency, false);
    const Nanos waited = request.started - request.arrived;
    stats().groups[request.group].add(waited, service);
    if (request.group == kPolicyGroup) {
      type.add(waited, service);
      stats().of_class(request.job_class).add(waited, service);
    }
    if (context_.meter.blocked_after(request.arrived)) note_blocked(request);
    RuntimeState<P>& shared = context_.shared;
    if (latency < shared.settings.slow_threshold()) return;
    const auto blocker = context_.meter.blocker(request.arrived, request.started);
    shared.application.slow(request, {latency - service, service, request.preemptions,
                                      blocker.type, blocker.held});
  }

 private:
  // The next of its flow, which the worker has from here; null = there is none.
  Request* finish(Request& request) {
    if (request.counted_as != 0) context_.shared.datapath.ended(request);
    Request* const next = request.datapath->finish(request);
    if (next == nullptr) ++stats().given_back;
    return next;
  }
  // A long slice ended since the request came: was that while it waited for its first one?
  [[gnu::noinline]] void note_blocked(const Request& request) {
    const auto blocker = context_.meter.blocker(request.arrived, request.started);
    if (blocker.held < RecentSlices::kWorthNoting) return;
    stats().blocked.note(type_slot(request.type), type_slot(blocker.type), blocker.held);
  }
  // Only a drain past its limit abandons requests of a client that is still there.
  void note_abandoned(const Request& request) {
    if (request.refusal != Refusal::kAbandoned) return;
    if (request.client->load(std::memory_order_relaxed) != ClientState::kOpen) return;
    context_.shared.shutdown.fail();
  }
  // The service that the request has had by now, whether it runs or not.
  Nanos attained(const Request& request) const {
    const bool runs = context_.current.current() == &request;
    return runs ? context_.meter.attained(request, now()) : request.attained;
  }
  WorkerStats& stats() { return context_.stats; }

  WorkerContext<P>& context_;
  Intake<P>& intake_;
  SliceClock& slice_;
};

}  // namespace rubato
