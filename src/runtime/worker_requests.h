// SPDX-License-Identifier: Apache-2.0
//
// LiveWorker<P>, the part that takes in, chooses, times and finishes requests. Included by
// runtime/worker.h only; see there.
#pragma once

#include <algorithm>
#include <array>

#include "runtime/worker.h"

namespace rubato {

// The kernel is asked when the worker's own queue has run dry, and every now and then otherwise.
template <Policy P>
void LiveWorker<P>::poll_if_due() {
  const bool dry = flow_next_ == nullptr && host_.depth({0, own_lane()}) == 0 &&
                   control_.depth() == 0;
  if (!dry && ++picks_since_poll_ < kPicksPerPoll && host_.now() - last_poll_ < kPollInterval) {
    return;
  }
  ingest(datapath_);
  if (shared_.options.preemption_clock == PreemptionClock::kSelf) shared_.adapt_if_due(host_.now());
  if (shared_.cores.allocates()) {
    if (id_ == CoreControl::minder()) look_after_minded();
    shared_.look_at_cores(host_.now());
  }
  host_.refresh_plan();
}

template <Policy P>
uint32_t LiveWorker<P>::ingest(DatapathQueue& from) {
  std::array<Request*, limits::kBurst> burst;
  const uint32_t n = from.poll(burst);
  if (shedding_) step();
  queued_ = 0;
  called_help_ = false;
  for (uint32_t i = 0; i < n; ++i) admit(*burst[i]);
  host_.take_pushed([this](WorkerId worker) { shared_.wake(worker); });
  picks_since_poll_ = 0;
  last_poll_ = step();
  loss_.restart_if_old(last_poll_);
  if (&from == &datapath_) note_polled();
  return n;
}

template <Policy P>
void LiveWorker<P>::admit(Request& request) {
  Request* first = answer_at_once(&request);
  if (first == nullptr) return;
  note_arrival(*first);
  if (!takes(*first, Refusal::kDelay)) return turn_away(*first, Refusal::kDelay);
  enqueue(*first);
}

// Full means an explicit refusal and a counter. The flow's next command gets its own chance: it may
// go to another queue. The flow yields at the latest when its turn of input is used up.
template <Policy P>
void LiveWorker<P>::enqueue(Request& request) {
  Request* next = &request;
  while (!queue_up(*next)) {
    next = refuse(*next, Refusal::kFull);
    if (next == nullptr) return;
    note_arrival(*next);
  }
}

// What has nothing to run does not wait behind what has. After a run of them the flow's next one
// queues with the control plane, so that a client that sends nothing else gets no more than that.
template <Policy P>
Request* LiveWorker<P>::answer_at_once(Request* next) {
  for (uint32_t run = 0; next != nullptr && next->at_once && run < kFlowRun; ++run) {
    next->session->answer(*next);
    next = next->datapath->finish(*next);
  }
  if (next != nullptr) next->control |= next->at_once;
  return next;
}

template <Policy P>
void LiveWorker<P>::note_arrival(const Request& request) {
  if (!request.control) ++stats_.arrived[std::min(request.type, limits::kTypes - 1)];
  if (arrivals_ == nullptr) return;
  if (request.control) return arrivals_->note_control();
  arrivals_->note(request.arrived);
}

// False: its queue is full.
template <Policy P>
bool LiveWorker<P>::queue_up(Request& request) {
  ++queued_;
  if (request.control) {
    if (!control_.put(&request)) return false;
  } else {
    const QueueRef q = hook::route(shared_.policy, request, id_, host_);
    if (!host_.put(q, &request)) return false;
    if (!is_pushed(P::kQueues[q.spec])) queued(q);
  }
  if (queued_ > 1 && control_.depth() > 0) call_for_help();
  return true;
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

// Whoever waits for a lock tries again after every other request, so that its holder gets on even
// if it waits here too.
template <Policy P>
Request* LiveWorker<P>::pick() {
  if (yielded_.empty()) return pick_unyielded();
  yielded_turn_ = !yielded_turn_;
  if (yielded_turn_) {
    if (Request* request = pick_unyielded()) return request;
    help_stuck();  // as when idle: whom they wait for may be there
  }
  Request* request = yielded_.front();
  yielded_.pop_front();
  return request;
}

template <Policy P>
Request* LiveWorker<P>::pick_unyielded() {
  if (++picks_since_control_ >= kControlShare) {
    if (Request* request = pick_control()) return request;
  }
  if (flow_next_ != nullptr) return std::exchange(flow_next_, nullptr);
  if (!overflow_.empty()) {
    Request* request = overflow_.back();
    overflow_.pop_back();
    return request;
  }
  Job* job = hook::next(shared_.policy, state_, id_, host_);
  return job != nullptr ? static_cast<Request*>(job) : pick_control();
}

template <Policy P>
Request* LiveWorker<P>::pick_control() {
  picks_since_control_ = 0;
  Job* job = nullptr;
  for (uint32_t i = 0; i < host_.workers(); ++i) {
    StealQueue<Job*>& queue = *shared_.control[(id_.value + i) % host_.workers()];
    if (queue.depth() > 0 && queue.take(job)) return static_cast<Request*>(job);
  }
  return nullptr;
}

// A request starts, or goes on after a preemption.
template <Policy P>
void LiveWorker<P>::begin(Request& request) {
  current_ = &request;
  slice_start_ = host_.now();
  lost_ = Nanos();
  stats_.busy_since_ns.store(slice_start_.ns(), std::memory_order_relaxed);
  if (request.preemptions == 0) {
    request.started = slice_start_;
    if (shared_.cores.allocates()) shared_.cores.note_wait(id_, slice_start_ - request.arrived);
  }
  if constexpr (P::kPreempts != Preempts::kNothing) {
    if (shared_.options.classify == Classify::kLearned && request.preemptions == 0) {
      const Nanos expected = shared_.learned.expected(request.type, request.payload.size());
      if (expected > hook::quantum(shared_.policy, state_, request, host_)) {
        request.job_class = JobClass::kLong;
        ++stats_.long_learned;
      }
    }
    start_slice(request);
  }
  if (request.preemptions == 0 && !request.control) {
    stats_.delay.waited(request.job_class, slice_start_ - request.arrived);
  }
}

// A slice whose end will be looked at, if the policy can preempt this request at all.
template <Policy P>
void LiveWorker<P>::start_slice(Request& request) {
  if constexpr (P::kPreempts == Preempts::kNothing) return;
  const bool timed = P::kPreempts == Preempts::kEverything ||
                     request.job_class == JobClass::kLong ||
                     shared_.options.classify != Classify::kFeedback;
  if (timed) {
    const Nanos quantum = hook::quantum(shared_.policy, state_, request, host_);
    stats_.quantum_ns.store(quantum.count(), std::memory_order_relaxed);
    slice_.start(host_.now(), quantum, request.priority);
  } else {
    slice_.stop();
  }
}

template <Policy P>
void LiveWorker<P>::checkpoint_slow(bool half_way) {
  if (in_section()) {
    section_set_pending();
    checkpoint_budget_set(kCheckpointNever);
    return back_to_application();
  }
  const bool over = slice_.over(step());
  if (over) slice_over(half_way);
  back_to_application(over);
}

// What waits in the kernel counts as waiting, so it is taken in before the policy is asked
// (Synergy 5.1.3.2 looks at the NIC queue too). Past the drain limit a request is put back for
// good.
template <Policy P>
void LiveWorker<P>::slice_over(bool half_way) {
  Request& request = *current_;
  stats_.overrun.record(host_.now() - slice_.end());
  if (!half_way && slice_was_lost()) return;  // half-way it has been put off already
  if (P::kPreempts == Preempts::kLong && request.job_class == JobClass::kShort) {
    request.job_class = JobClass::kLong;
    request.promoted_after = request.attained + (host_.now() - slice_start_) - lost_;
    ++stats_.long_by_age;
  }
  ingest(datapath_);
  if (shared_.options.preemption_clock == PreemptionClock::kSelf) shared_.adapt_if_due(host_.now());
  host_.refresh_plan();
  const Running running{id_, request.priority};
  const bool gain = control_.depth() > 0 || stopping() ||
                    hook::expired(shared_.policy, running, host_) == Verdict::kPreempt;
  if (gain) return preempt(host_.now(), half_way);
  ++stats_.preemptions_avoided;
  start_slice(request);
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
  slice_.extend(due + lost, host_.now(), current_->priority);
  return true;
}

// Of a time that ends now, if it is long enough to be suspicious, that without a CPU.
template <Policy P>
Nanos LiveWorker<P>::take_loss(Nanos time) {
  return time > kSuspicious ? std::min(loss_.take(host_.now()), time) : Nanos();
}

template <Policy P>
void LiveWorker<P>::account_slice(Request& request, Instant at) {
  request.attained += at - slice_start_;
  stats_.busy_ns += static_cast<uint64_t>((at - slice_start_).count());
  recent_.note(slice_start_, at, request.type);
}

template <Policy P>
void LiveWorker<P>::long_begin(uint8_t priority) {
  Request& request = *current_;
  request.priority = priority;
  if (request.job_class != JobClass::kLong || request.promoted_after != Nanos()) {
    request.job_class = JobClass::kLong;
    request.promoted_after = Nanos();
    ++stats_.long_by_feedback;
    request.datapath->flush(request);
    step();
    start_slice(request);
  }
  back_from_here();
}

// The rest is short again: it runs to the end, unless age says otherwise. The request stays marked,
// as its service time says nothing about short ones.
template <Policy P>
void LiveWorker<P>::long_end() {
  if (shared_.options.classify == Classify::kFeedback) slice_.stop();
  back_from_here();
}

template <Policy P>
void LiveWorker<P>::send(Request& request) {
  RUBATO_DCHECK(&request == current_);
  const Instant handled = step();
  lost_ += take_loss(handled - slice_start_ - lost_);
  complete(request, request.attained + (handled - slice_start_));
  slice_.stop();
  account_slice(request, handled);
  const Job done = request;
  const size_t payload_bytes = request.payload.size();
  const Nanos promoted_after = request.promoted_after;
  current_ = nullptr;
  if (forbidden_ > 0) section_exchange_depth(section_depth() - std::exchange(forbidden_, 0));
  Request* next = request.datapath->finish(request);
  // Sending the reply is part of what a request costs the ones behind it.
  const Nanos flush_cost = next != nullptr ? Nanos() : step() - handled;
  const Nanos lost = lost_ + take_loss(flush_cost);
  stats_.busy_ns += static_cast<uint64_t>(flush_cost.count());
  stats_.busy_since_ns.store(0, std::memory_order_relaxed);
  learn(done, payload_bytes, done.attained + flush_cost, lost, promoted_after);
  if (next != nullptr) next = answer_at_once(next);
  if (next != nullptr) {
    follow(*next);
  } else {
    flow_run_ = 0;
  }
}

// A request that became long only by age counts as a short one of at most that age: were it left
// out, the average could only ever fall and the quantum with it. Quanta are CPU time, so what was
// `lost` is no part of the service that they follow.
template <Policy P>
void LiveWorker<P>::learn(const Job& done, size_t payload_bytes, Nanos service, Nanos lost,
                          Nanos promoted_after) {
  if (shared_.options.classify == Classify::kLearned || shedding_) {
    shared_.learned.add(done.type, payload_bytes, service, done.job_class);
  }
  if (promoted_after == Nanos()) {
    hook::finished(shared_.policy, state_, done, service - lost);
  } else {
    Job as_short = done;
    as_short.job_class = JobClass::kShort;
    hook::finished(shared_.policy, state_, as_short, promoted_after);
  }
}

template <Policy P>
void LiveWorker<P>::complete(Request& request, Nanos service) {
  const Nanos latency = host_.now() - request.arrived;
  ++stats_.requests;
  TypeStats& type = stats_.of_type(request.type);
  type.latency.record(latency);
  type.service.record(service);
  if (!request.control) {
    const Nanos waited = request.started - request.arrived;
    type.add(waited, service);
    stats_.of_class(request.job_class).add(waited, service);
  }
  // A request without checkpoints that took long is noticed only now.
  if (P::kPreempts == Preempts::kLong && shared_.options.classify != Classify::kFeedback &&
      request.job_class == JobClass::kShort && service - lost_ > slice_.quantum()) {
    request.promoted_after = slice_.quantum();
  }
  if (latency.count() < shared_.slow_threshold_ns.load(std::memory_order_relaxed)) return;
  const auto culprit = recent_.worst_between(request.arrived, request.started);
  shared_.application.slow(request, {latency - service, service, request.preemptions,
                                     culprit.type, culprit.held});
}

// The next command of a pipeline follows at once while its turn lasts, so that its replies leave
// together; a pipeline without end goes to the tail.
template <Policy P>
void LiveWorker<P>::follow(Request& next) {
  if (flow_run_++ == 0) flow_run_start_ = host_.now();
  if (flow_next_ == nullptr && !next.control && flow_run_ < kFlowRun &&
      host_.now() - flow_run_start_ < kFlowTime) {
    flow_next_ = &next;
    note_arrival(next);
    return;
  }
  flow_run_ = 0;
  if (host_.depth({0, own_lane()}) > 0) {
    if (!takes(next, Refusal::kShare)) {
      note_arrival(next);
      return turn_away(next, Refusal::kShare);
    }
    next.datapath->flush(next);
  }
  admit(next);
  host_.take_pushed([this](WorkerId worker) { shared_.wake(worker); });
}

}  // namespace rubato
