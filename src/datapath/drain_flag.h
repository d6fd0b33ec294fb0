// SPDX-License-Identifier: Apache-2.0
//
// DrainFlag: tells the flows of one datapath to take no new requests. Any thread. Whoever has set
// it may count the requests in flight: once there are none, there will be none.
//
// Memory order. Two sides, each of which writes a word and then reads the other's: who wants a
// request from a flow takes the flow (flow_ownership.h) and then loads the flag; who drains sets
// the flag and then loads the flows' states. All four accesses are seq_cst, so the owner sees the
// flag and takes no request, or the flow is seen to have an owner. A thread that has learned from
// another, by acquire, that the flag is set may count as well. A flow that is made later comes to
// the registry after the count, whose mutex shows its owner the flag.
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include "mechanism/queue/sync.h"

namespace rubato {

template <class Sync = StdSync>
class DrainFlag {
 public:
  // False = it was set before.
  bool set() { return !set_.exchange(true, std::memory_order_seq_cst); }
  bool is_set() const { return set_.load(std::memory_order_seq_cst); }

 private:
  typename Sync::template Atomic<bool> set_{false};
};

}  // namespace rubato
