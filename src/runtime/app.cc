// SPDX-License-Identifier: Apache-2.0
#include "runtime/app.h"

#include <pthread.h>

#include <ctime>

#include "base/check.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/this_worker.h"
#include "mechanism/fiber/overflow.h"
#include "mechanism/preempt/preempt_disable.h"
#include "runtime/current_worker.h"
#include "runtime/fiber_scheduler.h"

namespace rubato {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local constinit CurrentWorker* t_current_worker = nullptr;

bool checkpoint_taken() {
  if (CurrentWorker* worker = leave_application()) return worker->checkpoint_slow(false);
  checkpoint_budget_set(kCheckpointNever);
  return false;
}

// Called when a preemption was put off until now.
void region_left() {
  if (CurrentWorker* worker = leave_application()) static_cast<void>(worker->checkpoint_slow(true));
}

bool is_in_application() {
  const PreemptDisableGuard no_preemption;
  const CurrentWorker* worker = current_worker();
  return worker != nullptr && worker->in_application();
}

bool yield_to_others() {
  CurrentWorker* worker = leave_application();
  return worker != nullptr && worker->yield_for_lock(false);
}

// In the child of a fork.
void forked() {
  if (CurrentWorker* worker = current_worker()) worker->fibers().forked();
}

// In the handler of a fault.
bool running_request(RunningWork& work) {
  const CurrentWorker* worker = current_worker();
  const Request* request = worker != nullptr ? worker->current() : nullptr;
  if (request == nullptr) return false;
  work = {worker->application().name_of_type(request->type), request->type, request->flow};
  return true;
}

}  // namespace

CurrentWorker* leave_application() {
  const PreemptDisableGuard no_preemption;
  CurrentWorker* worker = current_worker();
  return worker != nullptr && worker->leave_application() ? worker : nullptr;
}

[[gnu::noinline]] CurrentWorker* current_worker() {
  asm volatile("");
  return t_current_worker;
}

[[gnu::noinline]] void set_current_worker(CurrentWorker* worker) {
  asm volatile("");
  t_current_worker = worker;
  worker != nullptr ? set_this_worker(worker->worker().value) : set_no_worker();
}

void install_worker_hooks() {
  checkpoint_set_handler(&checkpoint_taken);
  set_pending_preemption_handler(&region_left);
  report_stack_overflows(&running_request);
  set_yield_for_lock(&yield_to_others, &is_in_application);
  static const int registered = pthread_atfork(nullptr, nullptr, &forked);
  RUBATO_CHECK(registered == 0);
}

void handle_on_thread(Application& application, Request& request) {
  preempt_disable();
  CurrentWorker* worker = current_worker();
  worker->leave_application();
  preempt_enable_no_resched();
  worker->fibers().call_on_thread([&] { application.handle(request); });
}

void long_begin(uint8_t priority) {
  if (CurrentWorker* worker = leave_application()) worker->long_begin(priority);
}

void long_end() {
  if (CurrentWorker* worker = leave_application()) worker->long_end();
}

// A request that gives its worker away may get it back before a waiting one has had it, once. The
// checkpoint looks at the clock each time, since there are too few here to wait for its count.
bool wait_for(const std::atomic<bool>& done) {
  constexpr Nanos kShortestTurn = Nanos::micros(2);
  constexpr uint32_t kVainTurns = 2;
  uint32_t vain = 0;
  while (!done.load(std::memory_order_acquire)) {
    checkpoint_budget_set(0);
    if (checkpoint()) return false;
    const Instant left = now();
    const bool others_ran = yield_for_lock() && now() - left >= kShortestTurn;
    vain = others_ran ? 0 : vain + 1;
    if (vain < kVainTurns) continue;
    const timespec pause{0, kWaitPause.count()};
    ::nanosleep(&pause, nullptr);
  }
  return true;
}

Request* current_request() {
  const PreemptDisableGuard no_preemption;
  CurrentWorker* worker = current_worker();
  return worker == nullptr ? nullptr : worker->current();
}

// (On the worker's own thread nothing is preempted anyway.)
void disable_preemption() {
  const PreemptDisableGuard no_preemption;
  CurrentWorker* worker = current_worker();
  if (worker != nullptr && worker->in_application()) worker->disable_preemption();
}

void enable_preemption() {
  preempt_disable();
  CurrentWorker* worker = current_worker();
  const bool open = worker != nullptr && worker->enable_preemption();
  if (open) preempt_enable_no_resched();
  preempt_enable();
}

}  // namespace rubato
