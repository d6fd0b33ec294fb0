// SPDX-License-Identifier: Apache-2.0
//
// PrefixCounters: what memcached's `stats detail` counts, by what is in front of a key's first ':'
// (keys without one do not count). Off at first, and then nothing is written. The prefixes that
// come first have counts of their own, the others count together. Any thread; while it is on, a
// lock for each key.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace rubato::kv {

class PrefixCounters {
 public:
  static constexpr char kDelimiter = ':';
  static constexpr size_t kMaxPrefixes = 1000;

  struct Counts {
    uint64_t gets = 0;
    uint64_t hits = 0;  // of these
    uint64_t sets = 0;
    uint64_t deletes = 0;

    bool operator==(const Counts&) const = default;
  };

  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  // What was counted stays.
  void turn(bool on) { is_on_.store(on, std::memory_order_relaxed); }

  void get(std::string_view key, bool hit) { add(key, {.gets = 1, .hits = hit ? 1U : 0U}); }
  void set(std::string_view key) { add(key, {.sets = 1}); }
  void erase(std::string_view key) { add(key, {.deletes = 1}); }

  struct Snapshot {
    std::map<std::string, Counts, std::less<>> prefixes;
    Counts others;
  };
  Snapshot snapshot() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  void reset() {
    const std::lock_guard lock(mutex_);
    counts_ = {};
  }

 private:
  void add(std::string_view key, const Counts& more) {
    if (!is_on()) return;
    const size_t end = key.find(kDelimiter);
    if (end == std::string_view::npos) return;
    const std::lock_guard lock(mutex_);
    Counts& counts = counts_of(key.substr(0, end));
    counts.gets += more.gets;
    counts.hits += more.hits;
    counts.sets += more.sets;
    counts.deletes += more.deletes;
  }
  Counts& counts_of(std::string_view prefix) {
    auto& prefixes = counts_.prefixes;
    const auto found = prefixes.find(prefix);
    if (found != prefixes.end()) return found->second;
    if (prefixes.size() >= kMaxPrefixes) return counts_.others;
    return prefixes.emplace(prefix, Counts()).first->second;
  }

  std::atomic<bool> is_on_{false};
  mutable std::mutex mutex_;
  Snapshot counts_;
};

}  // namespace rubato::kv
