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

// Of one length each, one after the other.
struct Rounds {
  Instant begin;
  Nanos length;       // 0 = there are none
  int64_t least = 1;  // of them; 0 = where a round takes no time
  bool looks_within = false;  // the thread looks at any time; or else at the end of each

  // The end of the one that goes on at `time`; of the first `least`, before.
  Instant end_of_round(Instant time) const {
    const int64_t rounds = ((time - begin).count() + length.count() - 1) / length.count();
    return begin + length * std::max(rounds, least);
  }
  // When the thread is to go on, so that it sees what is written at `time`, and nothing too early.
  Instant next_look(Instant time) const {
    if (!looks_within) return end_of_round(time);
    return begin + length * std::max<int64_t>((time - begin).count() / length.count(), 0);
  }
};

class Spin {
 public:
  // The thread writes. True = as in its last rounds, in a round that is as they were so far.
  bool expected(const void* at) {
    if (!same_ && writes_.size() == kWritesMost) return false;
    for (Write& write : writes_) {
      if (write.at != at) continue;
      write.round = round_;
      return same_;
    }
    same_ = looks_ = false;
    if (writes_.size() < kWritesMost) writes_.push_back({at, round_});
    return false;
  }

  // The thread may be going round for nothing: what it looks at is to be noted.
  bool looks() const { return looks_; }
  // Another thread has written what this one has looked at.
  void news() { news_ = true; }

  // A round ends, and the next one begins. True = it was as the last ones, and there was no news.
  bool end_round(Instant now) {
    const bool same = looks_ && same_ && !news_;
    length_ = now - begin_;
    std::erase_if(writes_, [&](const Write& write) { return round_ - write.round > kRounds; });
    ++round_;
    same_ = looks_ = true;
    news_ = false;
    begin_ = now;
    return same;
  }

  // The rounds from the last pause on, if the thread goes round and round.
  Rounds rounds() const {
    return {begin_, std::max(length_, Nanos(1)), length_ > Nanos() ? 1 : 0, true};
  }
  void go_on(Instant now) {
    begin_ = now;
    news_ = false;
  }

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
  bool looks_ = false;
  bool news_ = false;
};

}  // namespace rubato::virt
