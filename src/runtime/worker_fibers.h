// SPDX-License-Identifier: Apache-2.0
//
// LiveWorker<P>, the part that switches fibers. Included by runtime/worker.h only; see there.
#pragma once

#include "runtime/worker.h"

namespace rubato {

template <Policy P>
void LiveWorker<P>::run() {
  install_seat_hooks();
  set_this_seat(this);
  fiber_adopt_thread(thread_fiber_);
  slice_.attach();
  attach();
  last_poll_ = step();
  note_polled();
  loss_.restart(last_poll_);
  minded_.reserve(others.size());
  watched_.reserve(others.size());
  running_ = shared_.fibers.make(&fiber_main, &shared_);
  RUBATO_CHECK(running_ != nullptr);
  while (running_ != nullptr) {
    LoopFiber* loop = running_;
    become(nullptr, loop);
    switch_fibers(thread_fiber_, loop->fiber);
    // Only an ended loop comes back here, and not always the one that was switched to.
    shared_.fibers.ended(std::exchange(running_, nullptr));
    if (parked_.empty()) {
      running_ = shared_.fibers.take_parked();
    } else {
      running_ = parked_.back();
      parked_.pop_back();
    }
  }
  set_this_seat(nullptr);
}

// Runs the server loop until recv() says that the runtime has stopped.
template <Policy P>
void LiveWorker<P>::fiber_main(void* argument) {
  auto* self = static_cast<LoopFiber*>(argument);
  fiber_entered(self->fiber);
  here().after_switch();
  static_cast<Shared<P>*>(self->runtime)->server_loop();
  LiveWorker& last = here();
  if (!last.asynchronous_ && !last.shares_identity()) {
    fiber_switch_final(self->fiber, last.thread_fiber_);
  }
  last.become(self, nullptr);
  fiber_switch_final_as_another(self->fiber, last.thread_fiber_);
}

// Null = the worker's own thread. What is looked up by thread from here on is that fiber's.
template <Policy P>
void LiveWorker<P>::become(LoopFiber* from, const LoopFiber* to) {
  if (!asynchronous_ && !shares_identity()) return;
  if (from != nullptr && from->identity == nullptr) fiber_keep_exceptions(from->fiber);
  uintptr_t pointer = own_thread_pointer_;
  if (to != nullptr) pointer = (to->identity != nullptr ? to->identity : identity_)->pointer();
  if (pointer != thread_pointer()) {
    set_thread_pointer(pointer);
    set_this_seat(this);
    if (!asynchronous_) slice_.attach();
  }
  if (to != nullptr && to->identity == nullptr) fiber_bring_exceptions(to->fiber);
}

// After become(from, to).
template <Policy P>
void LiveWorker<P>::switch_fibers(Fiber& from, Fiber& to) {
  asynchronous_ || shares_identity() ? fiber_switch_as_another(from, to) : fiber_switch(from, to);
}

// The running fiber is about to be left where others may know it by its identity. False: there are
// no more identities to go on by.
template <Policy P>
bool LiveWorker<P>::keep_identity() {
  if (!shares_identity() || running_->identity != nullptr) return true;
  auto next = shared_.fibers.take_identity();
  if (next == nullptr) return false;
  running_->identity = std::exchange(identity_, std::move(next));
  return true;
}

// It has come to where it may go on by any: that which it has kept is the worker's now.
template <Policy P>
void LiveWorker<P>::share_identity_again() {
  if (!shares_identity() || running_->identity == nullptr) return;
  shared_.fibers.give_identity(std::exchange(identity_, std::move(running_->identity)));
}

template <Policy P>
Request* LiveWorker<P>::recv_here() {
  here().share_identity_again();
  for (;;) {
    LiveWorker& worker = here();
    if (worker.stopping()) return nullptr;
    worker.poll_if_due();
    if constexpr (kDispatches<P>) worker.shared_.dispatch(worker.host_.now());
    if constexpr (kManages<P>) worker.shared_.manage_for(worker.id_, worker.host_.now());
    Request* request = worker.core_.next();
    if (request == nullptr) {
      worker.core_.ran_out();
      request = worker.idle();
      if (request == nullptr) continue;
    }
    worker.found_work();
    if (request->fiber != nullptr) {
      worker.resume(*request);
    } else if (worker.core_.start(*request)) {
      worker.back_from_here();
      return request;
    }
  }
}

template <Policy P>
void LiveWorker<P>::preempt(Instant at, bool half_way) {
  if (!half_way) share_identity_again();
  LoopFiber* to = !half_way || keep_identity() ? take_fiber() : nullptr;
  Request& request = *current_;
  if (to == nullptr) {
    ++stats_.preemptions_denied;
    core_.start_slice(request);
    return;
  }
  ++stats_.preemptions;
  publish_ = &request;
  leave_request(to, half_way ? step() : at);  // an identity may have been made
}

// The current request is left where it is, for `to`. Returns when it is resumed.
template <Policy P>
void LiveWorker<P>::leave_request(LoopFiber* to, Instant at) {
  Request& request = *current_;
  request.attained += end_slice(request, at);
  stats_.busy_since_ns.store(0, std::memory_order_relaxed);
  request.fiber = running_;
  current_ = nullptr;
  LoopFiber* from = running_;
  running_ = to;
  become(from, to);
  switch_fibers(from->fiber, to->fiber);
  here().after_switch();
}

template <Policy P>
void LiveWorker<P>::resume(Request& request) {
  auto* to = static_cast<LoopFiber*>(request.fiber);
  LoopFiber* from = running_;
  if (parked_.size() < kParkedHere) {
    parked_.push_back(from);
  } else {
    shelve_ = from;
  }
  request.fiber = nullptr;
  ++stats_.resumed;
  running_ = to;
  become(from, to);
  static_cast<void>(core_.start(request));  // what has started is not refused
  switch_fibers(from->fiber, to->fiber);
  here().after_switch();
}

template <Policy P>
LoopFiber* LiveWorker<P>::take_fiber() {
  if (!parked_.empty()) {
    LoopFiber* parked = parked_.back();
    parked_.pop_back();
    return parked;
  }
  if (LoopFiber* parked = shared_.fibers.take_parked()) return parked;
  return shared_.fibers.make(&fiber_main, &shared_);
}

// First thing on every fiber that is switched to: what the previous one could not do while it was
// still on its own stack. Making a fiber with an identity takes long: time is read again, else the
// next slice has begun before it starts.
template <Policy P>
void LiveWorker<P>::after_switch() {
  if (asynchronous_) step();
  if (shelve_ != nullptr) shared_.fibers.park(std::exchange(shelve_, nullptr));
  Request* request = std::exchange(publish_, nullptr);
  if (request == nullptr) return;
  if (std::exchange(publish_yielded_, false)) return core_.wait_for_lock(*request);
  core_.requeue(*request);
}

}  // namespace rubato
