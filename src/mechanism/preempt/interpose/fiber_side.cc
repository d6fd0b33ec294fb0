// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/interpose/fiber_side.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "mechanism/cpu/pause.h"
#include "mechanism/preempt/interpose/held_locks.h"
#include "mechanism/preempt/interpose/next.h"

namespace rubato::interpose {

thread_local constinit uint8_t t_kind = RUBATO_INTERPOSE_PLAIN;

namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
// kVainYields yields in a row that each returned within kTurnNs mean that no other fiber has work.
constexpr int64_t kTurnNs = 5'000;
constexpr uint32_t kVainYields = 16;
constexpr int64_t kPauseMaxNs = 1'000'000;
// Locks are mostly held for a fraction of a microsecond.
constexpr int kSpins = 64;

[[gnu::tls_model("initial-exec")]] thread_local constinit HeldLocks t_held;
[[gnu::tls_model("initial-exec")]] thread_local constinit int t_thread_id = 0;

// Written once at start, and by the child of a fork, which has one thread.
std::atomic<const RubatoInterposeHooks*> g_hooks{nullptr};
ForeignReleases g_foreign;

[[gnu::always_inline]] inline const RubatoInterposeHooks& hooks() {
  return *g_hooks.load(std::memory_order_acquire);
}

[[gnu::noinline]] HeldLocks& held() {
  asm volatile("");
  return t_held;
}

[[gnu::noinline]] int get_errno() {
  asm volatile("");
  return errno;
}

[[gnu::noinline]] void set_errno(int value) {
  asm volatile("");
  errno = value;
}

int64_t nanos(const timespec& t) { return t.tv_sec * kNanosPerSecond + t.tv_nsec; }

timespec timespec_of(int64_t ns) {
  return {static_cast<time_t>(ns / kNanosPerSecond), static_cast<long>(ns % kNanosPerSecond)};
}

int64_t now_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return nanos(t);
}

// The child of a fork has no workers, so there is no runtime to attach to.
void forget_runtime() {
  g_hooks.store(nullptr, std::memory_order_release);
  t_kind = RUBATO_INTERPOSE_PLAIN;
  t_thread_id = 0;
}

// Called in a non-preemptible region, so that the fiber is not left while it holds the list of
// foreign releases.
void close_stale_sections(const void* caller) {
  for (uint32_t stale = held().reconcile(g_foreign); stale > 0; --stale) leave(caller);
}

int spin(const LockKind& kind, void* lock) {
  int rc = EBUSY;
  for (int i = 0; i < kSpins && rc == EBUSY; ++i) {
    cpu_pause();
    rc = kind.attempt(lock);
  }
  return rc;
}

// The lock is taken. Called in a non-preemptible region and returns in one.
int contend(const LockKind& kind, void* lock, const Deadline& deadline, const void* caller) {
  if (kind.when_held_by_caller != 0 && held().holds(lock)) return kind.when_held_by_caller;
  if (!deadline.valid()) return EINVAL;
  int rc = spin(kind, lock);
  for (Patience patience; rc == EBUSY;) {
    if (deadline.passed()) return ETIMEDOUT;
    leave(caller);
    const bool others_ran = patience.let_others_run();
    enter();
    rc = kind.attempt(lock);
    if (rc != EBUSY || others_ran) continue;
    if (kind.wait == nullptr) {
      patience.wait(deadline);
      continue;
    }
    const timespec until = patience.next_pause_end(deadline);
    rc = kind.wait(lock, &until);
    if (rc == ETIMEDOUT) rc = EBUSY;
  }
  return rc;
}

}  // namespace

RUBATO_NEVER_LEFT bool attached() { return g_hooks.load(std::memory_order_relaxed) != nullptr; }

RUBATO_NEVER_LEFT bool in_request() { return hooks().is_request(); }

RUBATO_NEVER_LEFT void enter() { hooks().preempt_disable(); }

RUBATO_NEVER_LEFT void leave(const void* caller) { hooks().preempt_enable(caller); }

void code_changed() {
  if (attached()) hooks().code_changed();
}

void call_as_thread(void (*call)(void*), void* argument) { hooks().call_as_thread(call, argument); }

uint32_t interrupts() { return hooks().interrupts(); }

