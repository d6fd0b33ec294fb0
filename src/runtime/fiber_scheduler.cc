// SPDX-License-Identifier: Apache-2.0
#include "runtime/fiber_scheduler.h"

#include "mechanism/preempt/interposed.h"

namespace rubato {

void FiberScheduler::attach() {
  fiber_adopt_thread(thread_fiber_);
  own_thread_pointer_ = thread_pointer();
  if (asynchronous_) return;
  interposers_mark_thread(ThreadKind::kSharesIdentity);
  const bool lends = mechanism_ == PreemptMechanism::kCheckpoint && interposers_attached() &&
                     Identity::available().ok();
  if (lends) identity_ = pool_.take_identity();
}

void FiberScheduler::detach() {
  interposers_mark_thread(ThreadKind::kPlain);
  identity_.reset();
}

// Stays on this worker: the stack is the thread's own.
void FiberScheduler::run() {
  running_ = pool_.make(entry_, runtime_);
  RUBATO_CHECK(running_ != nullptr);
  while (running_ != nullptr) {
    LoopFiber* loop = running_;
    become(nullptr, loop);
    switch_fibers(thread_fiber_, loop->fiber);
    // Only an ended loop comes back here, and not always the one that was switched to.
    RUBATO_DCHECK(left_.request == nullptr && shelve_ == nullptr);
    pool_.ended(std::exchange(running_, nullptr));
    running_ = take_parked();
  }
}

void FiberScheduler::finish(LoopFiber& self) {
  RUBATO_DCHECK(&self == running_);
  if (!has_identities()) fiber_switch_final(self.fiber, thread_fiber_);
  become(&self, nullptr);
  fiber_switch_final_as_another(self.fiber, thread_fiber_);
}

bool FiberScheduler::keep_identity() {
  if (!shares_identity() || running_->identity != nullptr) return true;
  auto next = pool_.take_identity();
  if (next == nullptr) return false;
  running_->identity = std::exchange(identity_, std::move(next));
  return true;
}

void FiberScheduler::give_identity_back() {
  pool_.give_identity(std::exchange(identity_, std::move(running_->identity)));
}

void FiberScheduler::change_identity(LoopFiber* from, const LoopFiber* to) {
  if (from != nullptr && from->identity == nullptr) fiber_keep_exceptions(from->fiber);
  uintptr_t pointer = own_thread_pointer_;
  if (to != nullptr) pointer = (to->identity != nullptr ? to->identity : identity_)->pointer();
  if (pointer != thread_pointer()) {
    set_thread_pointer(pointer);
    set_current_worker(&current_);
    if (!asynchronous_) clock_.attach();
  }
  if (to != nullptr && to->identity == nullptr) fiber_bring_exceptions(to->fiber);
}

}  // namespace rubato
