// SPDX-License-Identifier: Apache-2.0
//
// FlowRegistry: the open flows whose home is one queue, whichever queue they come in by now. Used
// for connecting, disconnecting, inspection and the slow sweep for idle flows. Guarded by one mutex
// that no request takes. A flow in the registry is not freed while the mutex is held.
#pragma once

#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "datapath/stream_flow.h"

namespace rubato {

struct SweepRule {
  static constexpr Nanos kOpeningLimit = Nanos::seconds(10);
  static constexpr Nanos kHeldBackLimit = Nanos::seconds(60);

  Nanos idle_timeout;         // zero = none
  Nanos shrink_after;         // idle flows give their reply buffer back after this
  bool draining = false;      // close every idle flow
  OutputLimit output;
  Nanos opening_limit = kOpeningLimit;  // for a handshake
  Nanos held_back_limit = kHeldBackLimit;  // without a byte in either direction
};

class FlowRegistry {
 public:
  static constexpr size_t kTurn = 32;  // flows visited under one lock by visit_in_turns

  void add(StreamFlow& flow);
  // Afterwards the caller may free the flow. Any thread.
  void remove(StreamFlow& flow);

  // Looks at the next `count` flows in turn; returns how many it closed for idling. Called by the
  // holder of the queue's poll lock. Does nothing while another thread inspects the registry.
  uint32_t sweep(size_t count, Instant now, const SweepRule& rule);

  // Adds the flows' counters to `stats`. Any thread.
  void add_to(DatapathStats& stats) const;
  uint64_t in_flight() const;
  size_t size() const;

  // Calls visit(flow) for each; false from visit ends the walk. Any thread.
  template <class Visit>
  bool visit(Visit&& visit_flow) const {
    std::lock_guard lock(mutex_);
    for (StreamFlow* flow : flows_) {
      if (!visit_flow(*flow)) return false;
    }
    return true;
  }

  // The same in turns, with `pause` called between them and no lock held then. A flow that stays
  // connected throughout is visited exactly once; any thread.
  template <class Visit, class Pause>
  void visit_in_turns(Visit&& visit_flow, Pause&& pause) const {
    std::unordered_set<uint64_t> seen;
    for (size_t cursor = ~size_t{0}; cursor > 0;) {
      if (cursor != ~size_t{0}) pause();
      std::lock_guard lock(mutex_);
      // The walk starts at the end, because a removal fills its gap with the last flow: a flow not
      // seen yet then still lies ahead, and a flow that was seen is known.
      cursor = std::min(cursor, flows_.size());
      for (size_t left = kTurn; left > 0 && cursor > 0; --left) {
        StreamFlow& flow = *flows_[--cursor];
        if (seen.insert(flow.id()).second) visit_flow(flow);
      }
    }
  }

  static FlowInfo describe(const StreamFlow& flow, Instant now);

 private:
  bool sweep_one(StreamFlow& flow, Instant now, const SweepRule& rule);
  static bool is_over(StreamFlow& flow, Instant now, const OutputLimit& limit);

  mutable std::mutex mutex_;
  std::vector<StreamFlow*> flows_;
  size_t cursor_ = 0;
  DatapathStats gone_;  // sums of the flows that were removed
};

}  // namespace rubato
