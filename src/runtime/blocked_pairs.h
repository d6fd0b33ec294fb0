// SPDX-License-Identifier: Apache-2.0
//
// BlockedPairs: which type of requests held up which other, how often and for how long: of one
// worker, written by it alone, read by any thread. At most kPairs pairs have a count of their own;
// further ones are counted together, under kOther.
//
// Memory order: an entry's key is set once, before its counts rise, and released; who acquires it
// sees the counts of that pair. The counts are relaxed (metrics/counter.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "metrics/counter.h"

namespace rubato {

struct BlockedPair {
  static constexpr uint32_t kOther = UINT32_MAX;  // of both types: all pairs without a count

  uint32_t victim = 0;   // type of the requests that waited
  uint32_t blocker = 0;  // type of the request that held the worker longest meanwhile
  uint64_t requests = 0;
  Nanos held;  // of their waits, the part in which the blocker had the worker
};

class BlockedPairs {
 public:
  static constexpr size_t kPairs = 64;

  // The writing thread only. Types are below UINT16_MAX.
  void note(uint32_t victim, uint32_t blocker, Nanos held) { add(victim, blocker, 1, held); }
  void add(const BlockedPairs& other) {
    other.for_each([this](const BlockedPair& pair) {
      add(pair.victim, pair.blocker, pair.requests, pair.held);
    });
  }

  // Any thread. Calls f(const BlockedPair&) for each that has come.
  template <class F>
  void for_each(F&& f) const {
    for (const Entry& entry : entries_) {
      const uint32_t key = entry.key.load(std::memory_order_acquire);
      if (key != 0) f(pair_of(entry, (key - 1) >> 16, (key - 1) & 0xffff));
    }
    if (others_.requests.value() != 0) {
      f(pair_of(others_, BlockedPair::kOther, BlockedPair::kOther));
    }
  }

 private:
  struct Entry {
    std::atomic<uint32_t> key{0};  // 0 = free
    Counter requests;
    Counter held_ns;
  };

  static BlockedPair pair_of(const Entry& entry, uint32_t victim, uint32_t blocker) {
    return {victim, blocker, entry.requests.value(),
            Nanos(static_cast<int64_t>(entry.held_ns.value()))};
  }

  void add(uint32_t victim, uint32_t blocker, uint64_t requests, Nanos held) {
    Entry& entry = victim == BlockedPair::kOther ? others_ : entry_of(victim << 16 | blocker);
    entry.requests += requests;
    entry.held_ns += static_cast<uint64_t>(held.count());
  }

  // Open addressing; entries are never freed.
  Entry& entry_of(uint32_t pair) {
    const uint32_t key = pair + 1;
    for (size_t i = 0; i < kPairs; ++i) {
      Entry& entry = entries_[(key * 2654435761u / 65536 + i) % kPairs];
      const uint32_t found = entry.key.load(std::memory_order_relaxed);
      if (found == key) return entry;
      if (found != 0) continue;
      entry.key.store(key, std::memory_order_release);
      return entry;
    }
    return others_;
  }

  std::array<Entry, kPairs> entries_;
  Entry others_;
};

}  // namespace rubato
