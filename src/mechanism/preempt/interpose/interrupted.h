// SPDX-License-Identifier: Apache-2.0
//
// What system calls that the runtime's signal ends in a request have in common: whether it was that
// signal, and what is left of their time.
#pragma once

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "mechanism/preempt/interpose/fiber_side.h"

namespace rubato::interpose {

// Elsewhere the calls are libc's.
inline bool may_be_interrupted() { return on_own_tls() && in_request(); }

class SeenInterrupts {
 public:
  // Whether the caller was interrupted since; whether that ended a call with -1 and EINTR.
  bool more() const { return interrupts() != seen_; }
  bool ended(int64_t rc) const { return rc == -1 && errno == EINTR && more(); }

 private:
  const uint32_t seen_ = interrupts();
};

inline constexpr int64_t kNanosPerSecond = 1'000'000'000;
inline constexpr int64_t kSecondsMost = 4'000'000'000;  // of longer ones all is left, always

// What is left of the time that a call was given.
class TimeLeft {
 public:
  static int64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * kNanosPerSecond + now.tv_nsec;
  }

  // Null: it has no end.
  explicit TimeLeft(const timespec* timeout, int64_t since_ns = now_ns()) : given_(timeout) {
    // What libc is to refuse is passed on as it came.
    if (timeout == nullptr || timeout->tv_sec < 0 || timeout->tv_sec > kSecondsMost ||
        timeout->tv_nsec < 0 || timeout->tv_nsec >= kNanosPerSecond) {
      return;
    }
    end_ns_ = since_ns + timeout->tv_sec * kNanosPerSecond + timeout->tv_nsec;
  }

  const timespec* get() {
    if (end_ns_ == 0) return given_;
    const int64_t left = std::max<int64_t>(end_ns_ - now_ns(), 0);
    left_ = {left / kNanosPerSecond, left % kNanosPerSecond};
    return &left_;
  }

 private:
  const timespec* const given_;
  timespec left_{};
  int64_t end_ns_ = 0;  // of CLOCK_MONOTONIC; 0 = none
};

}  // namespace rubato::interpose
