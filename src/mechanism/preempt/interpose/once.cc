// SPDX-License-Identifier: Apache-2.0
//
// One-time initialisation: pthread_once (and the call_once of C++ and C11), and that of a
// function's static variable. A fiber that finds it in progress would wait in the kernel, for a
// fiber that may need this very worker. So the initialisation is a non-preemptible region, and
// waiting fibers yield.
#include <pthread.h>
#include <threads.h>

#include <cstdint>

#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/next.h"

// The guard of a static variable, 64 bits (Itanium C++ ABI, 3.3.2).
extern "C" {
int __cxa_guard_acquire(uint64_t* guard);
void __cxa_guard_release(uint64_t* guard) noexcept;
void __cxa_guard_abort(uint64_t* guard) noexcept;
}

namespace {

using rubato::interpose::Guard;
using rubato::interpose::Patience;
using rubato::interpose::enter;
using rubato::interpose::leave;
using rubato::interpose::may_yield;
using rubato::interpose::on_plain_thread;

RUBATO_NEXT(pthread_once);
RUBATO_NEXT(__cxa_guard_acquire);
RUBATO_NEXT(__cxa_guard_release);
RUBATO_NEXT(__cxa_guard_abort);

// The word of libc's pthread_once: 0 = not started, bit 0 = in progress (with a count of forks
// above), bit 1 = done.
constexpr int kOnceDone = 2;

// The ABI fixes the first byte: not zero = done. The second is libstdc++'s mark of an
// initialisation in progress. In a C++ runtime without that mark, acquire waits in its own way: on
// a mutex and a condition variable, which are interposed.
constexpr uint32_t kGuardDone = 0xff;
constexpr uint32_t kGuardBusy = 0x100;

[[gnu::always_inline]] inline uint32_t state_of(const uint64_t* guard) {
  return __atomic_load_n(reinterpret_cast<const uint32_t*>(guard), __ATOMIC_ACQUIRE);
}

[[gnu::always_inline]] inline int initialise(pthread_once_t* once, void (*init)(),
                                             const void* caller) {
  if (on_plain_thread()) return next_pthread_once.get()(once, init);
  if (!may_yield()) {
    const Guard guard(caller);
    return next_pthread_once.get()(once, init);
  }
  for (Patience patience;;) {
    const int state = __atomic_load_n(once, __ATOMIC_ACQUIRE);
    if ((state & kOnceDone) != 0) return 0;
    if (state == 0) {
      const Guard guard(caller);
      return next_pthread_once.get()(once, init);
    }
    patience.wait({});
  }
}

}  // namespace

RUBATO_INTERPOSED int pthread_once(pthread_once_t* once, void (*init)()) {
  return initialise(once, init, RUBATO_CALLER);
}

RUBATO_INTERPOSED void call_once(once_flag* flag, void (*init)()) {
  static_assert(sizeof(once_flag) == sizeof(pthread_once_t));
  static_cast<void>(initialise(reinterpret_cast<pthread_once_t*>(flag), init, RUBATO_CALLER));
}

RUBATO_INTERPOSED int __cxa_guard_acquire(uint64_t* guard) {
  if (on_plain_thread()) return next___cxa_guard_acquire.get()(guard);
  for (Patience patience; may_yield();) {
    const uint32_t state = state_of(guard);
    if ((state & kGuardDone) != 0) return 0;
    if ((state & kGuardBusy) == 0) break;
    patience.wait({});
  }
  enter();
  const int mine = next___cxa_guard_acquire.get()(guard);
  if (mine == 0) leave(RUBATO_CALLER);
  return mine;
}

RUBATO_INTERPOSED void __cxa_guard_release(uint64_t* guard) noexcept {
  next___cxa_guard_release.get()(guard);
  if (!on_plain_thread()) leave(RUBATO_CALLER);
}

RUBATO_INTERPOSED void __cxa_guard_abort(uint64_t* guard) noexcept {
  next___cxa_guard_abort.get()(guard);
  if (!on_plain_thread()) leave(RUBATO_CALLER);
}
