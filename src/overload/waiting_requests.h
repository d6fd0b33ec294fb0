// SPDX-License-Identifier: Apache-2.0
//
// WaitingRequests: since when the oldest request has waited that was not started, of a server with
// many workers. Each worker counts by the time of arrival, in slots: one more where a request came
// in, one less where one is started, so a slot's sum over all workers is the number of those that
// came then and still wait, whichever worker starts them. A worker writes its own lines only.
//
// add() and remove() may be called on any thread, and are exact on all; they are cheap where
// `worker` is the calling one. oldest() is for one caller at a time, as exact as a slot is short;
// it looks at the slots since the last one that it found empty, up to the last one that a request
// came in. A request is not counted, and nothing goes wrong, if oldest() was not called for kSlots
// slots.
//
// Ordering: all cells are sequentially consistent. oldest() raises `looked_to_` above all slots
// that it may look at, looks, and lowers it to the slot where the next call begins. add() raises
// `newest`, counts, and then reads `looked_to_`. If it reads what was there before the look, the
// look sees the request; otherwise add() asks for its slot (`rewind`), and a later call sees it. So
// only calls that begin before add() ends may miss a request. That also holds where a sum is too
// small, as another request of the slot was added at a worker after the look at it, and started at
// one before: that add() asks for the slot.
//
// A Platform has Cell<T>, an atomic T with load, store, exchange, fetch_add and
// compare_exchange_weak.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"

namespace rubato::overload {

template <class Platform>
class WaitingRequests {
 public:
  static constexpr int64_t kSlots = 1024;
  static constexpr int64_t kUncounted = -1;

  // Requires slot > 0.
  WaitingRequests(uint32_t workers, Nanos slot) : slot_(slot), parts_(workers) {
    RUBATO_DCHECK(slot > Nanos());
  }

  // Returns what remove() is to be called with.
  int64_t add(uint32_t worker, Instant since, Instant now) {
    const int64_t last = slot_of(now);
    const int64_t first = first_.load();
    if (last - first >= kSlots - 1) return kUncounted;
    const int64_t at = std::clamp(slot_of(since), last - (kSlots - 2), last);
    if (at < 0) return kUncounted;
    RUBATO_DCHECK(worker < parts_.size());
    Part& part = parts_[worker];
    for (int64_t newest = part.newest.load(); newest < at;) {
      if (part.newest.compare_exchange_weak(newest, at)) break;
    }
    part.count[index(at)].fetch_add(1);
    if (at < looked_to_.load() && at < part.rewind.load()) part.rewind.store(at);
    return at;
  }
  void remove(uint32_t worker, int64_t at) {
    if (at != kUncounted) parts_[worker].count[index(at)].fetch_add(-1);
  }

  // Zero if none waits.
  Nanos oldest(Instant now) {
    const int64_t last = slot_of(now);
    const int64_t was_first = first_.load();
    looked_to_.store(last + 1);
    int64_t at = was_first;
    int64_t newest = -1;
    for (Part& part : parts_) {
      if (part.rewind.load() != kNone) at = std::min(at, part.rewind.exchange(kNone));
      newest = std::max(newest, part.newest.load());
    }
    // Nothing is counted beyond.
    const int64_t end = std::min({last, was_first + kSlots - 1, newest});
    while (at <= end && !waits(at)) ++at;
    const int64_t first = at <= end ? at : last;
    first_.store(first);
    looked_to_.store(first);
    return at <= end ? now - Instant(at * slot_.count()) : Nanos();
  }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  struct alignas(limits::kCacheLineBytes) Part {
    std::array<typename Platform::template Cell<int32_t>, kSlots> count{};
    typename Platform::template Cell<int64_t> rewind{kNone};  // an earlier slot than was looked at
    typename Platform::template Cell<int64_t> newest{-1};     // slot that a request came in
  };

  int64_t slot_of(Instant t) const { return t.ns() / slot_.count(); }
  static size_t index(int64_t at) { return static_cast<size_t>(at % kSlots); }

  bool waits(int64_t at) const {
    int64_t sum = 0;
    for (const Part& part : parts_) sum += part.count[index(at)].load();
    return sum > 0;
  }

  const Nanos slot_;
  std::vector<Part> parts_;
  alignas(limits::kCacheLineBytes) typename Platform::template Cell<int64_t> first_{0};
  typename Platform::template Cell<int64_t> looked_to_{0};
};

}  // namespace rubato::overload
