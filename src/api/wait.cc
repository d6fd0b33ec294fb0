// SPDX-License-Identifier: Apache-2.0
//
// The functions of <rubato/wait.h>, which documents them.
#include <rubato/wait.h>

#include <new>
#include <type_traits>

#include "base/limits.h"
#include "mechanism/clock/clock.h"
#include "runtime/waiting.h"

using rubato::Instant;
using rubato::Nanos;
using rubato::WaitLimit;
using rubato::Wake;

namespace waiting = rubato::waiting;

namespace {

static_assert(RUBATO_OFFLOAD_THREADS == rubato::limits::kOffloadThreads);

WaitLimit within(int64_t limit_ns) {
  const Instant at = rubato::now();
  const bool never = limit_ns >= (Instant::never() - at).count();
  return {never ? Instant::never() : at + Nanos(limit_ns > 0 ? limit_ns : 0)};
}

int to_c(Wake why) {
  switch (why) {
    case Wake::kWoken: return RUBATO_WAIT_OK;
    case Wake::kTimeout: return RUBATO_WAIT_TIMEOUT;
    case Wake::kCancelled: return RUBATO_WAIT_CANCELLED;
    case Wake::kClosed: return RUBATO_WAIT_CLOSED;
    case Wake::kNone:
    case Wake::kRefused: break;
  }
  return RUBATO_WAIT_REFUSED;
}

// Of the objects all zero bits are a value, which C makes without a call.
template <class Object, class C>
Object& object(C* c) {
  static_assert(sizeof(Object) <= sizeof(C) && alignof(Object) <= alignof(C));
  static_assert(std::is_trivially_destructible_v<Object>);
  return *std::launder(reinterpret_cast<Object*>(c));
}
waiting::Mutex& of(rubato_mutex* mutex) { return object<waiting::Mutex>(mutex); }
waiting::Condition& of(rubato_condition* condition) {
  return object<waiting::Condition>(condition);
}
waiting::Semaphore& of(rubato_semaphore* semaphore) {
  return object<waiting::Semaphore>(semaphore);
}

}  // namespace

int rubato_sleep(int64_t time_ns) {
  const Wake why = waiting::sleep(within(time_ns));
  return why == Wake::kTimeout ? RUBATO_WAIT_OK : to_c(why);
}

void rubato_yield(void) { rubato::Waiter::yield(); }

int rubato_wait_fd(int fd, short events, int64_t limit_ns, short* came, int* error) {
  uint32_t seen = 0;
  int failed = 0;
  const auto wanted = static_cast<uint16_t>(events);
  const Wake why = waiting::wait_fd(fd, wanted, within(limit_ns), seen, failed);
  if (came != nullptr) *came = static_cast<short>(seen);
  if (error != nullptr) *error = why == Wake::kRefused ? failed : 0;
  return to_c(why);
}

int rubato_offload(void (*run)(void* user), void* user) {
  return waiting::offload(run, user) ? RUBATO_WAIT_OK : RUBATO_WAIT_REFUSED;
}

int rubato_mutex_lock(rubato_mutex* mutex, int64_t limit_ns) {
  return to_c(of(mutex).lock(within(limit_ns)));
}
void rubato_mutex_lock_always(rubato_mutex* mutex) {
  static_cast<void>(of(mutex).lock({.firm = true}));
}
int rubato_mutex_try_lock(rubato_mutex* mutex) { return of(mutex).try_lock() ? 1 : 0; }
void rubato_mutex_unlock(rubato_mutex* mutex) { of(mutex).unlock(); }

int rubato_condition_wait(rubato_condition* condition, rubato_mutex* mutex, int64_t limit_ns) {
  return to_c(of(condition).wait(of(mutex), within(limit_ns)));
}
void rubato_condition_notify_one(rubato_condition* condition) { of(condition).notify(false); }
void rubato_condition_notify_all(rubato_condition* condition) { of(condition).notify(true); }

int rubato_semaphore_acquire(rubato_semaphore* semaphore, int64_t limit_ns) {
  return to_c(of(semaphore).acquire(within(limit_ns)));
}
int rubato_semaphore_try_acquire(rubato_semaphore* semaphore) {
  return of(semaphore).try_acquire() ? 1 : 0;
}
void rubato_semaphore_release(rubato_semaphore* semaphore, uint64_t permits) {
  of(semaphore).release(permits);
}
void rubato_semaphore_close(rubato_semaphore* semaphore) { of(semaphore).close(); }
