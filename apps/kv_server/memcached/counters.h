// SPDX-License-Identifier: Apache-2.0
//
// What memcached's `stats` counts by verb (protocol.txt of memcached 1.6, "General-purpose
// statistics"). A counter is declared once, by the name that clients see; code names it by that,
// and a name that is none does not compile. Any thread; a worker writes lines of its own, so that
// no two disturb each other.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "kv_server/memcached/prefix_counters.h"
#include "mechanism/cpu/this_worker.h"

namespace rubato::kv {

inline constexpr auto kMemcachedCounters = std::to_array<std::string_view>({
    "cmd_set",          // commands that store, whether or not they did, but for the next two
    "store_too_large",
    "store_no_memory",
    "cmd_flush",
    "cmd_meta",         // me; the other meta commands count as those that do the same
    "total_items",      // stored by set and its kin, or made by a meta command
    "get_hits",
    "get_misses",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
    "cas_hits",
    "cas_misses",
    "cas_badval",       // the item was there, and had another token
    "touch_hits",       // of touch, gat, and mg with a time
    "touch_misses",
});

class MemcachedCounter {
 public:
  consteval MemcachedCounter(const char* name) : index_(index_of(name)) {}  // implicit: a name

  size_t index() const { return index_; }

 private:
  static consteval size_t index_of(std::string_view name) {
    size_t index = 0;
    while (kMemcachedCounters[index] != name) ++index;
    return index;
  }

  size_t index_;
};

class MemcachedCounters {
 public:
  using Values = std::array<uint64_t, kMemcachedCounters.size()>;

  void add(MemcachedCounter counter) {
    Part& part = parts_[this_worker() % parts_.size()];
    part.counts[counter.index()].fetch_add(1, std::memory_order_relaxed);
  }
  // In the order of their names.
  Values values() const {
    Values sums{};
    for (const Part& part : parts_) {
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] += part.counts[i].load(std::memory_order_relaxed);
      }
    }
    return sums;
  }
  // What `stats detail` counts.
  PrefixCounters& prefixes() { return prefixes_; }
  void reset() {
    prefixes_.reset();
    for (Part& part : parts_) {
      for (auto& count : part.counts) count.store(0, std::memory_order_relaxed);
    }
  }

 private:
  // Of a worker; added to atomically, as a request may be interrupted between any two instructions.
  struct alignas(limits::kCacheLineBytes) Part {
    std::array<std::atomic<uint64_t>, kMemcachedCounters.size()> counts{};
  };

  PrefixCounters prefixes_;
  std::vector<Part> parts_ = std::vector<Part>(limits::kMaxWorkers);
};

}  // namespace rubato::kv
