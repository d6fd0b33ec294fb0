// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_order.h"

#include <mutex>

#include "base/check.h"
#include "datapath/datagram_queue.h"
#include "datapath/time_source.h"

namespace rubato {

bool FlowOrder::settles(const Group& group) const {
  const int64_t moved = group.moved_ns.load(std::memory_order_relaxed);
  if (moved == kNever) return false;
  const int64_t emptied = emptied_ns_[group.from.value].load(std::memory_order_acquire);
  return group.waiting > 0 || emptied < moved + kSettles.count();
}

std::optional<WorkerId> FlowOrder::old_queue(uint32_t number, WorkerId at) {
  Group& group = groups_[number];
  if (group.moved_ns.load(std::memory_order_acquire) == kNever) return std::nullopt;
  const std::lock_guard guard(group.lock);
  if (!settles(group)) group.moved_ns.store(kNever, std::memory_order_relaxed);
  if (!settles(group) || group.from == at) return std::nullopt;
  ++group.waiting;
  return group.from;
}

void FlowOrder::settled(uint32_t number) {
  Group& group = groups_[number];
  const std::lock_guard guard(group.lock);
  RUBATO_DCHECK(group.waiting > 0);
  --group.waiting;
}

bool FlowOrder::enter(DatagramRequest& request) {
  request.next_of_flow = nullptr;
  Group& group = groups_[group_of(request.datagram.peer)];
  const std::lock_guard guard(group.lock);
  const auto [at, first] = group.last.try_emplace(request.flow, &request);
  if (first) return true;
  at->second->next_of_flow = &request;
  at->second = &request;
  return false;
}

DatagramRequest* FlowOrder::leave(DatagramRequest& request) {
  Group& group = groups_[group_of(request.datagram.peer)];
  const std::lock_guard guard(group.lock);
  if (request.next_of_flow == nullptr) group.last.erase(request.flow);
  return request.next_of_flow;
}

bool FlowOrder::move(DatagramWire& wire, uint32_t number, WorkerId to) {
  Group& group = groups_[number];
  const std::lock_guard guard(group.lock);
  if (settles(group)) return false;
  group.from = wire.queue_of_group(number);
  group.moved_ns.store(kMoving, std::memory_order_release);
  const bool moved = wire.steer_group(number, to);
  group.moved_ns.store(moved ? datapath_now().ns() : kNever, std::memory_order_release);
  return moved;
}

}  // namespace rubato
