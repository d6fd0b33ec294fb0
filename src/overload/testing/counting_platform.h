// SPDX-License-Identifier: Apache-2.0
//
// CountingPlatform: a Platform of Admission that notes which worker writes which cache line, and
// how often locks are taken. One thread plays all workers in turn.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/limits.h"

namespace rubato::overload::testing {

// What was written since the last reset.
class Writes {
 public:
  static constexpr uint32_t kNobody = ~0u;

  static Writes& all() {
    static Writes writes;
    return writes;
  }
  void reset() { *this = Writes(); }

  // The thread that writes from now on; writes by none are not noted.
  void play(uint32_t worker) { worker_ = worker; }
  void note_write(const void* cell) {
    if (worker_ == kNobody) return;
    ++writes_;
    writers_[reinterpret_cast<uintptr_t>(cell) / limits::kCacheLineBytes].insert(worker_);
  }
  void note_lock() {
    if (worker_ != kNobody) ++locks_;
  }

  uint64_t locks() const { return locks_; }
  uint64_t writes() const { return writes_; }
  // The addresses of those lines that several workers write.
  std::vector<uintptr_t> shared_lines() const {
    std::vector<uintptr_t> shared;
    for (const auto& [line, writers] : writers_) {
      if (writers.size() > 1) shared.push_back(line * limits::kCacheLineBytes);
    }
    return shared;
  }

 private:
  std::map<uintptr_t, std::set<uint32_t>> writers_;  // by line
  uint64_t writes_ = 0;
  uint64_t locks_ = 0;
  uint32_t worker_ = kNobody;
};

struct CountingPlatform {
  template <class T>
  class Cell {
   public:
    Cell(T value = T()) : value_(value) {}
    Cell(const Cell&) = delete;
    Cell& operator=(const Cell&) = delete;

    T load() const { return value_; }
    void store(T value) { exchange(value); }
    T exchange(T value) {
      Writes::all().note_write(this);
      const T was = value_;
      value_ = value;
      return was;
    }
    T fetch_add(T n) { return exchange(static_cast<T>(value_ + n)); }
    bool compare_exchange_weak(T& expected, T value) {
      if (value_ != expected) {
        expected = value_;
        return false;
      }
      exchange(value);
      return true;
    }

   private:
    T value_;
  };
  template <class T>
  using Count = Cell<T>;

  class Mutex {
   public:
    void lock() { Writes::all().note_lock(); }
    bool try_lock() {
      Writes::all().note_lock();
      return true;
    }
    void unlock() {}
  };
};

}  // namespace rubato::overload::testing
