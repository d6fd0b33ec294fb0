// SPDX-License-Identifier: Apache-2.0
//
// Agenda: when each thread of a world goes on, and which one does so first. A tournament, so that a
// change costs the logarithm of the number of threads. For the library's own files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/time.h"

namespace rubato::virt {

class Agenda {
 public:
  // `first_is_last`: of several that go on at once thread 0 is the last.
  explicit Agenda(bool first_is_last) : first_is_last_(first_is_last) { hold(2); }

  // One more thread, with the next number; it does not go on by itself yet.
  void add() {
    if (++threads_ > times_.size()) hold(2 * times_.size());
  }

  Instant at(uint32_t thread) const { return times_[thread]; }
  void set(uint32_t thread, Instant at) {
    times_[thread] = at;
    for (size_t node = (times_.size() + thread) / 2; node > 0; node /= 2) play(node);
  }

  // Of several that go on at once the one with the lowest number, but see above.
  uint32_t first() const { return winners_[1]; }
  // Of all but one.
  Instant earliest_beside(uint32_t thread) const {
    Instant least = Instant::never();
    for (size_t node = times_.size() + thread; node > 1; node /= 2) {
      least = std::min(least, times_[winners_[node ^ 1]]);
    }
    return least;
  }

 private:
  // The winners of two matches meet at half their place; the threads themselves come last.
  void play(size_t node) {
    const uint32_t left = winners_[2 * node];
    const uint32_t right = winners_[2 * node + 1];
    const bool later = times_[right] > times_[left] ||
                       (times_[right] == times_[left] && !(first_is_last_ && left == 0));
    winners_[node] = later ? left : right;
  }

  void hold(size_t threads) {
    times_.resize(threads, Instant::never());
    winners_.resize(2 * threads);
    std::iota(winners_.begin() + static_cast<std::ptrdiff_t>(threads), winners_.end(), 0u);
    for (size_t node = threads - 1; node > 0; --node) play(node);
  }

  const bool first_is_last_;
  size_t threads_ = 0;
  std::vector<Instant> times_;     // by thread, a power of two of them
  std::vector<uint32_t> winners_;
};

}  // namespace rubato::virt
