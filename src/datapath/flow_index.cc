// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_index.h"

namespace rubato {

void FlowIndex::add(StreamFlow& flow) {
  Shard& shard = shard_of(flow.id());
  std::lock_guard lock(shard.mutex);
  shard.flows.emplace(flow.id(), &flow);
}

void FlowIndex::remove(const StreamFlow& flow) {
  Shard& shard = shard_of(flow.id());
  std::lock_guard lock(shard.mutex);
  shard.flows.erase(flow.id());
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
