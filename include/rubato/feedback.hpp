// SPDX-License-Identifier: Apache-2.0
//
// Feedback: the calls by which a running request informs the scheduler (Synergy 5.1.2, SBB 4.3).
// They are made on a worker, by the code of a request; elsewhere they do nothing. A call that may
// switch can return on another thread, see <rubato/checkpoint.h>.
#pragma once

#include <cstdint>
#include <exception>

#include <rubato/rubato.h>

namespace rubato::inline v1 {

// The exception that checkpoint() throws in a request whose reply is no longer wanted: the client
// is gone, the deadline has passed, or the server has stopped waiting. Let it through: the
// handler's locals are destroyed, and the reply is dropped. It is not a std::exception, so that a
// handler which turns those into error replies does not catch it.
struct Cancelled {};

namespace detail {
[[gnu::noinline, gnu::cold]] inline void cancel() {
  if (std::uncaught_exceptions() == 0) throw Cancelled();
}
}  // namespace detail

// Lets the request be preempted here, or ends it by throwing Cancelled. A checkpoint that does
// neither costs about a nanosecond. It may switch. It never throws while a NoPreempt lives, nor
// while the stack is unwound. In destructors and other functions that must not throw, call
// rubato_checkpoint(), which returns nonzero instead. The other places of preemption never throw:
// interrupts, the ends of non-preemptible regions, and compiled-in checkpoints.
[[gnu::always_inline]] inline void checkpoint() {
  if (rubato_checkpoint_inline() != 0) detail::cancel();
}

// The code between the two calls is long: it may be preempted at checkpoints, and its time does not
// count into the average of short requests that the quantum follows. The priority is 0 .. 7, where
// 0 is the most urgent (Synergy 7.4).
inline void long_begin(uint32_t priority = 0) noexcept { rubato_long_begin(priority); }
inline void long_end() noexcept { rubato_long_end(); }

// The same for a scope.
class LongSection {
 public:
  explicit LongSection(uint32_t priority = 0) noexcept { long_begin(priority); }
  ~LongSection() { long_end(); }
  LongSection(const LongSection&) = delete;
  LongSection& operator=(const LongSection&) = delete;
};

// The request is not preempted while a NoPreempt lives; for locks and other critical
// non-preemptible regions. A preemption that fell due meanwhile happens when the last NoPreempt
// ends, so the destructor may switch: declare it before the lock, so that it ends after the lock.
class NoPreempt {
 public:
  NoPreempt() noexcept { rubato_preempt_disable(); }
  ~NoPreempt() { rubato_preempt_enable(); }
  NoPreempt(const NoPreempt&) = delete;
  NoPreempt& operator=(const NoPreempt&) = delete;
};

}  // namespace rubato::inline v1
