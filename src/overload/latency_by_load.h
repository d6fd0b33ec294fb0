// SPDX-License-Identifier: Apache-2.0
//
// LatencyByLoad: what a request that comes now may expect, for the answer to a probe (Prequal,
// Wydrowski et al., NSDI 2024, section 4: the median of the latencies of late that began under the
// load of now, or one near it). Loads are told apart exactly up to 7, then to a quarter of an
// octave; of each the last kKept latencies are kept, and count for kRecent.
//
// Any thread. Ordering: none is needed; what is read while others write may miss the last ones.
//
// A Platform has Count<T>, an atomic T with load, store and fetch_add in relaxed order.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace rubato::overload {

// An answer to a probe.
struct ServerLoad {
  uint32_t in_flight = 0;  // requests inside
  Nanos latency;           // that a request would have; zero = not known
};

template <class Platform>
class LatencyByLoad {
 public:
  static constexpr Nanos kRecent = Nanos::seconds(1);
  static constexpr size_t kKept = 16;

  // A request is done that came while `load` others were inside.
  void ended(int64_t load, Nanos latency, Instant now) {
    Recent& recent = recents_[place_of(load)];
    const auto at = static_cast<size_t>(recent.count.fetch_add(1)) % kKept;
    recent.samples[at].store(pack(latency, now));
  }

  // Zero if no request has ended of late.
  Nanos expected(int64_t load, Instant now) const {
    const auto from = static_cast<ptrdiff_t>(place_of(load));
    for (ptrdiff_t away = 0; away < static_cast<ptrdiff_t>(kPlaces); ++away) {
      for (const ptrdiff_t place : {from - away, from + away}) {
        if (place < 0 || place >= static_cast<ptrdiff_t>(kPlaces)) continue;
        const Nanos median = median_of(recents_[static_cast<size_t>(place)], now);
        if (median > Nanos()) return median;
      }
    }
    return {};
  }

 private:
  using Count = typename Platform::template Count<int64_t>;
  static constexpr size_t kPlaces = 64;  // up to loads of 100,000

  struct Recent {
    Count count{0};
    std::array<Count, kKept> samples{};
  };

  static size_t place_of(int64_t load) {
    constexpr int kExactBits = 3, kStepBits = 2;
    const auto n = static_cast<uint64_t>(std::max<int64_t>(load, 0));
    if (n < (1u << kExactBits)) return static_cast<size_t>(n);
    const int octave = static_cast<int>(std::bit_width(n)) - 1 - kExactBits;
    const uint64_t step = n >> (octave + kExactBits - kStepBits) & ((1u << kStepBits) - 1);
    const auto octaves = static_cast<size_t>(octave) << kStepBits;
    return std::min((size_t{1} << kExactBits) + octaves + static_cast<size_t>(step), kPlaces - 1);
  }

  // When, in the upper half, in milliseconds from 1 on, and how long, in ns up to 4.29 s.
  static int64_t pack(Nanos latency, Instant now) {
    const auto when = static_cast<uint64_t>(now.ns() / kMillisecond + 1);
    const auto took = std::clamp<int64_t>(latency.count(), 1, UINT32_MAX);
    return static_cast<int64_t>(when << 32 | static_cast<uint64_t>(took));
  }

  static Nanos median_of(const Recent& recent, Instant now) {
    std::array<int64_t, kKept> took;
    size_t fresh = 0;
    const auto today = static_cast<uint32_t>(now.ns() / kMillisecond + 1);
    for (const Count& cell : recent.samples) {
      const auto sample = static_cast<uint64_t>(cell.load());
      const uint32_t age_ms = today - static_cast<uint32_t>(sample >> 32);
      if (sample == 0 || age_ms > kRecent.count() / kMillisecond) continue;
      took[fresh++] = static_cast<int64_t>(sample & UINT32_MAX);
    }
    if (fresh == 0) return {};
    const auto middle = took.begin() + static_cast<ptrdiff_t>(fresh / 2);
    std::nth_element(took.begin(), middle, took.begin() + static_cast<ptrdiff_t>(fresh));
    return Nanos(*middle);
  }

  static constexpr int64_t kMillisecond = Nanos::millis(1).count();

  std::array<Recent, kPlaces> recents_;
};

}  // namespace rubato::overload
