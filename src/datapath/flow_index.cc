// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_index.h"

#include "base/check.h"

namespace rubato {

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
