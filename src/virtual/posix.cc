// SPDX-License-Identifier: Apache-2.0
//
// The functions of libc that threads meet in: in a world they act on its threads, outside of it
// they are libc's own. Programs and shared libraries that call them find these first.
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>

#include "virtual/real.h"
#include "virtual/scheduler.h"

namespace rubato::virt {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

Instant instant_of(const timespec& time) {
  return Instant(time.tv_sec * kNanosPerSecond + time.tv_nsec);
}
timespec timespec_of(int64_t ns) { return {ns / kNanosPerSecond, ns % kNanosPerSecond}; }

// The system calls that libc makes of these functions.
void wait(Scheduler& scheduler, const void* what) {
  scheduler.count_call();
  scheduler.wait(what);
}

void wake(Scheduler& scheduler, const void* what, uint32_t most) {
  if (scheduler.wake(what, most) > 0) scheduler.count_call();
}

constexpr uint32_t kProcessors = 512;

// A mutex's word is what glibc's is: not zero while it is locked.
void lock(Scheduler& scheduler, pthread_mutex_t* mutex) {
  scheduler.write(mutex);
  while (mutex->__data.__lock != 0) wait(scheduler, mutex);
  mutex->__data.__lock = 1;
  ++scheduler.running().locks;
}

void unlock(Scheduler& scheduler, pthread_mutex_t* mutex) {
  scheduler.write(mutex);
  if (scheduler.running().locks == 0) scheduler.fail("a thread unlocks what another one locked");
  --scheduler.running().locks;
  mutex->__data.__lock = 0;
  wake(scheduler, mutex, 1);
}

int wait_for(Scheduler& scheduler, pthread_cond_t* condition, pthread_mutex_t* mutex,
             Instant deadline) {
  unlock(scheduler, mutex);
  scheduler.count_call();
  const bool woken = scheduler.wait(condition, deadline);
  const bool late = !woken && scheduler.running().clock >= deadline;
  lock(scheduler, mutex);
  return late ? ETIMEDOUT : 0;
}

long futex(Scheduler& scheduler, uint32_t* word, int operation, uint32_t value,
           const timespec* time) {
  scheduler.call();
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
      return scheduler.wake(word, value);
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET: {
      if (*word != value) {
        errno = EAGAIN;
        return -1;
      }
      Instant deadline = Instant::never();
      if (time != nullptr) {
        const bool relative = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT;
        deadline = relative ? scheduler.running().clock + (instant_of(*time) - Instant())
                            : instant_of(*time);
      }
      if (scheduler.wait(word, deadline)) return 0;
      errno = scheduler.running().clock >= deadline ? ETIMEDOUT : EINTR;
      return -1;
    }
    default:
      errno = ENOSYS;
      return -1;
  }
}

}  // namespace
}  // namespace rubato::virt

using namespace rubato::virt;
using rubato::Instant;

extern "C" {

// ---- Threads --------------------------------------------------------------------------------

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  RUBATO_REAL(pthread_create);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(thread, attributes, start, argument);
  VirtualThread* made = scheduler->create(start, argument);
  if (made == nullptr) return EAGAIN;
  *thread = made->thread_pointer;
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  RUBATO_REAL(pthread_join);
  Scheduler* scheduler = Scheduler::here();
  VirtualThread* found = scheduler != nullptr ? scheduler->find(thread) : nullptr;
  if (found == nullptr) return real(thread, result);
  void* value = scheduler->join(*found);
  if (result != nullptr) *result = value;
  return 0;
}

int pthread_detach(pthread_t thread) {
  RUBATO_REAL(pthread_detach);
  Scheduler* scheduler = Scheduler::here();
  return scheduler != nullptr && scheduler->find(thread) != nullptr ? 0 : real(thread);
}

int sched_yield() {
  RUBATO_REAL(sched_yield);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real();
  scheduler->yield();
  return 0;
}

// ---- Locks ----------------------------------------------------------------------------------

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  RUBATO_REAL(pthread_mutex_lock);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(mutex);
  lock(*scheduler, mutex);
  return 0;
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  RUBATO_REAL(pthread_mutex_trylock);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(mutex);
  scheduler->write(mutex);
  if (mutex->__data.__lock != 0) return EBUSY;
  mutex->__data.__lock = 1;
  ++scheduler->running().locks;
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  RUBATO_REAL(pthread_mutex_unlock);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(mutex);
  unlock(*scheduler, mutex);
  return 0;
}

