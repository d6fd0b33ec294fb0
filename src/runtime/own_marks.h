// SPDX-License-Identifier: Apache-2.0
//
// OwnMarks: which workers may have something in the queue that only they put into, for others that
// look around: one word of 64 workers instead of each queue. A worker marks itself before it puts,
// and takes the mark back when it finds its queue empty. Only itself does either, so whatever is in
// a queue is marked; a mark may outlast what others have taken, until its worker looks.
//
// Threads: `me` calls the methods that take a `me`, but for any_other(), which is for all.
//
// Memory order: relaxed. Who sees a mark looks at the queue, which has its own order. Who falls
// asleep beside a mark that he does not see is woken: the mark precedes the fence that whoever
// queues a request passes before it looks for sleepers (runtime/sleepers.h).
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "mechanism/queue/sync.h"

namespace rubato {

template <class Sync = StdSync>
class OwnMarks {
 public:
  explicit OwnMarks(uint32_t workers) : words_((workers + kBits - 1) / kBits) {}

  void set(WorkerId me) {
    if (!has(me)) word_of(me).fetch_add(bit_of(me), std::memory_order_relaxed);
  }
  void clear(WorkerId me) {
    if (has(me)) word_of(me).fetch_sub(bit_of(me), std::memory_order_relaxed);
  }

  // Asks `found` about those but `from` that are marked, in a circle that begins after it, until it
  // returns true. False = it has not.
  template <class Found>
  bool any_other(WorkerId from, Found&& found) const {
    const auto words = static_cast<uint32_t>(words_.size());
    const uint64_t after = ~uint64_t{0} << (from.value % kBits) << 1;
    const uint64_t first = words_[from.value / kBits].bits.load(std::memory_order_relaxed);
    for (uint32_t i = 0; i <= words; ++i) {
      const uint32_t at = (from.value / kBits + i) % words;
      uint64_t bits = i == 0       ? first & after
                      : i == words ? first & ~after & ~bit_of(from)
                                   : words_[at].bits.load(std::memory_order_relaxed);
      for (; bits != 0; bits &= bits - 1) {
        const WorkerId marked{at * kBits + static_cast<uint32_t>(std::countr_zero(bits))};
        if (found(marked)) return true;
      }
    }
    return false;
  }

 private:
  static constexpr uint32_t kBits = 64;
  using Atomic = typename Sync::template Atomic<uint64_t>;
  struct alignas(limits::kCacheLineBytes) Word {
    Atomic bits{0};
  };

  static uint64_t bit_of(WorkerId worker) { return uint64_t{1} << (worker.value % kBits); }
  Atomic& word_of(WorkerId worker) { return words_[worker.value / kBits].bits; }
  bool has(WorkerId me) {
    return (word_of(me).load(std::memory_order_relaxed) & bit_of(me)) != 0;
  }

  std::vector<Word> words_;
};

}  // namespace rubato
