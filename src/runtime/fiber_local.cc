// SPDX-License-Identifier: Apache-2.0
#include "runtime/fiber_local.h"

#include <atomic>
#include <utility>

#include "mechanism/preempt/section.h"
#include "runtime/seat.h"

namespace rubato {
namespace {

std::atomic<uint32_t> g_keys{0};

[[gnu::noinline]] FiberLocals& of_thread() {
  asm volatile("");
  thread_local FiberLocals locals;
  return locals;
}

// Null = no request calls. Called in a section.
FiberLocals* of_request() {
  Seat* seat = this_seat();
  return seat != nullptr && seat->current() != nullptr ? &seat->locals() : nullptr;
}

FiberLocals& table() {
  FiberLocals* mine = of_request();
  return mine != nullptr ? *mine : of_thread();
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
  const Section stay;
  return table().get(key);
}

void set_fiber_local(uint32_t key, void* value, FiberLocals::Destroy destroy) {
  const Section stay;
  table().set(key, value, destroy);
}

// The destructors are the application's: they run as part of the request. Its table stays where it
// is while it does, on whichever worker.
void clear_fiber_locals() {
  FiberLocals* mine = nullptr;
  {
    const Section stay;
    mine = of_request();
  }
  if (mine != nullptr && !mine->empty()) mine->clear();
}

}  // namespace rubato
