// SPDX-License-Identifier: Apache-2.0
#include "runtime/fiber_local.h"

#include <atomic>
#include <utility>

#include "mechanism/preempt/preempt_disable.h"
#include "runtime/current_worker.h"
#include "runtime/fiber_scheduler.h"

namespace rubato {
namespace {

std::atomic<uint32_t> g_keys{0};

[[gnu::noinline]] FiberLocals& of_thread() {
  asm volatile("");
  thread_local FiberLocals locals;
  return locals;
}

// Null = the caller is no request. Called in a non-preemptible region.
CurrentWorker* worker_of_request() {
  CurrentWorker* worker = current_worker();
  return worker != nullptr && worker->current() != nullptr ? worker : nullptr;
}

}  // namespace

void FiberLocals::set(uint32_t key, void* value, Destroy destroy) {
  if (key >= slots_.size()) slots_.resize(key + 1);
  slots_[key] = {value, destroy};
}

void FiberLocals::clear() {
  while (!slots_.empty()) {
    const Slot last = slots_.back();
    slots_.pop_back();
    if (last.value != nullptr) last.destroy(last.value);
  }
}

uint32_t new_fiber_local_key() { return g_keys.fetch_add(1, std::memory_order_relaxed); }

void* fiber_local(uint32_t key) {
  const PreemptDisableGuard no_preemption;
  CurrentWorker* worker = worker_of_request();
  return worker != nullptr ? worker->fibers().running().locals.get(key) : of_thread().get(key);
}

void set_fiber_local(uint32_t key, void* value, FiberLocals::Destroy destroy) {
  const PreemptDisableGuard no_preemption;
  CurrentWorker* worker = worker_of_request();
  if (worker == nullptr) return of_thread().set(key, value, destroy);
  worker->fibers().running().locals.set(key, value, destroy);
  worker->current()->has_locals = true;
}

// The destructors are the application's: they run as part of the request. The request's table stays
// where it is meanwhile, on whichever worker the request runs.
void clear_fiber_locals(Request& request) {
  FiberLocals* mine = nullptr;
  {
    const PreemptDisableGuard no_preemption;
    mine = &current_worker()->fibers().running().locals;
  }
  mine->clear();
  request.has_locals = false;
}

}  // namespace rubato
