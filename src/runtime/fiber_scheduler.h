// SPDX-License-Identifier: Apache-2.0
//
// FiberScheduler: the loop fibers of one worker: the running one, those parked inside recv(), and
// the switches between them (Synergy 5.2.2). It also keeps the work that a fiber could not do
// before it was left: a fiber or a request must not become visible to other threads while its stack
// is in use, so the next fiber publishes it, first of all, by settle().
//
// The contract of a switch: after switch_from() or leave_for() the calling code runs on whichever
// worker has resumed its fiber. `this`, and every reference to the worker, may belong to another
// worker; callers look the worker up again (current_worker()), and then call settle() on that
// worker. Only run() stays on its worker: the thread's own stack belongs to the worker.
//
// TLS blocks (mechanism/preempt/tls_block.h). Where requests can be interrupted at any instruction,
// every fiber has one. With checkpoints, where the machine has TLS blocks, the fibers of a worker
// share one, and a request that is left half-way through code that knows nothing of fibers keeps it
// until the next checkpoint or its end; the worker goes on with another one. turn_to() changes
// thread-local storage to that of the fiber: variables there are to be set after the call, and
// looked up again. Where every fiber has a TLS block, each has a signal mask and an alternate
// signal stack too.
//
// Used on the worker's own thread only.
#pragma once

#include <signal.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "mechanism/fiber/fiber.h"
#include "mechanism/preempt/credentials.h"
#include "mechanism/preempt/tls_block.h"
#include "mechanism/preempt/mechanism.h"
#include "runtime/fiber_pool.h"
#include "runtime/current_worker.h"
#include "runtime/slice_clock.h"

namespace rubato {

class FiberScheduler {
 public:
  // A suspended request that is in no queue yet: its fiber had to be left first.
  // kStuck: most likely for a lock, but it has not said so. kWait: for what the waiter is for.
  enum class LeftFor : uint8_t { kOthers, kLock, kStuck, kWait };
  struct Left {
    Request* request = nullptr;
    LeftFor what = LeftFor::kOthers;
    Waiter* waiter = nullptr;
  };

  // Fibers run entry(LoopFiber*), which calls fiber_entered() and settle() first and finish() last,
  // and find `runtime` in there. They are the fibers of the worker `current`, whose slices `clock`
  // ends.
  FiberScheduler(FiberPool& pool, FiberEntry entry, void* runtime, CurrentWorker& current,
                 SliceClock& clock,
                 PreemptMechanism mechanism)
      : pool_(pool),
        entry_(entry),
        runtime_(runtime),
        current_(current),
        clock_(clock),
        mechanism_(mechanism),
        asynchronous_(is_asynchronous(mechanism)) {}

  // Makes the fiber that run() begins with. Called for all workers before the first of them runs:
  // preempted requests may need all the others. Again: nothing. False: there is no memory.
  bool prepare();

  // Called on the worker's thread, before run() and after it.
  void attach();
  void detach();

  // Called in the child of a fork by the running fiber, which is all that the child has.
  void forked() const {
    if (thread_pointer() != own_thread_pointer_) leave_restartable_sequences(own_thread_pointer_);
  }

  // Runs fibers until all have ended that are parked on this worker or for every worker. False:
  // pause() was called; the next call goes on there.
  bool run();
  // Has run() return; returns when run() is called again. No request runs.
  void pause();
  // The last call of an entry: returns to run(), for good.
  [[noreturn]] void finish(LoopFiber& self);

  // Has run() call it, on the thread's own stack and thread-local storage; returns when it has
  // returned. The running slice is over. It must not switch fibers.
  void call_on_thread(const std::function<void()>& call);

  LoopFiber& running() const { return *running_; }

  // True if the fibers share a TLS block, and each keeps one of its own only while it needs it.
  bool shares_tls() const { return tls_ != nullptr; }

  // Takes a fiber that is in recv(), or a new one; null = there are no more.
  LoopFiber* take() {
    LoopFiber* parked = take_parked();
    return parked != nullptr ? parked : pool_.make(entry_, runtime_);
  }

