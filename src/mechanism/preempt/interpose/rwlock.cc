// SPDX-License-Identifier: Apache-2.0
//
// Read-write locks. A fiber that waits is not in libc's list of waiters except during its bounded
// waits, so among fibers alone a preference for writers holds only then.
#include <pthread.h>

#include <cerrno>

#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/next.h"

namespace {

using rubato::interpose::LockKind;

RUBATO_NEXT(pthread_rwlock_rdlock);
RUBATO_NEXT(pthread_rwlock_wrlock);
RUBATO_NEXT(pthread_rwlock_tryrdlock);
RUBATO_NEXT(pthread_rwlock_trywrlock);
RUBATO_NEXT(pthread_rwlock_timedrdlock);
RUBATO_NEXT(pthread_rwlock_timedwrlock);
RUBATO_NEXT(pthread_rwlock_clockrdlock);
RUBATO_NEXT(pthread_rwlock_clockwrlock);
RUBATO_NEXT(pthread_rwlock_unlock);

pthread_rwlock_t* of(void* lock) { return static_cast<pthread_rwlock_t*>(lock); }

int attempt_read(void* lock) { return next_pthread_rwlock_tryrdlock.get()(of(lock)); }
int attempt_write(void* lock) { return next_pthread_rwlock_trywrlock.get()(of(lock)); }
int wait_read(void* lock, const timespec* until) {
  return next_pthread_rwlock_clockrdlock.get()(of(lock), CLOCK_MONOTONIC, until);
}
int wait_write(void* lock, const timespec* until) {
  return next_pthread_rwlock_clockwrlock.get()(of(lock), CLOCK_MONOTONIC, until);
}

// libc returns EDEADLK to a writer that asks for its lock again. It does not notice a reader that
// asks to write.
[[gnu::always_inline]] inline LockKind reading(const pthread_rwlock_t* lock) {
  return {attempt_read, wait_read, lock->__data.__cur_writer != 0 ? EDEADLK : 0};
}
[[gnu::always_inline]] inline LockKind writing(const pthread_rwlock_t* lock) {
  return {attempt_write, wait_write, lock->__data.__cur_writer != 0 ? EDEADLK : 0};
}

[[gnu::always_inline]] inline bool known(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

}  // namespace

using rubato::interpose::on_plain_thread;
using rubato::interpose::take;
using rubato::interpose::try_take;

RUBATO_INTERPOSED int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  if (on_plain_thread()) return next_pthread_rwlock_rdlock.get()(lock);
  return take(reading(lock), lock, {}, RUBATO_CALLER,
              [=] { return next_pthread_rwlock_rdlock.get()(lock); });
}

RUBATO_INTERPOSED int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  if (on_plain_thread()) return next_pthread_rwlock_wrlock.get()(lock);
  return take(writing(lock), lock, {}, RUBATO_CALLER,
              [=] { return next_pthread_rwlock_wrlock.get()(lock); });
}

RUBATO_INTERPOSED int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) noexcept {
  if (on_plain_thread()) return next_pthread_rwlock_tryrdlock.get()(lock);
  return try_take(reading(lock), lock, RUBATO_CALLER);
}

RUBATO_INTERPOSED int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) noexcept {
  if (on_plain_thread()) return next_pthread_rwlock_trywrlock.get()(lock);
  return try_take(writing(lock), lock, RUBATO_CALLER);
}

RUBATO_INTERPOSED int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock,
                                                 const timespec* at) noexcept {
  if (on_plain_thread()) return next_pthread_rwlock_timedrdlock.get()(lock, at);
  return take(reading(lock), lock, {at, CLOCK_REALTIME}, RUBATO_CALLER,
              [=] { return next_pthread_rwlock_timedrdlock.get()(lock, at); });
}

RUBATO_INTERPOSED int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock,
                                                 const timespec* at) noexcept {
  if (on_plain_thread()) return next_pthread_rwlock_timedwrlock.get()(lock, at);
  return take(writing(lock), lock, {at, CLOCK_REALTIME}, RUBATO_CALLER,
              [=] { return next_pthread_rwlock_timedwrlock.get()(lock, at); });
}

RUBATO_INTERPOSED int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock,
                                                 const timespec* at) noexcept {
  if (on_plain_thread()) return next_pthread_rwlock_clockrdlock.get()(lock, clock, at);
  if (!known(clock)) return EINVAL;
  return take(reading(lock), lock, {at, clock}, RUBATO_CALLER,
              [=] { return next_pthread_rwlock_clockrdlock.get()(lock, clock, at); });
}

RUBATO_INTERPOSED int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock,
                                                 const timespec* at) noexcept {
  if (on_plain_thread()) return next_pthread_rwlock_clockwrlock.get()(lock, clock, at);
  if (!known(clock)) return EINVAL;
  return take(writing(lock), lock, {at, clock}, RUBATO_CALLER,
              [=] { return next_pthread_rwlock_clockwrlock.get()(lock, clock, at); });
}

RUBATO_INTERPOSED int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  const int rc = next_pthread_rwlock_unlock.get()(lock);
  if (!on_plain_thread() && rc == 0) rubato::interpose::give(lock, RUBATO_CALLER);
  return rc;
}
