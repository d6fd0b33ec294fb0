// SPDX-License-Identifier: Apache-2.0
//
// LineCounter: the cache lines that go from one thread to another, if each thread had a cache of
// its own that keeps everything. A write takes the line from all that have read it; a read after
// another thread's write gets a copy. Not counted for thread 0. For the library's own files.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <unordered_map>

#include "base/limits.h"

namespace rubato::virt {

class LineCounter {
 public:
  void read(uint32_t thread, const void* at) {
    Holders& holders = line_of(at).holders;
    if (holders.test(mark_of(thread))) return;
    if (holders.any() && thread != 0) ++fetched_;
    holders.set(mark_of(thread));
  }

  void write(uint32_t thread, const void* at) {
    Line& line = line_of(at);
    Holders& holders = line.holders;
    const bool mine = holders.test(mark_of(thread));
    if (holders.count() > (mine ? 1u : 0u) && thread != 0) {
      ++line.taken;
      ++taken_;
    }
    holders.reset();
    holders.set(mark_of(thread));
  }

  uint64_t fetched() const { return fetched_; }  // reads of what others have in their caches
  uint64_t taken() const { return taken_; }      // writes to it
  // Those to the one line that has most of them.
  uint64_t taken_most() const {
    uint64_t most = 0;
    for (const auto& [number, line] : lines_) most = std::max(most, line.taken);
    return most;
  }

 private:
  static constexpr uint32_t kMarks = 128;  // threads from there on share one
  using Holders = std::bitset<kMarks>;     // the threads that have the line
  struct Line {
    Holders holders;
    uint64_t taken = 0;
  };

  static uint32_t mark_of(uint32_t thread) { return thread % kMarks; }
  Line& line_of(const void* at) {
    return lines_[reinterpret_cast<uintptr_t>(at) / limits::kCacheLineBytes];
  }

  std::unordered_map<uintptr_t, Line> lines_;
  uint64_t fetched_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace rubato::virt