  // The running fiber waits in recv() and the fiber of a suspended request is next. Two steps: from
  // the first on, thread-local storage is that of `to`, and the caller sets its variables there;
  // then comes the switch. Returns the fiber to switch from.
  [[nodiscard]] LoopFiber& park_and_turn_to(LoopFiber& to) {
    RUBATO_DCHECK(shelve_ == nullptr);
    if (parked_.size() < kParkedHere) {
      parked_.push_back(running_);
    } else {
      shelve_ = running_;
    }
    return turn_to(to);
  }
  void switch_from(LoopFiber& from) { switch_fibers(from.fiber, running_->fiber); }

  // The running fiber is left with its suspended request on it. Returns when that request is
  // resumed.
  void leave_for(LoopFiber& to, Left left) {
    RUBATO_DCHECK(left_.request == nullptr && left.request != nullptr);
    left_ = left;
    left.request->fiber = running_;
    LoopFiber& from = turn_to(to);
    switch_from(from);
  }

  // The first call after a switch: parks the fiber that was left, for every worker. The caller puts
  // back the request that is returned, if there is one.
  [[nodiscard]] Left settle() {
    if (shelve_ != nullptr) pool_.park(std::exchange(shelve_, nullptr));
    if (!parked_.empty() && parked_.back()->releases != pool_.releases()) release_last_parked();
    return std::exchange(left_, {});
  }

  // The running fiber is about to be left inside code that may rely on its TLS block, so it keeps
  // that block. False: there is no other TLS block to go on with.
  bool keep_tls();
  // The running fiber has come to a point where any TLS block will do: the block that it has kept
  // becomes the worker's.
  void share_tls_again() {
    if (!shares_tls() || running_->tls == nullptr) return;
    pool_.give_tls(std::exchange(tls_, std::move(running_->tls)));
  }

 private:
  static constexpr size_t kParkedHere = 16;

  bool switches_tls() const { return asynchronous_ || shares_tls(); }

  LoopFiber* take_parked() {
    if (parked_.empty()) return pool_.take_parked();
    LoopFiber* parked = parked_.back();
    parked_.pop_back();
    return parked;
  }

  [[gnu::noinline, gnu::cold]] void release_last_parked() {
    parked_.back()->releases = pool_.releases();
    parked_.back()->release_unused_stack();
  }

  LoopFiber& turn_to(LoopFiber& to) {
    RUBATO_DCHECK(&to != running_);
    RUBATO_DCHECK(std::find(parked_.begin(), parked_.end(), &to) == parked_.end());
    LoopFiber& from = *std::exchange(running_, &to);
    switch_tls(&from, &to);
    return from;
  }

  // Null = the worker's own thread. From here on, look-ups by thread find the data of `to`.
  void switch_tls(LoopFiber* from, const LoopFiber* to) {
    if (switches_tls()) change_tls_block(from, to);
  }
  void turn_to_thread();
  void change_tls_block(LoopFiber* from, const LoopFiber* to);

  // Called after switch_tls(from, to).
  void switch_fibers(Fiber& from, Fiber& to) {
    switches_tls() ? fiber_switch_as_another(from, to) : fiber_switch(from, to);
  }

  FiberPool& pool_;
  const FiberEntry entry_;
  void* const runtime_;
  CurrentWorker& current_;
  SliceClock& clock_;
  const PreemptMechanism mechanism_;
  const bool asynchronous_;

  Fiber thread_fiber_{};
  LoopFiber* running_ = nullptr;
  std::vector<LoopFiber*> parked_;  // suspended inside recv()
  const std::function<void()>* call_ = nullptr;  // what call_on_thread() was given
  bool pauses_ = false;                          // pause() was called
  LoopFiber* shelve_ = nullptr;     // the fiber just left, to be parked for every worker
  Left left_;                       // the request on the fiber just left
  uintptr_t own_thread_pointer_ = 0;
  sigset_t blocked_signals_{};  // the thread's own, and those of a fiber that is new
  stack_t signal_stack_{};      // the thread's own, and that of a fiber that has set none
  std::unique_ptr<CredentialsOfThread> credentials_;  // where TLS blocks are switched
  std::unique_ptr<TlsBlock> tls_;  // for the fibers that have none; null = the thread's own
};

}  // namespace rubato
