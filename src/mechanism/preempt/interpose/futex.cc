// SPDX-License-Identifier: Apache-2.0
//
// syscall(), by which C++20's atomics, semaphores, latches and barriers, Rust's locks and many
// others wait for a futex. A fiber that does so gives its worker away and looks at the word when it
// has its turn; it sleeps in the kernel for bounded times only, while no other fiber has work. A
// fiber is not among the kernel's waiters while it yields, so a wake-up that leaves the word as it
// was may miss it: it returns after 10 ms at the latest, as a futex may without cause.
//
// (Code that has the instruction itself, such as GCC's OpenMP, is left to the runtime's
// lock_watchdog.h.)
#include "mechanism/preempt/interpose/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/next.h"

extern "C" {
// `syscall` without its ellipsis: a system call has six arguments at most.
long rubato_syscall(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");
}

namespace {

using rubato::interpose::Deadline;
using rubato::interpose::Patience;
using rubato::interpose::after;
using rubato::interpose::futex;

RUBATO_NEXT_OF(syscall, long(long, long, long, long, long, long, long));

constexpr int64_t kWaitMaxNs = 10'000'000;

struct Wait {
  const uint32_t* word;
  int operation;
  uint32_t value;
  uint32_t mask;

  int command() const { return operation & FUTEX_CMD_MASK; }
  int flags() const { return operation & FUTEX_PRIVATE_FLAG; }
  bool waits() const {
    return command() == FUTEX_WAIT || (command() == FUTEX_WAIT_BITSET && mask != 0);
  }
  bool is_as_expected() const { return __atomic_load_n(word, __ATOMIC_ACQUIRE) == value; }
};

int fail(int error) {
  errno = error;
  return -1;
}

enum class Look : uint8_t { kAsExpected, kWoken, kFailed };

// The kernel judges the arguments. Somebody may wake even who waits for no time.
Look first_look(const Wait& wait) {
  const timespec at_once{};
  const long rc = futex(wait.word, FUTEX_WAIT | wait.flags(), wait.value, &at_once);
  if (rc == 0) return Look::kWoken;
  return errno == ETIMEDOUT ? Look::kAsExpected : Look::kFailed;
}

// True if the wait is over. EINTR is that of an interrupt by the runtime.
bool sleep_until(const Wait& wait, const timespec& until) {
  const uint32_t mask = wait.command() == FUTEX_WAIT ? FUTEX_BITSET_MATCH_ANY : wait.mask;
  const long rc = futex(wait.word, FUTEX_WAIT_BITSET | wait.flags(), wait.value, &until, mask);
  return rc == 0 || (errno != ETIMEDOUT && errno != EINTR);
}

RUBATO_NEVER_LEFT long wait_as_fiber(const Wait& wait, const Deadline& deadline) {
  const int error = errno;
  const Look look = first_look(wait);
  if (look != Look::kAsExpected) return look == Look::kWoken ? 0 : -1;
  const timespec latest = after(kWaitMaxNs);
  const Deadline patience_end{&latest, CLOCK_MONOTONIC};
  for (Patience patience; wait.is_as_expected() && !patience_end.passed();) {
    if (deadline.passed()) return fail(ETIMEDOUT);
    if (patience.let_others_run()) continue;
    if (sleep_until(wait, patience.next_pause_end(deadline))) break;
  }
  errno = error;
  return 0;
}

// FUTEX_WAIT takes a length of time, FUTEX_WAIT_BITSET an instant.
RUBATO_NEVER_LEFT long wait_as_fiber(const Wait& wait, const timespec* timeout) {
  if (timeout == nullptr || wait.command() == FUTEX_WAIT_BITSET) {
    const bool real = (wait.operation & FUTEX_CLOCK_REALTIME) != 0;
    return wait_as_fiber(wait, Deadline{timeout, real ? CLOCK_REALTIME : CLOCK_MONOTONIC});
  }
  timespec end = after(0);
  end.tv_sec += timeout->tv_sec;
  end.tv_nsec += timeout->tv_nsec;
  if (end.tv_nsec >= 1'000'000'000) {
    end.tv_nsec -= 1'000'000'000;
    ++end.tv_sec;
  }
  return wait_as_fiber(wait, Deadline{&end, CLOCK_MONOTONIC});
}

}  // namespace

long rubato::interpose::futex(const uint32_t* word, int operation, uint32_t value,
                              const timespec* timeout, uint32_t mask) {
  return next_syscall.get()(SYS_futex, reinterpret_cast<long>(word), operation, value,
                            reinterpret_cast<long>(timeout), 0, mask);
}

RUBATO_INTERPOSED long rubato_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (number == SYS_futex && rubato::interpose::may_yield()) {
    const Wait wait{reinterpret_cast<const uint32_t*>(a), static_cast<int>(b),
                    static_cast<uint32_t>(c), static_cast<uint32_t>(f)};
    const auto* timeout = reinterpret_cast<const timespec*>(d);  // only where it waits
    if (wait.waits() && Deadline{timeout, CLOCK_MONOTONIC}.valid() &&
        rubato::interpose::in_request()) {
      return wait_as_fiber(wait, timeout);
    }
  }
  return next_syscall.get()(number, a, b, c, d, e, f);
}
