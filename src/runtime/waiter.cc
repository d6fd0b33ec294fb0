// SPDX-License-Identifier: Apache-2.0
#include "runtime/waiter.h"

#include <chrono>
#include <thread>

#include "datapath/request.h"
#include "mechanism/clock/clock.h"
#include "mechanism/preempt/preempt_disable.h"
#include "runtime/current_worker.h"
#include "runtime/wait_port.h"
#include "runtime/waiting.h"

namespace rubato {

Wake Waiter::wait(const WaitLimit& limit) {
  limit_ = limit;
  if (!begin()) {
    let_go();
    return wait_on_thread();
  }
  const bool waits = word_.why() == Wake::kNone || mutex != nullptr;
  const bool stays = waits && !leave_application()->park(*this);
  if (stays && limit.firm) static_cast<void>(wait_on_thread());
  if (stays && !limit.firm) static_cast<void>(word_.claim(Wake::kRefused));
  end();
  const Wake why = result();
  if (why == Wake::kCancelled) leave_application()->end_current();
  return why;
}

void Waiter::yield() {
  Waiter waiter;
  waiter.limit_.firm = true;
  if (!waiter.begin()) return std::this_thread::yield();
  static_cast<void>(waiter.claim(Wake::kWoken));
  static_cast<void>(leave_application()->park(waiter));
  waiter.end();
}

// False: the caller is no request.
bool Waiter::begin() {
  const PreemptDisableGuard no_preemption;
  CurrentWorker* const worker = current_worker();
  if (worker == nullptr || !worker->in_application()) return false;
  request_ = worker->current();
  present_at_ = &worker->waits();
  present_at_->enter(*this, limit_);
  return true;
}

void Waiter::end() {
  const PreemptDisableGuard no_preemption;
  present_at_->leave(*this);
}

Wake Waiter::result() const {
  const Wake why = word_.why();
  const bool expired = why == Wake::kTimeout && !limit_.firm && now() >= request_->deadline;
  return expired ? Wake::kCancelled : why;
}

// The thread is notified under its lock, so who has told it is through when it goes on.
Wake Waiter::wait_on_thread() {
  Thread self;
  thread_ = &self;
  home_ = nullptr;
  if (!word_.settle()) return word_.why();
  std::unique_lock lock(self.mutex);
  while (!self.notified) {
    if (limit_.deadline == Instant::never()) {
      self.changed.wait(lock);
      continue;
    }
    const Nanos left = limit_.deadline - now();
    if (left > Nanos()) {
      self.changed.wait_for(lock, std::chrono::nanoseconds(left.count()));
    } else if (word_.claim(Wake::kTimeout) != Claim::kLost) {
      break;
    } else {
      self.changed.wait(lock);
    }
  }
  return word_.why();
}

void Waiter::let_go() {
  if (mutex == nullptr) return;
  has_mutex = false;
  mutex->unlock();
}

bool Waiter::has_again() {
  if (mutex == nullptr || has_mutex) return true;
  queue->remove(*this);
  has_mutex = true;
  return mutex->give(*this);
}

void Waiter::deliver() {
  if (home_ != nullptr) {
    if (has_again()) home_->put_back(*this);
    return;
  }
  const std::scoped_lock lock(thread_->mutex);
  thread_->notified = true;
  thread_->changed.notify_one();
}

void Claimed::deliver() {
  const PreemptDisableGuard no_preemption;
  for (Waiter* waiter = std::exchange(first_, nullptr); waiter != nullptr;) {
    std::exchange(waiter, waiter->next_in_list)->deliver();
  }
  last_ = nullptr;
}

void CancelList::add(Waiter& waiter) {
  const std::scoped_lock lock(lock_);
  waiter.cancel_list = this;
  waiters_.push_back(waiter);
}

void CancelList::remove(Waiter& waiter) {
  const std::scoped_lock lock(lock_);
  if (waiters_.has(waiter)) waiters_.erase(waiter);
}

void CancelList::cancel() {
  Claimed claimed;
  const PreemptDisableGuard no_preemption;
  const std::scoped_lock lock(lock_);
  while (Waiter* const waiter = waiters_.pop_front()) claimed.claim(*waiter, Wake::kCancelled);
}

}  // namespace rubato
