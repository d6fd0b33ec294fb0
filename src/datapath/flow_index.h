// SPDX-License-Identifier: Apache-2.0
//
// FlowIndex: all flows of a datapath by number, for calls that name a flow from outside, to close
// or to steer it, and for choosing one of them all. The index has shards, each with a mutex that is
// held for a look-up, and never by a request, but where memory is short. A flow is not freed while
// its shard's mutex is held. Any thread.
#pragma once

#include <array>
#include <mutex>
#include <unordered_map>

#include "base/limits.h"
#include "datapath/stream_flow.h"

namespace rubato {

class FlowIndex {
 public:
  void add(StreamFlow& flow);
  // Afterwards the caller, the only owner of the flow, may free it.
  void remove(const StreamFlow& flow);

  // Calls visit(flow) under the shard's mutex and returns its result; false = there is no such
  // flow, or the flow is closing.
  template <class Visit>
  bool visit(uint64_t flow_id, Visit&& visit_flow) {
    Shard& shard = shard_of(flow_id);
    std::lock_guard lock(shard.mutex);
    const auto at = shard.flows.find(flow_id);
    if (at == shard.flows.end() || at->second->state() == FlowState::kClosing) return false;
    return visit_flow(*at->second);
  }

  // Datapath::close_flow.
  bool close(uint64_t flow_id);
  // The flow that has most memory for a request of which a part has come, if that is more than
  // `asking` has; 0 = there is none. It is closed, and counted, unless it is ending already. Looks
  // at every flow.
  uint64_t close_larger(const StreamFlow& asking);
  // The flow is here, and has not given back that memory.
  bool has_half_sent(uint64_t flow_id);

  // Datapath::steer; to null = unsteer.
  bool steer(uint64_t flow_id, FlowHost* to);

 private:
  static constexpr size_t kShards = 64;

  struct alignas(limits::kCacheLineBytes) Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, StreamFlow*> flows;
  };

  Shard& shard_of(uint64_t flow_id) { return shards_[flow_id % kShards]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace rubato
