// SPDX-License-Identifier: Apache-2.0
//
// Feedback: what a running request tells the scheduler (Synergy 5.1.2, SBB 4.3). On a worker, from
// the code of a request; elsewhere all of it does nothing. What may switch can return on another
// thread, see <rubato/checkpoint.h>.
#pragma once

#include <cstdint>
#include <exception>

#include <rubato/rubato.h>

namespace rubato::inline v1 {

// What checkpoint() throws in a request whose reply nobody wants any more: its client is gone, its
// deadline has passed, or the server has stopped waiting. Let it through: the handler's locals are
// destroyed, what was replied is dropped. No std::exception, so that a handler that catches those
// to make an error reply of them does not catch this.
struct Cancelled {};

namespace detail {
[[gnu::noinline, gnu::cold]] inline void cancel() {
  if (std::uncaught_exceptions() == 0) throw Cancelled();
}
}  // namespace detail

// Lets the request be preempted here, or ends it by throwing Cancelled. Costs about a nanosecond
// when it does neither. May switch. Never throws while a NoPreempt lives, nor while the stack is
// unwound. In destructors and other functions that must not throw call rubato_checkpoint(), which
// returns not 0 instead. What else may preempt never throws: interrupts, the ends of
// non-preemptible regions, checkpoints that are compiled in.
[[gnu::always_inline]] inline void checkpoint() {
  if (rubato_checkpoint_inline() != 0) detail::cancel();
}

// What follows is long: it may be preempted at checkpoints, and its time does not count into the
// average of short requests that the quantum follows. Priority 0 .. 7, 0 the most urgent (7.4).
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

// No preemption while one of these lives, for locks and other critical non-preemptible regions. One
// that fell due meanwhile happens when the last of them ends, so the destructor may switch: make it
// the first thing in the scope, so that it ends after the lock does.
class NoPreempt {
 public:
  NoPreempt() noexcept { rubato_preempt_disable(); }
  ~NoPreempt() { rubato_preempt_enable(); }
  NoPreempt(const NoPreempt&) = delete;
  NoPreempt& operator=(const NoPreempt&) = delete;
};

}  // namespace rubato::inline v1
