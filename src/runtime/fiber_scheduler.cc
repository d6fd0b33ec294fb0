// SPDX-License-Identifier: Apache-2.0
#include "runtime/fiber_scheduler.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "mechanism/preempt/interposed.h"

namespace rubato {
namespace {

// The kernel keeps the mask by thread. A request may be left while it blocks signals, in system()
// or by its own wish: others would block them too, and it would no longer where it goes on.
// `others` are blocked by the thread and by fibers that are new.
void change_signal_mask(LoopFiber* from, const LoopFiber* to, const sigset_t& others) {
  const bool has_own = to != nullptr && to->blocked_signals.has_value();
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, has_own ? &*to->blocked_signals : &others, &before);
  if (from != nullptr) from->blocked_signals = before;
}

// The same for the alternate stack, of which a request may set one of its own. `others` is the
// thread's. A stack that a handler runs on stays, as the kernel wants it. Called in the TLS block
// of `from`. Most fibers set none, and cost no system call. (Ours are not to count as theirs.)
void change_signal_stack(LoopFiber* from, const LoopFiber* to, const stack_t& others) {
  const bool has_own = to != nullptr && to->signal_stack.has_value();
  if (!has_own && (from == nullptr || !interposed_signal_stack_set())) return;
  const stack_t& wanted = has_own ? *to->signal_stack : others;
  stack_t before{};
  RUBATO_CHECK(syscall(SYS_sigaltstack, nullptr, &before) == 0);
  if ((before.ss_flags & SS_ONSTACK) != 0) return;
  if (from != nullptr) from->signal_stack.reset();
  if (from != nullptr && before.ss_sp != others.ss_sp) from->signal_stack = before;
  if (wanted.ss_sp != before.ss_sp) syscall(SYS_sigaltstack, &wanted, nullptr);
}

// The fibers of a worker share a TLS block, which one that waits keeps.
bool lends_tls(PreemptMechanism mechanism) {
  return mechanism == PreemptMechanism::kCheckpoint && interposers_attached() &&
         TlsBlock::available().ok();
}

}  // namespace

bool FiberScheduler::prepare() {
  if ((asynchronous_ || lends_tls(mechanism_)) && !pool_.start_tls_reserve()) return false;
  if (running_ == nullptr) running_ = pool_.make(entry_, runtime_);
  return running_ != nullptr;
}

void FiberScheduler::attach() {
  fiber_adopt_thread(thread_fiber_);
  own_thread_pointer_ = thread_pointer();
  if (!asynchronous_) interposers_mark_thread(ThreadKind::kSharesTls);
  if (lends_tls(mechanism_)) tls_ = pool_.take_tls();
  if (!switches_tls()) return;
  credentials_ = CredentialsOfThread::announce();
  RUBATO_CHECK(credentials_ != nullptr);
}

void FiberScheduler::detach() {
  credentials_.reset();
  interposers_mark_thread(ThreadKind::kPlain);
  tls_.reset();
}

// run() stays on this worker: its stack is the thread's own.
bool FiberScheduler::run() {
  RUBATO_DCHECK(running_ != nullptr);
  if (asynchronous_) {
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked_signals_);
    RUBATO_CHECK(sigaltstack(nullptr, &signal_stack_) == 0);
  }
  while (running_ != nullptr) {
    LoopFiber* loop = running_;
    switch_tls(nullptr, loop);
    switch_fibers(thread_fiber_, loop->fiber);
    // A loop fiber comes back here that has ended or calls; not always the one switched to.
    RUBATO_DCHECK(left_.request == nullptr && shelve_ == nullptr);
    if (std::exchange(pauses_, false)) return false;
    if (call_ != nullptr) {
      (*std::exchange(call_, nullptr))();
      continue;
    }
    pool_.ended(std::exchange(running_, nullptr));
    running_ = take_parked();
  }
  return true;
}

// Leaves the running fiber for run(), which has its reasons.
void FiberScheduler::turn_to_thread() {
  LoopFiber& self = *running_;
  clock_.stop();
  switch_tls(&self, nullptr);
  switch_fibers(self.fiber, thread_fiber_);
}

void FiberScheduler::pause() {
  pauses_ = true;
  turn_to_thread();
}

void FiberScheduler::call_on_thread(const std::function<void()>& call) {
  RUBATO_DCHECK(call_ == nullptr);
  call_ = &call;
  turn_to_thread();
}

void FiberScheduler::finish(LoopFiber& self) {
  RUBATO_DCHECK(&self == running_);
  if (!switches_tls()) fiber_switch_final(self.fiber, thread_fiber_);
  switch_tls(&self, nullptr);
  fiber_switch_final_as_another(self.fiber, thread_fiber_);
}

bool FiberScheduler::keep_tls() {
  if (!shares_tls() || running_->tls != nullptr) return true;
  auto next = pool_.take_tls();
  if (next == nullptr) return false;
  running_->tls = std::exchange(tls_, std::move(next));
  return true;
}

void FiberScheduler::change_tls_block(LoopFiber* from, const LoopFiber* to) {
  if (asynchronous_) {
    change_signal_mask(from, to, blocked_signals_);
    change_signal_stack(from, to, signal_stack_);
  }
  if (from != nullptr && from->tls == nullptr) fiber_keep_exceptions(from->fiber);
  uintptr_t pointer = own_thread_pointer_;
  if (to != nullptr) pointer = (to->tls != nullptr ? to->tls : tls_)->pointer();
  if (pointer != thread_pointer()) {
    set_thread_pointer(pointer);
    set_current_worker(&current_);
    if (!asynchronous_) clock_.attach();
  }
  if (to != nullptr && to->tls == nullptr) fiber_bring_exceptions(to->fiber);
}

}  // namespace rubato
