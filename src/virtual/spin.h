// SPDX-License-Identifier: Apache-2.0
//
// Spin: how a thread goes round in a loop that waits. A round ends with a cpu_pause(); nothing is
// new in one that writes only where the rounds just before it did, as one that tries a lock does.
// For the library's own files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace rubato::virt {

class Spin {
 public:
  // The thread writes. True = as in its last rounds.
  bool expected(const void* at) {
    for (Write& write : writes_) {
      if (write.at != at) continue;
      write.round = round_;
      return true;
    }
    same_ = false;
    if (writes_.size() < kWritesMost) writes_.push_back({at, round_});
    return false;
  }

  // A round ends, and the next one begins. True = it was as the last ones, and there was no news.
  bool end_round(Instant now, uint64_t news) {
    const bool same = same_ && news == news_;
    length_ = now - begin_;
    std::erase_if(writes_, [&](const Write& write) { return round_ - write.round > kRounds; });
    ++round_;
    same_ = true;
    news_ = news;
    begin_ = now;
    return same;
  }

  // The end of the round in which the thread is at `time`, if it goes round and round from the last
  // pause on.
  Instant end_of_round(Instant time) const {
    const int64_t length = std::max<int64_t>(length_.count(), 1);
    const int64_t rounds = ((time - begin_).count() + length - 1) / length;
    return begin_ + Nanos(std::max<int64_t>(rounds, 1) * length);
  }
  void go_on(Instant now) { begin_ = now; }

 private:
  static constexpr size_t kWritesMost = 16;
  static constexpr uint64_t kRounds = 4;  // that a write is remembered

  struct Write {
    const void* at;
    uint64_t round;
  };
  std::vector<Write> writes_;
  uint64_t round_ = 0;
  bool same_ = false;
  Instant begin_;
  Nanos length_;
  uint64_t news_ = 0;
};

}  // namespace rubato::virt
