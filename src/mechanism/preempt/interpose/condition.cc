// SPDX-License-Identifier: Apache-2.0
//
// Condition variables, of POSIX and of C11. A fiber waits by giving its worker away until the
// sequence number of its condition variable has moved (wakeups.h). It returns without that, as
// POSIX allows, after 10 ms at the latest, which also covers signals that do not pass through here:
// from another process, or from inside libc. A fiber that may not yield waits in libc; its region
// stays open, as it holds the mutex again afterwards.
#include <linux/futex.h>
#include <pthread.h>
#include <threads.h>

#include <array>
#include <cerrno>
#include <climits>

#include "base/limits.h"
#include "mechanism/preempt/interpose/c11.h"
#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/futex.h"
#include "mechanism/preempt/interpose/next.h"
#include "mechanism/preempt/interpose/wakeups.h"

namespace {

using rubato::interpose::Deadline;
using rubato::interpose::Patience;
using rubato::interpose::after;
using rubato::interpose::futex;
using rubato::interpose::may_yield;

RUBATO_NEXT(pthread_cond_wait);
RUBATO_NEXT(pthread_cond_timedwait);
RUBATO_NEXT(pthread_cond_clockwait);
RUBATO_NEXT(pthread_cond_signal);
RUBATO_NEXT(pthread_cond_broadcast);

// Bits of __wrefs, where pthread_cond_init stores the attributes.
constexpr unsigned kShared = 1;
constexpr unsigned kMonotonic = 2;

constexpr int64_t kWaitMaxNs = 10'000'000;
constexpr int64_t kWaitSharedMaxNs = 1'000'000;  // with other processes

struct alignas(rubato::limits::kCacheLineBytes) Bucket : rubato::interpose::Wakeups<> {};
std::array<Bucket, 64> g_buckets;

[[gnu::always_inline]] inline Bucket& bucket_of(const pthread_cond_t* condition) {
  const auto address = reinterpret_cast<uintptr_t>(condition);
  return g_buckets[(address / alignof(pthread_cond_t) * 0x9e3779b97f4a7c15u) >> 58];
}

void sleep_until_woken(Bucket& bucket, uint32_t since, const timespec& pause) {
  const int error = errno;
  futex(bucket.sequence_word(), FUTEX_WAIT_PRIVATE, since, &pause);
  errno = error;
}

// The mutex is released. 0, or ETIMEDOUT.
int wait_for_turn(Bucket& bucket, uint32_t since, bool shared, const Deadline& deadline) {
  const timespec latest = after(shared ? kWaitSharedMaxNs : kWaitMaxNs);
  const Deadline patience_end{&latest, CLOCK_MONOTONIC};
  Patience patience;
  while (!bucket.woken(since) && !patience_end.passed()) {
    if (deadline.passed()) return ETIMEDOUT;
    if (patience.let_others_run()) continue;
    sleep_until_woken(bucket, since, patience.next_pause(deadline));
  }
  return 0;
}

// (This caller of pthread_mutex_unlock is never left, so no pending preemption is honoured there.)
RUBATO_NEVER_LEFT int wait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const Deadline& deadline) {
  if (!deadline.valid()) return EINVAL;
  Bucket& bucket = bucket_of(condition);
  const bool shared = (condition->__data.__wrefs & kShared) != 0;
  const uint32_t since = bucket.enlist();
  int rc = pthread_mutex_unlock(mutex);
  if (rc != 0) {
    bucket.dismiss();
    return rc;
  }
  rc = wait_for_turn(bucket, since, shared, deadline);
  bucket.dismiss();
  const int relocked = pthread_mutex_lock(mutex);
  return relocked != 0 ? relocked : rc;
}

RUBATO_NEVER_LEFT void notify(const pthread_cond_t* condition) {
  if (!rubato::interpose::attached()) return;
  Bucket& bucket = bucket_of(condition);
  if (!bucket.notify()) return;
  const int error = errno;
  futex(bucket.sequence_word(), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
  errno = error;
}

[[gnu::always_inline]] inline int wait_for(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (!may_yield()) return next_pthread_cond_wait.get()(condition, mutex);
  return wait(condition, mutex, {});
}

[[gnu::always_inline]] inline int wait_until(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                             const timespec* at) {
  if (!may_yield()) return next_pthread_cond_timedwait.get()(condition, mutex, at);
  const bool monotonic = (condition->__data.__wrefs & kMonotonic) != 0;
  return wait(condition, mutex, {at, monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME});
}

[[gnu::always_inline]] inline int signal_one(pthread_cond_t* condition) {
  const int rc = next_pthread_cond_signal.get()(condition);
  notify(condition);
  return rc;
}

[[gnu::always_inline]] inline int signal_all(pthread_cond_t* condition) {
  const int rc = next_pthread_cond_broadcast.get()(condition);
  notify(condition);
  return rc;
}

}  // namespace

using rubato::interpose::of_c11;

RUBATO_INTERPOSED int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return wait_for(condition, mutex);
}

RUBATO_INTERPOSED int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                             const timespec* at) {
  return wait_until(condition, mutex, at);
}

RUBATO_INTERPOSED int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                             clockid_t clock, const timespec* at) {
  if (!may_yield()) return next_pthread_cond_clockwait.get()(condition, mutex, clock, at);
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return EINVAL;
  return wait(condition, mutex, {at, clock});
}

RUBATO_INTERPOSED int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  return signal_one(condition);
}

RUBATO_INTERPOSED int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  return signal_all(condition);
}

RUBATO_INTERPOSED int cnd_wait(cnd_t* condition, mtx_t* mutex) {
  return of_c11(wait_for(of_c11(condition), of_c11(mutex)));
}

RUBATO_INTERPOSED int cnd_timedwait(cnd_t* condition, mtx_t* mutex, const timespec* at) {
  return of_c11(wait_until(of_c11(condition), of_c11(mutex), at));
}

RUBATO_INTERPOSED int cnd_signal(cnd_t* condition) {
  return of_c11(signal_one(of_c11(condition)));
}

RUBATO_INTERPOSED int cnd_broadcast(cnd_t* condition) {
  return of_c11(signal_all(of_c11(condition)));
}
