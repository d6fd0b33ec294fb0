// SPDX-License-Identifier: Apache-2.0
//
// Clock: the live host's time, from the processor's own counter (x86-64 TSC, AArch64 CNTVCT) where
// it can be trusted, otherwise from clock_gettime(CLOCK_MONOTONIC).
//
// The counter's rate is measured against CLOCK_MONOTONIC_RAW at start, never read from CPUID leaves
// 0x15 and 0x16, which hypervisors leave zero or wrong. The counter is trusted if the processor
// says that it is invariant (constant rate, running in every sleep state) and the kernel has not
// itself given up on it; not if the environment says RUBATO_CLOCK=kernel. Instants begin at the
// value of CLOCK_MONOTONIC at calibration, then run at the measured rate: they are not slewed by
// NTP, and may drift from CLOCK_MONOTONIC by some parts per million.
//
// Thread safety: a Clock is immutable after calibrate(); every method from any thread and from
// signal handlers. Two reads on one thread never go backwards; on two processors they agree to what
// the hardware synchronises, some tens of nanoseconds. Plain value, owns nothing.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/time.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace rubato {

class Clock {
 public:
  // Takes about 17 ms, mostly asleep. Fails only if the system has no monotonic clock.
  static Result<Clock> calibrate();

  // The portable fallback, chosen without measuring.
  static Result<Clock> from_kernel();

  Instant now() const {
    if (!counter_) return Instant(kernel_ns());
    return at(read_counter());
  }

  // The raw counter, for differences, for seeding and for at(); nanoseconds where the counter is
  // not used.
  uint64_t cycles() const {
    return counter_ ? read_counter() : static_cast<uint64_t>(kernel_ns());
  }
  bool uses_counter() const { return counter_; }
  // The same in fewer instructions. Requires uses_counter().
  static uint64_t counted_cycles() { return read_counter(); }
  // When cycles() had that value.
  Instant at(uint64_t cycles) const {
    if (!counter_) return Instant(static_cast<int64_t>(cycles));
    return Instant(base_ns_ + to_ns(cycles - base_cycles_));
  }

  // Rate of cycles().
  double frequency_hz() const { return frequency_hz_; }

  // "tsc", "cntvct" or "clock_gettime".
  const char* source() const { return source_; }

 private:
  Clock() = default;

  static int64_t kernel_ns();

  // Neither fenced nor serialising: a few instructions of slack is far below what is scheduled.
  static uint64_t read_counter() {
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t count = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    return 0;
#endif
  }

  // Signed, so that a processor whose counter lags by some cycles at the very start reads just
  // before the base instead of centuries after it.
  int64_t to_ns(uint64_t cycles) const {
    __extension__ typedef __int128 Wide;
    return static_cast<int64_t>((static_cast<Wide>(static_cast<int64_t>(cycles)) * mult_) >>
                                kShift);
  }

  static constexpr int kShift = 32;  // 2^-32 of a nanosecond per cycle: off by a second in 50 years

  bool counter_ = false;
  int64_t mult_ = 0;  // nanoseconds per cycle, times 2^kShift
  uint64_t base_cycles_ = 0;
  int64_t base_ns_ = 0;
  double frequency_hz_ = 1e9;
  const char* source_ = "clock_gettime";
};

// The clock of this process, calibrated at first use, by whichever thread comes first.
inline const Clock& process_clock() {
  static const Clock clock = [] {
    Result<Clock> calibrated = Clock::calibrate();
    RUBATO_CHECK(calibrated.ok());
    return *calibrated;
  }();
  return clock;
}

inline Instant now() { return process_clock().now(); }

}  // namespace rubato