bool Deadline::valid() const {
  return at == nullptr || (at->tv_nsec >= 0 && at->tv_nsec < kNanosPerSecond);
}

bool Deadline::passed() const { return at != nullptr && left_ns() <= 0; }

int64_t Deadline::left_ns() const {
  return at == nullptr ? INT64_MAX : nanos(*at) - now_ns(clock);
}

bool Patience::let_others_run() {
  const int error = get_errno();
  const int64_t began = now_ns(CLOCK_MONOTONIC);
  const bool gave = hooks().yield_for_lock();
  set_errno(error);
  if (!gave) return false;
  const bool vain = now_ns(CLOCK_MONOTONIC) - began < kTurnNs;
  vain_yields_ = vain ? vain_yields_ + 1 : 0;
  return vain_yields_ < kVainYields;
}

timespec Patience::next_pause(const Deadline& deadline) {
  const int64_t pause = std::clamp<int64_t>(deadline.left_ns(), 0, pause_ns_);
  pause_ns_ = std::min(pause_ns_ * 2, kPauseMaxNs);
  return timespec_of(pause);
}

timespec Patience::next_pause_end(const Deadline& deadline) {
  return timespec_of(now_ns(CLOCK_MONOTONIC) + nanos(next_pause(deadline)));
}

timespec after(int64_t ns) { return timespec_of(now_ns(CLOCK_MONOTONIC) + ns); }

void Patience::wait(const Deadline& deadline) {
  if (let_others_run()) return;
  const int error = get_errno();
  const timespec pause = next_pause(deadline);
  nanosleep(&pause, nullptr);
  set_errno(error);
}

RUBATO_NEVER_LEFT int keep_if_taken(int rc, const void* lock, const void* caller) {
  if (rc == 0 || rc == EOWNERDEAD) {
    held().add(lock, g_foreign.latest());
  } else {
    leave(caller);
  }
  return rc;
}

RUBATO_NEVER_LEFT int yield_and_take(const LockKind& kind, void* lock, const Deadline& deadline,
                                     const void* caller) {
  enter();
  close_stale_sections(caller);
  int rc = kind.attempt(lock);
  if (rc == EBUSY) rc = contend(kind, lock, deadline, caller);
  return keep_if_taken(rc, lock, caller);
}

RUBATO_NEVER_LEFT int try_take(const LockKind& kind, void* lock, const void* caller) {
  enter();
  close_stale_sections(caller);
  return keep_if_taken(kind.attempt(lock), lock, caller);
}

RUBATO_NEVER_LEFT void give(const void* lock, const void* caller) {
  if (!held().remove(lock)) {
    enter();
    g_foreign.add(lock);
  }
  close_stale_sections(caller);
  leave(caller);
}

void note_foreign_release(const void* lock) { g_foreign.add(lock); }

int thread_id() {
  if (t_thread_id == 0) t_thread_id = gettid();
  return t_thread_id;
}

RUBATO_NEVER_LEFT void* find_next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return found;
}

void find_all(void* (*find)(const char* name)) {
  for (AnyNext** next = __start_rubato_next; next != __stop_rubato_next; ++next) {
    static_cast<void>((*next)->find_by(find));
  }
}

}  // namespace rubato::interpose

RUBATO_INTERPOSED void rubato_interpose_attach(const RubatoInterposeHooks* hooks) {
  using rubato::interpose::g_hooks;
  static constinit std::atomic<bool> registered{false};
  if (!registered.exchange(true)) {
    pthread_atfork(nullptr, nullptr, rubato::interpose::forget_runtime);
    rubato::interpose::find_all([](const char* name) { return dlsym(RTLD_NEXT, name); });
  }
  g_hooks.store(hooks, std::memory_order_release);
}

RUBATO_INTERPOSED void rubato_interpose_code(uintptr_t* low, uintptr_t* high) {
  const rubato::CodeSpan code = rubato::never_left_code();
  *low = code.low;
  *high = code.high;
}

RUBATO_INTERPOSED uint32_t rubato_interpose_locks_held(void) {
  return rubato::interpose::held().count();
}

RUBATO_INTERPOSED void rubato_interpose_thread(int kind) {
  if (!rubato::interpose::attached()) kind = RUBATO_INTERPOSE_PLAIN;
  rubato::interpose::t_kind = static_cast<uint8_t>(kind);
}
