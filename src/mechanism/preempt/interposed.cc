// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/interposed.h"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>

#include "mechanism/preempt/code_map.h"
#include "mechanism/preempt/credentials.h"
#include "mechanism/preempt/interpose/hooks.h"
#include "mechanism/preempt/never_left.h"
#include "mechanism/preempt/preempt_disable.h"
#include "mechanism/preempt/signal.h"

#pragma weak rubato_interpose_attach
#pragma weak rubato_interpose_thread
#pragma weak rubato_interpose_locks_held
#pragma weak rubato_interpose_signal_stack_set

namespace rubato {
namespace {

// Not inlined: after a switch the fiber may be on another thread.
[[gnu::noinline]] int get_errno() {
  asm volatile("");
  return errno;
}

[[gnu::noinline]] void set_errno(int value) {
  asm volatile("");
  errno = value;
}

[[gnu::noinline]] void honour_pending() {
  const int error = get_errno();
  rubato_preempt_schedule();
  set_errno(error);
}

RUBATO_NEVER_LEFT void enter_region() { preempt_disable(); }

// The region is opened again for the look-up, because the code that answers may be left.
RUBATO_NEVER_LEFT void leave_region(const void* caller) {
  if (!preempt_count_dec_and_test()) return;
  preempt_disable();
  const bool stays = is_async_signal_unsafe(reinterpret_cast<uintptr_t>(caller));
  preempt_enable_no_resched();
  if (!stays) honour_pending();
}

constexpr RubatoInterposeHooks kHooks{enter_region,       leave_region,     yield_for_lock,
                                      may_yield_for_lock, code_map_refresh, call_as_thread,
                                      interrupts_taken};
std::atomic<bool> g_attached{false};

// True if a library's call of `name` reaches the object that holds `ours`.
bool is_in_front(const char* name, const void* ours) {
  Dl_info first{};
  Dl_info wanted{};
  const void* found = dlsym(RTLD_DEFAULT, name);
  return found != nullptr && dladdr(found, &first) != 0 && dladdr(ours, &wanted) != 0 &&
         first.dli_fbase == wanted.dli_fbase;
}

}  // namespace

Status interposers_attach() {
  if (rubato_interpose_attach == nullptr) {
    return Error{"locks and the allocator are libc's own: link with -Wl,--no-as-needed "
                 "-lrubato-interpose, or set LD_PRELOAD to librubato-interpose.so"};
  }
  const auto* ours = reinterpret_cast<const void*>(rubato_interpose_attach);
  for (const char* name : {"pthread_mutex_lock", "malloc"}) {
    if (!is_in_front(name, ours)) {
      return Error{std::string("another object than rubato-interpose is asked first for ") + name +
                   ": link rubato-interpose before that, or set LD_PRELOAD to "
                   "librubato-interpose.so"};
    }
  }
  rubato_interpose_attach(&kHooks);
  g_attached.store(true, std::memory_order_release);
  return Done{};
}

bool interposers_attached() { return g_attached.load(std::memory_order_acquire); }

uint32_t interposed_locks_held() {
  return interposers_attached() ? rubato_interpose_locks_held() : 0;
}

bool interposed_signal_stack_set() {
  return interposers_attached() && rubato_interpose_signal_stack_set();
}

void interposers_mark_thread(ThreadKind kind) {
  if (!interposers_attached()) return;
  switch (kind) {
    case ThreadKind::kPlain: return rubato_interpose_thread(RUBATO_INTERPOSE_PLAIN);
    case ThreadKind::kSharesTls: return rubato_interpose_thread(RUBATO_INTERPOSE_SHARED);
    case ThreadKind::kOwnsTls: return rubato_interpose_thread(RUBATO_INTERPOSE_OWN_TLS);
    case ThreadKind::kBorrowsTls:
      return rubato_interpose_thread(RUBATO_INTERPOSE_LENT_TLS);
  }
}

}  // namespace rubato
