// SPDX-License-Identifier: Apache-2.0
//
// LiveLimiter: the Limiter of overload/limiter.h among the threads of a live runtime, which says
// who may call what and how its memory is ordered.
#pragma once

#include <atomic>

#include "overload/limiter.h"

namespace rubato {

struct LiveCells {
  template <class T>
  using Cell = std::atomic<T>;

  template <class T>
  class Count {
   public:
    Count(T value = T()) : value_(value) {}
    T load() const { return value_.load(std::memory_order_relaxed); }
    void store(T value) { value_.store(value, std::memory_order_relaxed); }
    T fetch_add(T n) { return value_.fetch_add(n, std::memory_order_relaxed); }

   private:
    std::atomic<T> value_;
  };
};
using LiveLimiter = overload::Limiter<LiveCells>;

}  // namespace rubato
