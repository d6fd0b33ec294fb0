// SPDX-License-Identifier: Apache-2.0
//
// Spin locks, semaphores, sched_yield. A semaphore has no holder, so it opens no region.
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <threads.h>

#include <cerrno>

#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/next.h"

namespace {

using rubato::interpose::Deadline;
using rubato::interpose::LockKind;
using rubato::interpose::Patience;

RUBATO_NEXT(pthread_spin_lock);
RUBATO_NEXT(pthread_spin_trylock);
RUBATO_NEXT(pthread_spin_unlock);
RUBATO_NEXT(sched_yield);
RUBATO_NEXT(sem_wait);
RUBATO_NEXT(sem_timedwait);
RUBATO_NEXT(sem_clockwait);

// Set while the fiber lets others run, which may call sched_yield itself.
thread_local constinit bool t_yielding __attribute__((tls_model("initial-exec"))) = false;

pthread_spinlock_t* of(void* lock) { return static_cast<pthread_spinlock_t*>(lock); }
void* address(pthread_spinlock_t* lock) { return const_cast<int*>(lock); }

int attempt(void* lock) { return next_pthread_spin_trylock.get()(of(lock)); }

constexpr LockKind kSpin{attempt, nullptr};

int try_wait(sem_t* semaphore) { return sem_trywait(semaphore) == 0 ? 0 : errno; }

int fail(int error) {
  errno = error;
  return -1;
}

int wait(sem_t* semaphore, const Deadline& deadline) {
  for (Patience patience;;) {
    const int rc = try_wait(semaphore);
    if (rc == 0) return 0;
    if (rc != EAGAIN) return fail(rc);
    if (!deadline.valid()) return fail(EINVAL);
    if (deadline.passed()) return fail(ETIMEDOUT);
    patience.wait(deadline);
  }
}

}  // namespace

using rubato::interpose::may_yield;
using rubato::interpose::on_plain_thread;

RUBATO_INTERPOSED int pthread_spin_lock(pthread_spinlock_t* lock) noexcept {
  if (on_plain_thread()) return next_pthread_spin_lock.get()(lock);
  return rubato::interpose::take(kSpin, address(lock), {}, RUBATO_CALLER,
                                 [=] { return next_pthread_spin_lock.get()(lock); });
}

RUBATO_INTERPOSED int pthread_spin_trylock(pthread_spinlock_t* lock) noexcept {
  if (on_plain_thread()) return next_pthread_spin_trylock.get()(lock);
  return rubato::interpose::try_take(kSpin, address(lock), RUBATO_CALLER);
}

RUBATO_INTERPOSED int pthread_spin_unlock(pthread_spinlock_t* lock) noexcept {
  const int rc = next_pthread_spin_unlock.get()(lock);
  if (!on_plain_thread() && rc == 0) rubato::interpose::give(address(lock), RUBATO_CALLER);
  return rc;
}

// A fiber that spins for a lock not of libc (RocksDB's, our store's) comes here now and then. The
// lock's holder may be a fiber that needs this very worker, and an interrupt always finds the
// spinner in the system call, where it is not left.
RUBATO_INTERPOSED int sched_yield() noexcept {
  if (may_yield() && !t_yielding) {
    t_yielding = true;
    static_cast<void>(Patience().let_others_run());
    t_yielding = false;
  }
  return next_sched_yield.get()();
}

RUBATO_INTERPOSED void thrd_yield() { sched_yield(); }

RUBATO_INTERPOSED int sem_wait(sem_t* semaphore) {
  if (!may_yield()) return next_sem_wait.get()(semaphore);
  return wait(semaphore, {});
}

RUBATO_INTERPOSED int sem_timedwait(sem_t* semaphore, const timespec* at) {
  if (!may_yield()) return next_sem_timedwait.get()(semaphore, at);
  return wait(semaphore, {at, CLOCK_REALTIME});
}

RUBATO_INTERPOSED int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* at) {
  if (!may_yield()) return next_sem_clockwait.get()(semaphore, clock, at);
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return fail(EINVAL);
  return wait(semaphore, {at, clock});
}
