// SPDX-License-Identifier: Apache-2.0
//
// OneThread: the Platform of what is written for many threads (limiter.h, latency_by_load.h) where
// one thread plays all workers.
#pragma once

#include <utility>

namespace rubato::overload {

struct OneThread {
  template <class T>
  class Cell {
   public:
    Cell(T value = T()) : value_(value) {}
    T load() const { return value_; }
    void store(T value) { value_ = value; }
    T exchange(T value) { return std::exchange(value_, value); }
    T fetch_add(T n) { return std::exchange(value_, static_cast<T>(value_ + n)); }

   private:
    T value_;
  };
  template <class T>
  using Count = Cell<T>;
};

}  // namespace rubato::overload
