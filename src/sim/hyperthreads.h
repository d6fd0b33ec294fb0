// SPDX-License-Identifier: Apache-2.0
//
// Hyperthreads: the hardware threads that the workers of a run have, two on each core (siblings),
// and what each worker loses while its sibling is busy, too, or always, being a slow one. Worker w
// starts in the w-th place that is given; one that parks leaves its place to those that come back.
// One owner.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "base/time.h"
#include "sim/costs.h"

namespace rubato::sim {

// Fails with one line where what a machine says of its hardware threads does not go together. The
// stall of a worker would have to stop what its sibling loses, which is not modelled.
inline Status check_hyperthreads(const Costs& costs) {
  const Costs::Hyperthreads& prices = costs.hyperthreads;
  if (prices.threads == 0) {
    if (prices == Costs::Hyperthreads()) return Done{};
    return Error{"hyperthreads.slowdown and placement go with hyperthreads.threads"};
  }
  if (costs.stalls.length == Nanos()) return Done{};
  return Error{"hyperthreads.threads and stalls do not go together"};
}

class Hyperthreads {
 public:
  // All workers have a thread and idle. Without siblings and slow workers nothing else is called.
  // Requires at least as many threads as workers, if any, and as many `speeds` (Setup), if any; one
  // of both is empty.
  Hyperthreads(const Prices::Hyperthreads& prices, uint32_t workers,
               std::span<const double> speeds = {})
      : prices_(prices),
        speeds_(speeds.begin(), speeds.end()),
        at_(prices.threads > 0 ? workers : 0),
        cores_((prices.threads + 1) / 2) {
    RUBATO_CHECK(prices.threads == 0 || (prices.threads >= workers && speeds.empty()));
    RUBATO_CHECK(speeds.empty() || speeds.size() >= workers);
    for (uint32_t w = 0; w < at_.size(); ++w) place(w);
  }

  bool any() const { return !cores_.empty() || !speeds_.empty(); }

  // The worker gets a thread. Requires that it has none.
  void place(uint32_t worker) {
    at_[worker] = choose();
    ++cores_[at_[worker]].taken;
  }
  // The worker, which is not busy, has none any more.
  void leave(uint32_t worker) { --cores_[at_[worker]].taken; }

  // The worker serves from now on, or idles. Requires that it did not before.
  void begin(uint32_t worker, Instant now) {
    if (speeds_.empty()) change(cores_[at_[worker]], 1, now);
  }
  void end(uint32_t worker, Instant now) {
    if (speeds_.empty()) change(cores_[at_[worker]], -1, now);
  }

  // What a thread of the worker's core has lost so far, had it always been busy.
  Nanos lost(uint32_t worker, Instant now) const {
    if (!speeds_.empty()) {
      return Nanos(static_cast<int64_t>(static_cast<double>(now.ns()) * (1 - speeds_[worker])));
    }
    const Core& core = cores_[at_[worker]];
    const Nanos both = core.both + (core.busy == 2 ? now - core.since : Nanos());
    return Nanos(both.count() * int64_t{prices_.slowdown - 100} / int64_t{prices_.slowdown});
  }

 private:
  struct Core {
    uint32_t taken = 0;  // threads that workers have
    int32_t busy = 0;    // of which so many serve
    Instant since;       // when that changed
    Nanos both;          // how long both were busy, until then
  };

  // Packed: beside a worker, if one is alone on its core. Spread: alone on a core, if one is free.
  // Else the first free thread. There is one.
  uint32_t choose() const {
    const uint32_t wanted = prices_.placement == Placement::kPack ? 1 : 0;
    uint32_t free = UINT32_MAX;
    for (uint32_t core = 0; core < cores_.size(); ++core) {
      if (cores_[core].taken == threads_of(core)) continue;
      if (cores_[core].taken == wanted) return core;
      if (free == UINT32_MAX) free = core;
    }
    RUBATO_CHECK(free != UINT32_MAX);
    return free;
  }
  uint32_t threads_of(uint32_t core) const {
    return core + 1 == cores_.size() && prices_.threads % 2 == 1 ? 1 : 2;
  }

  static void change(Core& core, int32_t by, Instant now) {
    if (core.busy == 2) core.both += now - core.since;
    core.busy += by;
    core.since = now;
    RUBATO_DCHECK(core.busy >= 0 && core.busy <= 2);
  }

  const Prices::Hyperthreads prices_;
  const std::vector<double> speeds_;
  std::vector<uint32_t> at_;  // the core of each worker
  std::vector<Core> cores_;
};

}  // namespace rubato::sim
