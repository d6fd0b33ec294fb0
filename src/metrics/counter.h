// SPDX-License-Identifier: Apache-2.0
//
// Counter: a number that one thread raises and any thread reads. Costs a plain load, add and store;
// all accesses are relaxed, because a reader only wants a value that was true a moment ago.
// Peak is the same for a maximum.
#pragma once

#include <atomic>
#include <cstdint>

namespace rubato {

class Counter {
 public:
  // The writing thread only.
  void add(uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void operator++() { add(1); }
  void operator+=(uint64_t n) { add(n); }

  // Any thread.
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Peak {
 public:
  // The writing thread only.
  void raise_to(uint64_t n) {
    if (n > value_.load(std::memory_order_relaxed)) value_.store(n, std::memory_order_relaxed);
  }

  // Any thread.
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace rubato
