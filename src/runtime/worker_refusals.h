// SPDX-License-Identifier: Apache-2.0
//
// LiveWorker<P>, the part that refuses: because queues are full, and, where RuntimeOptions::shed
// says so, because a request has waited too long in a server with too much to do. What a request
// waited counts from when its bytes reached the kernel, as far as that is known: a backlog in the
// sockets is a queue like any other. Asked when a request is received and when its turn has come.
// Never refused: the control plane, and what has been started. Included by runtime/worker.h only.
#pragma once

#include "runtime/worker.h"

namespace rubato {

// kShare: its connection has just had its turn, and others wait.
template <Policy P>
bool LiveWorker<P>::takes(Request& request, Refusal why) {
  if (!shedding_ || request.control) return true;
  const Nanos wait = std::max(host_.now() - request.arrived, wait_among_long(request));
  const bool is_long = will_be_long(request);
  const bool taken = why == Refusal::kShare ? shedding_->serves_more(wait, host_.now(), is_long)
                                            : shedding_->serves(wait, host_.now(), is_long);
  if (!taken && is_long) request.job_class = JobClass::kLong;
  show_overload();
  return taken;
}

// Asked only where long requests have a target of their own. Before they start this is a guess.
template <Policy P>
bool LiveWorker<P>::will_be_long(const Request& request) const {
  if (!shedding_->settings().tells_long()) return false;
  return request.job_class == JobClass::kLong ||
         shared_.learned.was_long(request.type, request.payload.size());
}

// A policy that preempts starts a long request soon and lets it wait afterwards. So its overload
// shows in the number that are underway, which wait for each other whenever they came, and, where
// short ones leave them little, in how long the last one waited to go on. Zero if the request will
// be short, or its wait is in order.
template <Policy P>
Nanos LiveWorker<P>::wait_among_long(Request& request) {
  if constexpr (P::kPreempts == Preempts::kNothing) return Nanos();
  const Nanos service = shared_.learned.expected(request.type, request.payload.size());
  if (service <= hook::quantum(shared_.policy, state_, request, host_)) return Nanos();
  int64_t underway = 0;
  for (const WorkerStats* worker : shared_.worker_stats) underway += worker->suspended();
  if (underway <= 0) return Nanos();
  const Nanos turns = service * underway / host_.workers();
  const Nanos wait = shedding_->late_among_long(std::max(turns, stats_.delay.of(JobClass::kLong)),
                                                service);
  if (wait > Nanos()) request.job_class = JobClass::kLong;
  return wait;
}

// Refuses it, and what of its connection is late too: together their replies cost one send. The
// first that is not late is queued.
template <Policy P>
void LiveWorker<P>::turn_away(Request& late, Refusal why) {
  const Instant begun = step();
  stats_.delay.waited(late.job_class, begun - late.arrived);
  Request* next = refuse(late, why);
  for (uint32_t refused = 1; next != nullptr; ++refused) {
    note_arrival(*next);
    if (refused == kRefusalRun || takes(*next, why)) break;
    next = refuse(*next, why);
  }
  shedding_->spent(step() - begun);
  if (next != nullptr) enqueue(*next);
}

// Returns the next command of the flow that is to run, if it is here.
template <Policy P>
Request* LiveWorker<P>::refuse(Request& request, Refusal why) {
  ++stats_.refused;
  ++stats_.refused_for(why, request.job_class);
  request.refusal = why;
  const bool is_long = request.job_class == JobClass::kLong;
  request.retry_after = shedding_ ? shedding_->retry_after(host_.now(), is_long) : Nanos();
  request.session->refuse(request);
  return answer_at_once(request.datapath->finish(request));
}

// There is nothing to do here.
template <Policy P>
void LiveWorker<P>::ran_out() {
  stats_.delay.none_waits(JobClass::kShort);
  stats_.delay.none_waits(JobClass::kLong);
  if (!shedding_) return;
  shedding_->ran_out(host_.now());
  show_overload();
}

template <Policy P>
void LiveWorker<P>::show_overload() {
  const bool now_so = shedding_->overloaded();
  if (stats_.overloaded.load(std::memory_order_relaxed) == now_so) return;
  stats_.overloaded.store(now_so, std::memory_order_relaxed);
}

}  // namespace rubato
