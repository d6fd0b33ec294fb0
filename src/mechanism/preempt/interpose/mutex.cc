// SPDX-License-Identifier: Apache-2.0
//
// Mutexes, of POSIX and of C11. Their types (recursive, error-checking, robust, ...) are left to
// libc, which is asked by trylock; its decisions from the id of the thread are right because a
// fiber that yields has a TLS block of its own. The kernel's decisions are not: it hands over a
// priority-inheriting mutex with waiters only if the thread that it knows as the owner releases it.
// Among fibers these mutexes work, as fibers never wait for them in the kernel; where a plain
// thread waits, the process reports it and aborts, because that thread would wait for ever.
#include <linux/futex.h>
#include <pthread.h>
#include <threads.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "mechanism/preempt/interpose/c11.h"
#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/next.h"

namespace {

using rubato::interpose::LockKind;
using rubato::interpose::take;

RUBATO_NEXT(pthread_mutex_lock);
RUBATO_NEXT(pthread_mutex_trylock);
RUBATO_NEXT(pthread_mutex_timedlock);
RUBATO_NEXT(pthread_mutex_clocklock);
RUBATO_NEXT(pthread_mutex_unlock);

// Bits of __kind, which pthread_mutexattr_* set and the static initialisers spell out, so that they
// are part of libc's binary interface.
constexpr int kTypeMask = 3;
constexpr int kPriorityInherit = 32;
constexpr int kPriorityProtect = 64;

int attempt(void* mutex) {
  return next_pthread_mutex_trylock.get()(static_cast<pthread_mutex_t*>(mutex));
}

int wait(void* mutex, const timespec* until) {
  return next_pthread_mutex_clocklock.get()(static_cast<pthread_mutex_t*>(mutex), CLOCK_MONOTONIC,
                                            until);
}

[[gnu::always_inline]] inline LockKind kind_of(const pthread_mutex_t* mutex) {
  const int kind = mutex->__data.__kind;
  LockKind result{attempt, wait};
  if ((kind & kTypeMask) == PTHREAD_MUTEX_ERRORCHECK) result.when_held_by_caller = EDEADLK;
  // The kernel would lend the priority of a thread that is not the one to wait.
  if ((kind & (kPriorityInherit | kPriorityProtect)) != 0) result.wait = nullptr;
  return result;
}

[[noreturn]] void cannot_hand_over() {
  constexpr std::string_view kWhy =
      "rubato: a thread waits for a priority-inheriting mutex of a request, which the kernel does "
      "not hand over\n";
  static_cast<void>(!write(STDERR_FILENO, kWhy.data(), kWhy.size()));
  abort();
}

RUBATO_NEVER_LEFT int release_on_fiber(pthread_mutex_t* mutex, const void* caller) {
  const bool inherits = (mutex->__data.__kind & kPriorityInherit) != 0;
  const bool last = mutex->__data.__count <= 1;  // of a recursive one
  const int owner = mutex->__data.__lock & FUTEX_TID_MASK;
  const int rc = next_pthread_mutex_unlock.get()(mutex);
  if (rc != 0) return rc;
  // libc ignores the result of the kernel.
  if (inherits && last && (mutex->__data.__lock & FUTEX_TID_MASK) == owner) cannot_hand_over();
  rubato::interpose::give(mutex, caller);
  return 0;
}

[[gnu::always_inline]] inline int lock(pthread_mutex_t* mutex, const void* caller) {
  if (rubato::interpose::on_plain_thread()) return next_pthread_mutex_lock.get()(mutex);
  return take(kind_of(mutex), mutex, {}, caller,
              [=] { return next_pthread_mutex_lock.get()(mutex); });
}

[[gnu::always_inline]] inline int try_lock(pthread_mutex_t* mutex, const void* caller) {
  if (rubato::interpose::on_plain_thread()) return next_pthread_mutex_trylock.get()(mutex);
  return rubato::interpose::try_take(kind_of(mutex), mutex, caller);
}

[[gnu::always_inline]] inline int lock_until(pthread_mutex_t* mutex, const timespec* at,
                                             const void* caller) {
  if (rubato::interpose::on_plain_thread()) return next_pthread_mutex_timedlock.get()(mutex, at);
  return take(kind_of(mutex), mutex, {at, CLOCK_REALTIME}, caller,
              [=] { return next_pthread_mutex_timedlock.get()(mutex, at); });
}

// A plain thread may release what a fiber has taken, as semaphores made of mutexes do. Only the
// owner changes the owner of a mutex that is taken, so the plain read suffices.
[[gnu::always_inline]] inline int unlock(pthread_mutex_t* mutex, const void* caller) {
  using namespace rubato::interpose;
  if (!on_plain_thread()) return release_on_fiber(mutex, caller);
  if (__builtin_expect(!attached(), 1)) return next_pthread_mutex_unlock.get()(mutex);
  const bool foreign = mutex->__data.__owner != thread_id();
  const int rc = next_pthread_mutex_unlock.get()(mutex);
  if (foreign && rc == 0) note_foreign_release(mutex);
  return rc;
}

}  // namespace

using rubato::interpose::of_c11;

RUBATO_INTERPOSED int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  return lock(mutex, RUBATO_CALLER);
}

RUBATO_INTERPOSED int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  return try_lock(mutex, RUBATO_CALLER);
}

RUBATO_INTERPOSED int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* at) noexcept {
  return lock_until(mutex, at, RUBATO_CALLER);
}

RUBATO_INTERPOSED int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                              const timespec* at) noexcept {
  if (rubato::interpose::on_plain_thread()) {
    return next_pthread_mutex_clocklock.get()(mutex, clock, at);
  }
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return EINVAL;
  return take(kind_of(mutex), mutex, {at, clock}, RUBATO_CALLER,
              [=] { return next_pthread_mutex_clocklock.get()(mutex, clock, at); });
}

RUBATO_INTERPOSED int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  return unlock(mutex, RUBATO_CALLER);
}

RUBATO_INTERPOSED int mtx_lock(mtx_t* mutex) {
  return of_c11(lock(of_c11(mutex), RUBATO_CALLER));
}

RUBATO_INTERPOSED int mtx_trylock(mtx_t* mutex) {
  return of_c11(try_lock(of_c11(mutex), RUBATO_CALLER));
}

RUBATO_INTERPOSED int mtx_timedlock(mtx_t* mutex, const timespec* at) {
  return of_c11(lock_until(of_c11(mutex), at, RUBATO_CALLER));
}

RUBATO_INTERPOSED int mtx_unlock(mtx_t* mutex) {
  return of_c11(unlock(of_c11(mutex), RUBATO_CALLER));
}
