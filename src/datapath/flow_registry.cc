// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_registry.h"

#include <algorithm>

#include "base/check.h"

namespace rubato {
namespace {

void add_flow(DatapathStats& stats, const StreamFlow& flow) {
  stats.requests += flow.requests();
  stats.input_bytes += flow.input_bytes();
  stats.output_bytes += flow.output_bytes();
}

}  // namespace

void FlowRegistry::add(StreamFlow& flow) {
  std::lock_guard lock(mutex_);
  flow.registry_index = flows_.size();
  flows_.push_back(&flow);
  ++gone_.flows_accepted;
}

void FlowRegistry::remove(StreamFlow& flow) {
  std::lock_guard lock(mutex_);
  RUBATO_CHECK(flow.registry_index < flows_.size() && flows_[flow.registry_index] == &flow);
  add_flow(gone_, flow);
  StreamFlow* last = flows_.back();
  flows_[flow.registry_index] = last;
  last->registry_index = flow.registry_index;
  flows_.pop_back();
}

uint32_t FlowRegistry::sweep(size_t count, Instant now, const SweepRule& rule) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return 0;
  uint32_t timed_out = 0;
  for (count = std::min(count, flows_.size()); count > 0; --count) {
    if (cursor_ >= flows_.size()) cursor_ = 0;
    if (sweep_one(*flows_[cursor_++], now, rule)) ++timed_out;
  }
  return timed_out;
}

bool FlowRegistry::sweep_one(StreamFlow& flow, Instant now, const SweepRule& rule) {
  if (flow.state() == FlowState::kClosing) return false;
  if (rule.draining) {
    flow.close_idle(true);
    return false;
  }
  if (is_over(flow, now, rule.output)) {
    flow.close_idle_over_limit();
    return false;
  }
  if (flow.opening() && now - flow.opened() >= rule.opening_limit) {
    return flow.close_idle(false);
  }
  const uint64_t activity = flow.input_bytes() + flow.output_bytes();
  if (activity != flow.seen_activity || flow.state() != FlowState::kIdle) {
    flow.seen_activity = activity;
    flow.idle_since = now;
    flow.shrunk = false;
    return false;
  }
  const Nanos idle = now - flow.idle_since;
  if (flow.held_back() && idle >= rule.held_back_limit) {
    flow.close_idle_held_back();
    return false;
  }
  if (rule.idle_timeout > Nanos(0) && idle >= rule.idle_timeout) {
    return flow.close_idle(false);
  }
  if (!flow.shrunk && idle >= rule.shrink_after) {
    flow.shrink_idle();
    flow.shrunk = true;
  }
  return false;
}

// True if the peer has left more than the soft limit unread for so long.
bool FlowRegistry::is_over(StreamFlow& flow, Instant now, const OutputLimit& limit) {
  if (limit.soft_bytes == 0 || flow.unsent_bytes() <= limit.soft_bytes) {
    flow.over_since = Instant::never();
    return false;
  }
  flow.over_since = std::min(flow.over_since, now);
  return now - flow.over_since >= limit.soft_for;
}

void FlowRegistry::add_to(DatapathStats& stats) const {
  std::lock_guard lock(mutex_);
  stats.flows_accepted += gone_.flows_accepted;
  stats.requests += gone_.requests;
  stats.input_bytes += gone_.input_bytes;
  stats.output_bytes += gone_.output_bytes;
  for (const StreamFlow* flow : flows_) {
    if (flow->state() != FlowState::kClosing) {
      ++stats.flows_open;
      if (flow->migrated()) ++stats.flows_migrated;
    }
    add_flow(stats, *flow);
  }
}

uint64_t FlowRegistry::in_flight() const {
  std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const StreamFlow* flow : flows_) sum += flow->in_flight();
  return sum;
}

size_t FlowRegistry::size() const {
  std::lock_guard lock(mutex_);
  return flows_.size();
}

FlowInfo FlowRegistry::describe(const StreamFlow& flow, Instant now) {
  FlowInfo info;
  info.flow = flow.id();
  info.peer = flow.peer();
  info.age = now - flow.opened();
  const bool idle = flow.state() == FlowState::kIdle &&
                    flow.seen_activity == flow.input_bytes() + flow.output_bytes();
  info.idle = idle ? now - flow.idle_since : Nanos(0);
  info.input_bytes = flow.input_bytes();
  info.output_bytes = flow.output_bytes();
  info.unsent_bytes = flow.unsent_bytes();
  info.session = flow.session_ptr();
  return info;
}

}  // namespace rubato
