// SPDX-License-Identifier: Apache-2.0
//
// Feedback: what a running request tells the scheduler (Synergy 5.1.2, SBB 4.3). On a worker, from
// the code of a request; elsewhere all of it does nothing. What may switch can return on another
// thread, see <rubato/checkpoint.h>.
#pragma once

#include <cstdint>

#include <rubato/rubato.h>

namespace rubato::inline v1 {

// Lets the request be preempted here. Costs about a nanosecond when it is not. May switch.
[[gnu::always_inline]] inline void checkpoint() { rubato_checkpoint_inline(); }

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

// No preemption while one of these lives, for locks and other critical sections. One that fell due
// meanwhile happens when the last of them ends, so the destructor may switch: make it the first
// thing in the scope, so that it ends after the lock does.
class NoPreempt {
 public:
  NoPreempt() noexcept { rubato_preempt_forbid(); }
  ~NoPreempt() { rubato_preempt_allow(); }
  NoPreempt(const NoPreempt&) = delete;
  NoPreempt& operator=(const NoPreempt&) = delete;
};

}  // namespace rubato::inline v1
