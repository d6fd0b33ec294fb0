// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_order.h"

#include <mutex>

#include "base/check.h"
#include "datapath/datagram_queue.h"
#include "datapath/time_source.h"

namespace rubato {

bool FlowOrder::settles(const Group& group) const {
  const int64_t moved = group.moved_ns.load(std::memory_order_relaxed);
  if (moved == kNever || moved == kMoving) return moved == kMoving;
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

// Where the first request of the flow is, or would be.
DatagramRequest** FlowOrder::place_of(Group& group, uint64_t flow) {
  DatagramRequest** place = &group.first[flow / kSteeringGroups % kBuckets];
  while (*place != nullptr && (*place)->flow != flow) place = &(*place)->next_flow;
  return place;
}

FlowOrder::Entered FlowOrder::enter(DatagramRequest& request) {
  request.next_of_flow = request.next_flow = nullptr;
  Group& group = groups_[group_of(request.datagram.peer)];
  const std::lock_guard guard(group.lock);
  DatagramRequest** const place = place_of(group, request.flow);
  if (*place == nullptr) {
    request.last_of_flow = &request;
    request.waiting_of_flow = 0;
    *place = &request;
    return Entered::kFirst;
  }
  DatagramRequest& first = **place;
  if (first.waiting_of_flow == kMostWaiting) return Entered::kRefused;
  ++first.waiting_of_flow;
  first.last_of_flow->next_of_flow = &request;
  first.last_of_flow = &request;
  return Entered::kBehind;
}

DatagramRequest* FlowOrder::leave(DatagramRequest& request) {
  Group& group = groups_[group_of(request.datagram.peer)];
  const std::lock_guard guard(group.lock);
  DatagramRequest** const place = place_of(group, request.flow);
  RUBATO_DCHECK(*place == &request);
  DatagramRequest* const next = request.next_of_flow;
  if (next == nullptr) {
    *place = request.next_flow;
    return nullptr;
  }
  next->last_of_flow = request.last_of_flow;
  next->waiting_of_flow = request.waiting_of_flow - 1;
  next->next_flow = request.next_flow;
  *place = next;
  return next;
}

bool FlowOrder::move(DatagramWire& wire, uint32_t number, WorkerId to) {
  Group& group = groups_[number];
  {
    const std::lock_guard guard(group.lock);
    if (settles(group)) return false;
    group.from = wire.queue_of_group(number);
    group.moved_ns.store(kMoving, std::memory_order_release);
  }
  const bool moved = wire.steer_group(number, to);
  const std::lock_guard guard(group.lock);
  // What has begun to wait meanwhile goes first even if the table is as it was.
  const bool matters = moved || group.waiting > 0;
  group.moved_ns.store(matters ? datapath_now().ns() : kNever, std::memory_order_release);
  return moved;
}

}  // namespace rubato
