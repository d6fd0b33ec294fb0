// SPDX-License-Identifier: Apache-2.0
#include "runtime/app.h"

#include "mechanism/cpu/this_worker.h"
#include "runtime/current_worker.h"

namespace rubato {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local constinit CurrentWorker* t_current_worker = nullptr;

// Returns the context if the caller is code of a request. It does so in a non-preemptible region,
// so that the request is not moved to another context between the look and the mark.
CurrentWorker* leave_application() {
  const PreemptDisableGuard no_preemption;
  CurrentWorker* worker = current_worker();
  return worker != nullptr && worker->leave_application() ? worker : nullptr;
}

bool checkpoint_taken() {
  if (CurrentWorker* worker = leave_application()) return worker->checkpoint_slow(false);
  checkpoint_budget_set(kCheckpointNever);
  return false;
}

// Called when a preemption was put off until now.
void region_left() {
  if (CurrentWorker* worker = leave_application()) static_cast<void>(worker->checkpoint_slow(true));
}

bool yield_to_others() {
  CurrentWorker* worker = leave_application();
  return worker != nullptr && worker->yield_for_lock();
}

}  // namespace

[[gnu::noinline]] CurrentWorker* current_worker() {
  asm volatile("");
  return t_current_worker;
}

[[gnu::noinline]] void set_current_worker(CurrentWorker* worker) {
  asm volatile("");
  t_current_worker = worker;
  set_this_worker(worker != nullptr ? worker->worker().value : 0);
}

void install_worker_hooks() {
  checkpoint_set_handler(&checkpoint_taken);
  set_pending_preemption_handler(&region_left);
  set_yield_for_lock(&yield_to_others);
}

void long_begin(uint8_t priority) {
  if (CurrentWorker* worker = leave_application()) worker->long_begin(priority);
}

void long_end() {
  if (CurrentWorker* worker = leave_application()) worker->long_end();
}

Request* current_request() {
  const PreemptDisableGuard no_preemption;
  CurrentWorker* worker = current_worker();
  return worker == nullptr ? nullptr : worker->current();
}

void disable_preemption() {
  const PreemptDisableGuard no_preemption;
  if (CurrentWorker* worker = current_worker()) worker->disable_preemption();
}

void enable_preemption() {
  preempt_disable();
  CurrentWorker* worker = current_worker();
  const bool open = worker != nullptr && worker->enable_preemption();
  if (open) preempt_enable_no_resched();
  preempt_enable();
}

}  // namespace rubato
