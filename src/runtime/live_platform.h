// SPDX-License-Identifier: Apache-2.0
//
// LivePlatform<P>: what a live worker lends to sched::Core: the clock, its queues and those of
// others, its datapath, its counters. A handle: the worker owns everything. Worker's thread only.
#pragma once

#include <algorithm>
#include <utility>

#include "runtime/arrival_slots.h"
#include "runtime/live_host.h"
#include "runtime/shared.h"
#include "sched/core.h"

namespace rubato {

template <Policy P>
class LiveWorker;

template <Policy P>
class LivePlatform {
 public:
  using Request = rubato::Request;
  // The datapath may use its memory for the next request of the flow.
  static constexpr bool kOutlivesReply = false;
  static constexpr bool kHasConnections = true;

  explicit LivePlatform(LiveWorker<P>& worker) : worker_(worker) {}

  WorkerId me() const { return worker_.id_; }
  LiveHost<P>& host() const { return worker_.host_; }
  Instant now() const { return worker_.host_.now(); }
  Instant look_at_clock() { return worker_.step(); }
  static size_t payload_bytes(const Request& request) { return request.payload.size(); }

  // Of clients that are there, a stop abandons what has not ended at its limit. Nobody can tell
  // whether who has sent the last byte still reads.
  bool is_abandoned(const Request& request) const {
    if (request.client == nullptr) return false;
    const RuntimeOptions& options = worker_.shared_.options;
    const Nanos stopping = worker_.shared_.drained_for(now());
    switch (request.client->load(std::memory_order_relaxed)) {
      case ClientState::kOpen: return stopping >= options.drain_limit;
      case ClientState::kHalfClosed:
        return stopping >= std::min(options.half_closed_limit, options.drain_limit) ||
               worker_.service_of(request) >= options.half_closed_limit;
      case ClientState::kGone: break;
    }
    return true;
  }

  // Queues.
  bool enqueue(QueueRef q, Request& request) {
    ++worker_.queued_;
    if (!host().put(q, &request)) return false;
    if (!is_pushed(P::kQueues[q.spec])) worker_.queued(q);
    call_for_control();
    return true;
  }
  bool put_control(Request& request) {
    ++worker_.queued_;
    if (!worker_.control_.put(&request)) return false;
    call_for_control();
    return true;
  }
  bool put_back(QueueRef q, Request& request) {
    if (!host().put(q, &request)) return false;
    worker_.wake_pushed();
    if (!is_pushed(P::kQueues[q.spec])) worker_.shared_.wake_for(q, worker_.id_, host());
    return true;
  }
  Request* take_control() {
    Job* job = nullptr;
    for (uint32_t i = 0; i < host().workers(); ++i) {
      auto& queue = *worker_.shared_.control[(worker_.id_.value + i) % host().workers()];
      if (queue.depth() > 0 && queue.take(job)) return static_cast<Request*>(job);
    }
    return nullptr;
  }
  bool control_waits() const { return worker_.control_.depth() > 0; }
  static bool admits(Request& request) { return request.session->admits(request); }
  bool others_wait() { return host().depth({0, worker_.own_lane()}) > 0; }
  void take_in() { worker_.take_in(); }
  void help() { worker_.help_stuck(); }

  // The client.
  sched::Replied<Request> reply(Request& request) { return worker_.reply(request); }
  Request* refuse(Request& request) {
    request.session->refuse(request);
    return request.datapath->finish(request);
  }
  Request* answer(Request& request) {
    request.session->answer(request);
    return request.datapath->finish(request);
  }
  void flush(Request& request) { request.datapath->flush(request); }

  // Slices.
  void take_up(Request& request) { worker_.take_up(request); }
  Instant begin(const Request&) const { return now(); }
  void arm(const Request& request, Nanos quantum) {
    stats().quantum_ns.store(quantum.count(), std::memory_order_relaxed);
    worker_.slice_.start(now(), quantum, request, worker_.attained(request));
  }
  void renew(const Request& request, Nanos quantum) { arm(request, quantum); }
  void disarm() { worker_.slice_.start_without_end(now()); }
  // Past the drain limit a request is put back for good.
  bool stops() { return worker_.stopping(); }
  int64_t suspended() const {
    int64_t sum = 0;
    for (const WorkerStats* worker : worker_.shared_.worker_stats) sum += worker->suspended();
    return sum;
  }

  // What is counted.
  void note_arrived(const Request& request) {
    if (!request.control) ++stats().arrived[std::min(request.type, limits::kTypes - 1)];
    ArrivalSlots* const arrivals = worker_.arrivals();
    if (arrivals == nullptr) return;
    request.control ? arrivals->note_control() : arrivals->note(request.arrived);
  }
  void note_started(const Request& request) {
    CoreControl& cores = worker_.shared_.cores;
    if (cores.allocates()) cores.note_wait(worker_.id_, request.started - request.arrived);
  }
  void note_cancelled(const Request& request) {
    ++stats().cancelled;
    note_abandoned(request);
  }
  void note_waited(JobClass job_class, Nanos wait) { stats().delay.waited(job_class, wait); }
  void note_none_waits() {
    stats().delay.none_waits(JobClass::kShort);
    stats().delay.none_waits(JobClass::kLong);
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
    ++stats().refused_for(request.refusal, request.job_class);
    note_abandoned(request);
  }
  void note_overloaded(bool overloaded) {
    if (stats().overloaded.load(std::memory_order_relaxed) == overloaded) return;
    stats().overloaded.store(overloaded, std::memory_order_relaxed);
  }
  void note_finished(const Request& request) { worker_.note_finished(request); }

 private:
  // Of a client that is still there, only a drain past its limit abandons requests.
  void note_abandoned(const Request& request) {
    if (request.refusal != Refusal::kAbandoned) return;
    if (request.client->load(std::memory_order_relaxed) != ClientState::kOpen) return;
    worker_.shared_.drain_failed.store(true, std::memory_order_relaxed);
  }
  WorkerStats& stats() { return worker_.stats_; }
  void call_for_control() {
    if (worker_.queued_ > 1 && control_waits()) worker_.call_for_help();
  }

  LiveWorker<P>& worker_;
};

}  // namespace rubato
