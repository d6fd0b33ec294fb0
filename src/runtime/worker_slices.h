// SPDX-License-Identifier: Apache-2.0
//
// LiveWorker<P>, the part that takes in requests, ends slices and sends replies. What is decided
// there, sched/core.h does. Included by runtime/worker.h only; see there.
#pragma once

#include <algorithm>
#include <array>

#include "runtime/worker.h"

namespace rubato {

// The kernel is asked when the worker's own queue has run dry, and every now and then otherwise.
template <Policy P>
void LiveWorker<P>::poll_if_due() {
  const bool dry = !core_.holds_next() && host_.depth({0, own_lane()}) == 0 &&
                   control_.depth() == 0;
  if (!dry && ++picks_since_poll_ < kPicksPerPoll && host_.now() - last_poll_ < kPollInterval) {
    return;
  }
  take_in();
  if (shared_.cores.allocates()) {
    if (id_ == CoreControl::minder()) look_after_minded();
    shared_.look_at_cores(host_.now());
  }
}

template <Policy P>
void LiveWorker<P>::take_in() {
  ingest(datapath_);
  if (shared_.options.preemption_clock == PreemptionClock::kSelf) shared_.adapt_if_due(host_.now());
  host_.refresh_plan();
}

template <Policy P>
uint32_t LiveWorker<P>::ingest(DatapathQueue& from) {
  std::array<Request*, limits::kBurst> burst;
  const uint32_t n = from.poll(burst);
  if (shared_.options.sheds()) step();
  queued_ = 0;
  called_help_ = false;
  for (uint32_t i = 0; i < n; ++i) core_.admit(*burst[i]);
  wake_pushed();
  picks_since_poll_ = 0;
  last_poll_ = step();
  loss_.restart_if_old(last_poll_);
  if (&from == &datapath_) note_polled();
  return n;
}

// Something was put into q. If it is alone and this worker may serve it, it will. Of more than that
// one other worker is told, which tells the next; each that this worker may not serve is told of.
template <Policy P>
void LiveWorker<P>::queued(QueueRef q) {
  if (!shared_.may_serve(q, id_, host_)) return shared_.wake_for(q, id_, host_);
  if (called_help_ || (queued_ <= 1 && host_.depth(q) <= 1)) return;
  called_help_ = true;
  shared_.wake_for(q, id_, host_);
}

// For what every worker may take.
template <Policy P>
void LiveWorker<P>::call_for_help() {
  if (!std::exchange(called_help_, true)) shared_.wake_any(id_);
}

// A request starts, or goes on after a preemption.
template <Policy P>
void LiveWorker<P>::take_up(Request& request) {
  current_ = &request;
  slice_start_ = host_.now();
  lost_ = Nanos();
  stats_.busy_since_ns.store(slice_start_.ns(), std::memory_order_relaxed);
}

// The service that the running request has had by now.
template <Policy P>
Nanos LiveWorker<P>::attained(const Request& request) const {
  return request.attained + (host_.now() - slice_start_) - lost_;
}

template <Policy P>
bool LiveWorker<P>::checkpoint_slow(bool half_way) {
  if (in_section()) {
    section_set_pending();
    checkpoint_budget_set(kCheckpointNever);
    back_to_application();
    return false;
  }
  Request& request = *current_;
  const bool over = slice_.over(step());
  if (over) slice_over(half_way);
  const bool ends = here().is_to_end(request, half_way);
  back_to_application(over);
  return ends;
}

// Nobody may have ended its slice, or polled, for long; so the request asks. Half-way it cannot be
// told: it comes to the next checkpoint for that.
template <Policy P>
bool LiveWorker<P>::is_to_end(Request& request, bool half_way) {
  if (host_.now() - last_client_look_ > kClientLook) {
    last_client_look_ = host_.now();
    request.datapath->look_at_client(request);
  }
  if (!core_.cancels(request)) return false;
  checkpoint_budget_set(half_way ? 0 : kTellAgain);
  return true;
}

template <Policy P>
void LiveWorker<P>::slice_over(bool half_way) {
  Request& request = *current_;
  stats_.overrun.record(host_.now() - slice_.end());
  if (!half_way && slice_was_lost()) return;  // half-way it has been put off already
  if (core_.expire(request, attained(request))) return preempt(host_.now(), half_way);
  ++stats_.preemptions_avoided;
  if (request.cancelled) checkpoint_budget_set(0);
}

// A slice is CPU time: what the operating system gave to others meanwhile says nothing of the
// request. True = it has not had its quantum, and gets the rest; what has come is taken in.
template <Policy P>
bool LiveWorker<P>::slice_was_lost() {
  const Instant due = slice_.due();
  if (host_.now() - due < kSuspicious) return false;
  const Nanos since_renewed = host_.now() - due + slice_.quantum();
  const Nanos lost = take_loss(std::min(since_renewed, host_.now() - slice_start_ - lost_));
  lost_ += lost;
  if (due + lost <= host_.now()) return false;
  ingest(datapath_);
  slice_.extend(due + lost, host_.now(), *current_, attained(*current_));
  return true;
}

// Of a time that ends now, if it is long enough to be suspicious, that without a CPU.
template <Policy P>
Nanos LiveWorker<P>::take_loss(Nanos time) {
  return time > kSuspicious ? std::min(loss_.take(host_.now()), time) : Nanos();
}

// The request has run until `at`. Returns for how long.
template <Policy P>
Nanos LiveWorker<P>::end_slice(const Request& request, Instant at) {
  slice_.stop();
  stats_.busy_ns += static_cast<uint64_t>((at - slice_start_).count());
  recent_.note(slice_start_, at, request.type);
  return at - slice_start_;
}

template <Policy P>
void LiveWorker<P>::long_begin(uint8_t priority) {
  Request& request = *current_;
  if (core_.mark_long(request, priority)) {
    request.datapath->flush(request);
    step();
    core_.start_slice(request);
  }
  back_from_here();
}

// The rest is short again: it runs to the end, unless age says otherwise. The request stays marked,
// as its service time says nothing about short ones.
template <Policy P>
void LiveWorker<P>::long_end() {
  if (!by_age(shared_.options.classify)) slice_.start_without_end(host_.now());
  back_from_here();
}

template <Policy P>
void LiveWorker<P>::send(Request& request) {
  RUBATO_DCHECK(&request == current_);
  const Instant handled = step();
  lost_ += take_loss(handled - slice_start_ - lost_);
  const Nanos service = request.attained + end_slice(request, handled);
  core_.finish(request, service, lost_);
  wake_pushed();
}

template <Policy P>
void LiveWorker<P>::note_finished(const Request& request) {
  const Nanos latency = host_.now() - request.arrived;
  const Nanos service = request.attained;
  ++stats_.requests;
  TypeStats& type = stats_.of_type(request.type);
  type.latency.record(latency);
  type.service.record(service);
  if (!request.control) {
    const Nanos waited = request.started - request.arrived;
    type.add(waited, service);
    stats_.of_class(request.job_class).add(waited, service);
  }
  if (latency.count() < shared_.slow_threshold_ns.load(std::memory_order_relaxed)) return;
  const auto culprit = recent_.worst_between(request.arrived, request.started);
  shared_.application.slow(request, {latency - service, service, request.preemptions,
                                     culprit.type, culprit.held});
}

template <Policy P>
sched::Replied<Request> LiveWorker<P>::reply(Request& request) {
  const Instant handled = host_.now();
  current_ = nullptr;
  request.close_after |= request.cancelled && request.refusal == Refusal::kAbandoned;
  if (forbidden_ > 0) section_exchange_depth(section_depth() - std::exchange(forbidden_, 0));
  sched::Replied<Request> replied;
  replied.next = request.datapath->finish(request);
  if (replied.next == nullptr) replied.cost = step() - handled;
  replied.lost = take_loss(replied.cost);
  stats_.busy_ns += static_cast<uint64_t>(replied.cost.count());
  stats_.busy_since_ns.store(0, std::memory_order_relaxed);
  return replied;
}

}  // namespace rubato
