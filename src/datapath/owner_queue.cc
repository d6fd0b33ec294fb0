// SPDX-License-Identifier: Apache-2.0
#include "datapath/owner_queue.h"

#include <algorithm>
#include <utility>

#include "datapath/time_source.h"

namespace rubato {
namespace {

constexpr Nanos kSweepStep = Nanos::millis(5);
constexpr Nanos kShrinkAfter = Nanos::seconds(2);

}  // namespace

OwnerQueue::OwnerQueue(DatapathQueue& queue, FlowIndex& index, const FlowLimits& limits,
                   const DrainFlag<>& draining)
    : index_(index), last_sweep_(datapath_now()) {
  host_.queue = &queue;
  host_.registry = &registry_;
  host_.index = &index;
  host_.limits = limits;
  host_.draining = &draining;
}

OwnerQueue::~OwnerQueue() {
  std::vector<StreamFlow*> flows;
  registry_.visit([&](StreamFlow& flow) {
    flows.push_back(&flow);
    return true;
  });
  for (StreamFlow* flow : flows) delete flow;
}

void OwnerQueue::add(std::unique_ptr<StreamFlow> flow) {
  StreamFlow& added = *flow.release();
  registry_.add(added);
  index_.add(added);
}

uint32_t OwnerQueue::take_yielded(std::span<Request*> out, Instant now, bool late) {
  if (yielded_ == nullptr) {
    yielded_ = host_.yielded.take_all();
    if (yielded_ == nullptr) return 0;
  }
  uint32_t taken = 0;
  while (yielded_ != nullptr && taken < out.size()) {
    StreamFlow* flow = std::exchange(yielded_, yielded_->next_in_list);
    taken += flow->resume(out.subspan(taken), now, late);
  }
  left_over_.store(yielded_ != nullptr, std::memory_order_relaxed);
  return taken;
}

uint32_t OwnerQueue::reap() {
  StreamFlow* flow = host_.closed.take_all();
  uint32_t freed = 0;
  while (flow != nullptr) {
    StreamFlow* next = flow->next_in_list;
    if (!flow->may_be_freed()) {
      host_.closed.push(*flow);
    } else if (FlowHost* other = flow->next_stop(host_)) {
      other->closed.push(*flow);
      other->queue->wake();
    } else {
      index_.remove(*flow);
      flow->owner_queue().registry->remove(*flow);
      delete flow;
      ++freed;
    }
    flow = next;
  }
  return freed;
}

void OwnerQueue::sweep(Instant now, size_t most, Nanos timeout) {
  const MemoryAccount* const memory = host_.limits.memory;
  const SweepRule rule{timeout, kShrinkAfter, draining(),
                       memory != nullptr ? memory->output_limit() : OutputLimit{}};
  if (rule.draining) {
    registry_.sweep(~size_t{0}, now, rule);
    return;
  }
  if (now - last_trim_ >= kShrinkAfter) {
    last_trim_ = now;
    host_.sent_pages.pool.trim();
  }
  const Nanos since = now - last_sweep_;
  if (since < kSweepStep) return;
  last_sweep_ = now;
  const double share = std::min(1.0, since.seconds() / kSweepRound.seconds());
  const auto due = static_cast<size_t>(share * static_cast<double>(registry_.size())) + 1;
  const uint32_t closed = registry_.sweep(std::min(due, most), now, rule);
  if (closed > 0) timed_out_.fetch_add(closed, std::memory_order_relaxed);
}

void OwnerQueue::add_to(DatapathStats& stats) const {
  registry_.add_to(stats);
  stats.flows_timed_out += timed_out_.load(std::memory_order_relaxed);
  stats.flows_overflowed += host_.overflowed.load(std::memory_order_relaxed);
  stats.flows_input_limit += host_.input_limit.load(std::memory_order_relaxed);
  stats.flows_steered += host_.steered.load(std::memory_order_relaxed);
  stats.flows_unsteered += host_.unsteered.load(std::memory_order_relaxed);
  const ZerocopyCounts& counts = host_.sent_pages.counts;
  stats.zerocopy_sends += counts.sends.load(std::memory_order_relaxed);
  stats.zerocopy_copied += counts.copied.load(std::memory_order_relaxed);
  stats.zerocopy_refused += counts.refused.load(std::memory_order_relaxed);
}

}  // namespace rubato
