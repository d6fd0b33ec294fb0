// SPDX-License-Identifier: Apache-2.0
//
// LiveCells: the Platform of what overload/ writes for many threads (limiter.h, latency_by_load.h):
// a Cell is sequentially consistent, a Count is in no order with anything.
#pragma once

#include <atomic>

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
}  // namespace rubato
