// SPDX-License-Identifier: Apache-2.0
#include "runtime/wait_port.h"

#include <algorithm>
#include <utility>

#include "datapath/request.h"
#include "mechanism/clock/clock.h"
#include "runtime/wait_queue.h"

namespace rubato {

void WaitPort::enter(Waiter& waiter, const WaitLimit& limit) {
  const Request& request = waiter.request();
  {
    const std::scoped_lock lock(lock_);
    present_.push_back(waiter);
  }
  waiting_.fetch_add(1, std::memory_order_relaxed);
  if (request.stream != nullptr) waits_.count_client(true);
  Instant deadline = limit.deadline;
  if (!limit.firm) {
    deadline = std::min(deadline, request.deadline);
    Session* const session = request.session;
    CancelList* const list = session != nullptr ? session->cancel_list(request) : nullptr;
    if (list != nullptr) list->add(waiter);
  }
  // What comes from here on ends the wait; what came before is looked at now.
  const Instant at = now();
  if (!limit.firm && (request.cancelled || waits_.is_unwanted(request, at))) {
    static_cast<void>(waiter.claim(Wake::kCancelled));
  } else if (deadline <= at) {
    static_cast<void>(waiter.claim(Wake::kTimeout));
  } else if (deadline != Instant::never()) {
    waiter.is_timed = reactor_->add(waiter, deadline);
    if (!waiter.is_timed) static_cast<void>(waiter.claim(Wake::kRefused));
  }
}

void WaitPort::leave(Waiter& waiter) {
  if (waiter.cancel_list != nullptr) waiter.cancel_list->remove(waiter);
  if (waiter.is_timed) reactor_->remove(waiter);
  if (waiter.request().stream != nullptr) waits_.count_client(false);
  const std::scoped_lock lock(lock_);
  present_.erase(waiter);
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void WaitPort::put_back(Waiter& waiter) {
  wakers_.fetch_add(1, std::memory_order_relaxed);
  back_.push(waiter);
  waits_.wake(worker_);
  wakers_.fetch_sub(1, std::memory_order_release);
}

void WaitPort::sweep(Instant at) {
  Claimed claimed;
  const std::scoped_lock lock(lock_);
  for (Waiter* waiter = present_.first(); waiter != nullptr; waiter = present_.next(*waiter)) {
    if (waiter->firm()) continue;
    const bool ends = waits_.is_unwanted(waiter->request(), at) ||
                      has_waited_for_half_closed(*waiter, at);
    if (ends) static_cast<void>(claimed.claim(*waiter, Wake::kCancelled));
  }
}

// Locked.
bool WaitPort::has_waited_for_half_closed(Waiter& waiter, Instant at) const {
  const auto* client = waiter.request().client;
  if (client == nullptr) return false;
  if (client->load(std::memory_order_relaxed) != ClientState::kHalfClosed) return false;
  if (waiter.half_closed_since == Instant()) waiter.half_closed_since = at;
  return at - waiter.half_closed_since >= waits_.half_closed_limit();
}

void WaitPort::forsake() {
  const std::scoped_lock lock(lock_);
  while (Waiter* const waiter = present_.pop_front()) {
    if (waiter->queue != nullptr) waiter->queue->remove(*waiter);
    if (waiter->cancel_list != nullptr) waiter->cancel_list->remove(*waiter);
    if (waiter->is_timed) reactor_->remove(*waiter);
  }
}

Waits::Waits(uint32_t workers, const Shutdown& shutdown, Nanos half_closed_limit,
             std::function<void(WorkerId)> wake)
    : shutdown_(shutdown),
      half_closed_limit_(half_closed_limit),
      wake_(std::move(wake)),
      helpers_(std::make_unique<Offload>()) {
  for (uint32_t i = 0; i < workers; ++i) {
    ports_.push_back(std::make_unique<WaitPort>(*this, WorkerId{i}, reactor_));
  }
}

Waits::~Waits() {
  helpers_.reset();
  for (const auto& port : ports_) port->forsake();
  for (const auto& port : ports_) {
    for (uint32_t tries = 0; port->in_use();) StdSync::wait(tries++);
  }
}

bool Waits::is_unwanted(const Request& request, Instant at) const {
  if (shutdown_.drained_for(at) >= shutdown_.drain_limit()) return true;
  return request.client != nullptr &&
         request.client->load(std::memory_order_relaxed) == ClientState::kGone;
}

void Waits::sweep_at_drain_limit(Instant at) {
  if (shutdown_.drained_for(at) >= shutdown_.drain_limit()) sweep(at);
}

void Waits::sweep(Instant at) {
  next_sweep_ns_.store((at + kSweepPeriod).ns(), std::memory_order_relaxed);
  for (const auto& port : ports_) {
    if (port->waiting() > 0) port->sweep(at);
  }
}

}  // namespace rubato
