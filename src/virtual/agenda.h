// SPDX-License-Identifier: Apache-2.0
//
// Agenda: when each thread of a world goes on, and which one does so first. A tournament, so that a
// change costs the logarithm of the number of threads. For the library's own files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"

namespace rubato::virt {

class Agenda {
 public:
  static constexpr uint32_t kThreadsMax = 512;

  // `first_is_last`: of several that go on at once thread 0 is the last.
  explicit Agenda(bool first_is_last) : first_(first_is_last ? kThreadsMax : 0) { hold(2); }

  // One more thread, with the next number; it does not go on by itself yet. At most kThreadsMax.
  void add() {
    if (++threads_ > keys_.size() / 2) hold(keys_.size());
  }

  Instant at(uint32_t thread) const { return time_of(keys_[leaf_of(thread)]); }
  void set(uint32_t thread, Instant at) {
    Key least = key_of(thread, at);
    size_t node = leaf_of(thread);
    for (keys_[node] = least; node > 1; keys_[node /= 2] = least) {
      least = std::min(least, keys_[node ^ 1]);
    }
  }

  // Never = none goes on.
  Instant earliest() const { return time_of(keys_[1]); }
  // Of several that go on at once the one with the lowest number, but see above. Requires one.
  uint32_t first() const {
    const auto number = static_cast<uint32_t>(keys_[1] & kNumbers);
    return number == kThreadsMax ? 0 : number;
  }
  // Of all but one.
  Instant earliest_beside(uint32_t thread) const {
    Key least = kNever;
    for (size_t node = leaf_of(thread); node > 1; node /= 2) {
      least = std::min(least, keys_[node ^ 1]);
    }
    return time_of(least);
  }

 private:
  // The time, and below it the number of its thread: the least one is the first.
  using Key = int64_t;
  static constexpr int kNumberBits = 10;
  static constexpr Key kNumbers = (Key{1} << kNumberBits) - 1;
  static constexpr Key kNever = INT64_MAX;
  static constexpr Instant kLast = Instant((INT64_MAX >> kNumberBits) - 1);  // half a year

  Key key_of(uint32_t thread, Instant at) const {
    if (at == Instant::never()) return kNever;
    return std::min(at, kLast).ns() << kNumberBits | (thread == 0 ? first_ : thread);
  }
  static Instant time_of(Key key) {
    return key == kNever ? Instant::never() : Instant(key >> kNumberBits);
  }
  size_t leaf_of(uint32_t thread) const { return keys_.size() / 2 + thread; }

  void hold(size_t threads) {
    std::vector<Key> keys(2 * threads, kNever);
    const auto leaves = keys_.begin() + static_cast<std::ptrdiff_t>(keys_.size() / 2);
    std::copy(leaves, keys_.end(), keys.begin() + static_cast<std::ptrdiff_t>(threads));
    keys_ = std::move(keys);
    for (size_t node = threads - 1; node > 0; --node) {
      keys_[node] = std::min(keys_[2 * node], keys_[2 * node + 1]);
    }
  }

  const uint32_t first_;  // what counts as the number of thread 0
  size_t threads_ = 0;
  // A power of two of threads come last; before them, at half their place, the first of two.
  std::vector<Key> keys_;
};

}  // namespace rubato::virt