int pthread_rwlock_rdlock(pthread_rwlock_t* rwlock) {
  RUBATO_REAL(pthread_rwlock_rdlock);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(rwlock);
  scheduler->write(rwlock);
  while (rwlock->__data.__writers != 0) wait(*scheduler, rwlock);
  ++rwlock->__data.__readers;
  return 0;
}

int pthread_rwlock_wrlock(pthread_rwlock_t* rwlock) {
  RUBATO_REAL(pthread_rwlock_wrlock);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(rwlock);
  scheduler->write(rwlock);
  while (rwlock->__data.__writers != 0 || rwlock->__data.__readers != 0) wait(*scheduler, rwlock);
  rwlock->__data.__writers = 1;
  return 0;
}

int pthread_rwlock_unlock(pthread_rwlock_t* rwlock) {
  RUBATO_REAL(pthread_rwlock_unlock);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(rwlock);
  scheduler->write(rwlock);
  if (rwlock->__data.__writers != 0) {
    rwlock->__data.__writers = 0;
  } else {
    --rwlock->__data.__readers;
  }
  wake(*scheduler, rwlock, UINT32_MAX);
  return 0;
}

// ---- Conditions -----------------------------------------------------------------------------

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  RUBATO_REAL(pthread_cond_wait);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(condition, mutex);
  return wait_for(*scheduler, condition, mutex, Instant::never());
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* deadline) {
  RUBATO_REAL(pthread_cond_timedwait);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(condition, mutex, deadline);
  return wait_for(*scheduler, condition, mutex, instant_of(*deadline));
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* deadline) {
  RUBATO_REAL(pthread_cond_clockwait);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(condition, mutex, clock, deadline);
  return wait_for(*scheduler, condition, mutex, instant_of(*deadline));
}

int pthread_cond_signal(pthread_cond_t* condition) {
  RUBATO_REAL(pthread_cond_signal);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(condition);
  scheduler->write(condition);
  wake(*scheduler, condition, 1);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) {
  RUBATO_REAL(pthread_cond_broadcast);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(condition);
  scheduler->write(condition);
  wake(*scheduler, condition, UINT32_MAX);
  return 0;
}

// Of all system calls by number only futex, which std::atomic::wait uses.
long syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (long& argument : a) argument = va_arg(arguments, long);
  va_end(arguments);
  Scheduler* scheduler = number == SYS_futex ? Scheduler::here() : nullptr;
  if (scheduler == nullptr) {
    using Function = long(long, ...);
    static Function* const real = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "syscall"));
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  return futex(*scheduler, reinterpret_cast<uint32_t*>(a[0]),
                             static_cast<int>(a[1]), static_cast<uint32_t>(a[2]),
                             reinterpret_cast<const timespec*>(a[3]));
}

// ---- Processors -----------------------------------------------------------------------------

// One for each thread that there may be; a thread is bound to none.
int sched_getaffinity(pid_t process, size_t bytes, cpu_set_t* cpus) {
  RUBATO_REAL(sched_getaffinity);
  if (Scheduler::here() == nullptr) return real(process, bytes, cpus);
  CPU_ZERO_S(bytes, cpus);
  for (uint32_t cpu = 0; cpu < kProcessors; ++cpu) CPU_SET_S(cpu, bytes, cpus);
  return 0;
}

int sched_setaffinity(pid_t process, size_t bytes, const cpu_set_t* cpus) {
  RUBATO_REAL(sched_setaffinity);
  return Scheduler::here() == nullptr ? real(process, bytes, cpus) : 0;
}

// ---- Time -----------------------------------------------------------------------------------

// One line of time for all clocks but those of CPU time.
int clock_gettime(clockid_t clock, timespec* time) {
  RUBATO_REAL(clock_gettime);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(clock, time);
  const Instant now = scheduler->read_clock();
  *time = timespec_of(clock == CLOCK_THREAD_CPUTIME_ID
                                        ? scheduler->running().cpu_time().count()
                                        : now.ns());
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  RUBATO_REAL(clock_nanosleep);
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return real(clock, flags, time, left);
  const Instant given = instant_of(*time);
  scheduler->sleep_until((flags & TIMER_ABSTIME) != 0
                             ? given
                             : scheduler->running().clock + (given - Instant()));
  return 0;
}

int nanosleep(const timespec* time, timespec* left) {
  RUBATO_REAL(nanosleep);
  if (Scheduler::here() == nullptr) return real(time, left);
  return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
}

}  // extern "C"
