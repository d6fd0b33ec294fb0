// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_index.h"

#include <algorithm>

#include "base/check.h"

namespace rubato {

namespace {

// Its owner finds the connection gone.
bool end(StreamFlow& flow) {
  flow.doom();
  flow.abort();
  return true;
}

}  // namespace

void FlowIndex::add(StreamFlow& flow) {
  Shard& shard = shard_of(flow.id());
  std::lock_guard lock(shard.mutex);
  [[maybe_unused]] const bool added = shard.flows.emplace(flow.id(), &flow).second;
  RUBATO_DCHECK(added);  // numbers of flows are unique
}

void FlowIndex::remove(const StreamFlow& flow) {
  Shard& shard = shard_of(flow.id());
  std::lock_guard lock(shard.mutex);
  [[maybe_unused]] const size_t erased = shard.flows.erase(flow.id());
  RUBATO_DCHECK(erased == 1);
}

bool FlowIndex::close(uint64_t flow_id) {
  return visit(flow_id, end);
}

uint64_t FlowIndex::close_larger(const StreamFlow& asking) {
  uint64_t largest = 0;
  size_t bytes = std::max(asking.half_sent_bytes(), BufferPool::kBlockBytes);
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (const auto& [id, flow] : shard.flows) {
      const size_t has = flow->half_sent_bytes();
      if (has <= bytes) continue;
      bytes = has;
      largest = id;
    }
  }
  visit(largest, [](StreamFlow& flow) {
    if (flow.doomed()) return false;
    flow.owner_queue().input_limit.fetch_add(1, std::memory_order_relaxed);
    return end(flow);
  });
  return largest;
}

bool FlowIndex::has_half_sent(uint64_t flow_id) {
  Shard& shard = shard_of(flow_id);
  const std::lock_guard lock(shard.mutex);
  const auto at = shard.flows.find(flow_id);
  return at != shard.flows.end() && at->second->half_sent_bytes() > 0;
}

bool FlowIndex::steer(uint64_t flow_id, FlowHost* to) {
  StreamFlow* owned = nullptr;
  const bool steered = visit(flow_id, [&](StreamFlow& flow) {
    const StreamFlow::Redirect outcome = flow.redirect(to != nullptr ? *to : flow.owner_queue());
    if (outcome == StreamFlow::Redirect::kOwned) owned = &flow;
    return outcome != StreamFlow::Redirect::kNone;
  });
  // Other threads do not free a flow that has an owner, so the wire moves without the mutex.
  if (owned != nullptr) owned->migrate();
  return steered;
}

}  // namespace rubato
