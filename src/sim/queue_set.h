// SPDX-License-Identifier: Apache-2.0
//
// QueueSet<P>: all places where requests of a run wait: the queues that policy P declares and the
// NIC's ring of each worker. It has no prices. One owner.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "policy/archetype.h"
#include "policy/contract.h"
#include "policy/extensions.h"
#include "sim/bit_ring.h"
#include "sim/job_queue.h"
#include "sim/orderable_job_queue.h"

namespace rubato::sim {

template <Policy P>
class QueueSet {
 public:
  using Queue = std::conditional_t<kOrders<P>, OrderableJobQueue, JobQueue>;

  // Queues of `capacity` jobs each.
  QueueSet(const P& policy, uint32_t workers, uint32_t capacity)
      : capacity_(capacity), rings_(workers) {
    for (const QueueSpec& spec : P::kQueues) {
      const uint32_t lanes = lanes_of(policy, spec, workers);
      rows_.push_back(Row{queues_of(spec, lanes), BitRing(lanes), BitRing(lanes)});
    }
  }

  const Queue& at(QueueRef q) const { return rows_[q.spec].queues[q.lane]; }
  JobQueue& ring(uint32_t worker) { return rings_[worker]; }
  const JobQueue& ring(uint32_t worker) const { return rings_[worker]; }
  uint64_t waiting() const { return waiting_; }  // in all queues; not in rings

  // False = full.
  [[gnu::always_inline]] bool insert(QueueRef q, Job* job) {
    Row& row = rows_[q.spec];
    Queue& queue = row.queues[q.lane];
    const uint32_t before = queue.depth();
    if (!queue.put(job, capacity_)) return false;
    if (before == 0) row.held.add(q.lane);
    if (before == 1) row.held_more.add(q.lane);
    ++waiting_;
    return true;
  }

  // kTake is Queue::take or Queue::take_tail. Requires that q is not empty.
  template <auto kTake = &Queue::take>
  Job* remove(QueueRef q) {
    Row& row = rows_[q.spec];
    Queue& queue = row.queues[q.lane];
    RUBATO_DCHECK(!queue.empty());
    Job* const job = (queue.*kTake)();
    const uint32_t left = queue.depth();
    if (left == 0) row.held.remove(q.lane);
    if (left == 1) row.held_more.remove(q.lane);
    --waiting_;
    return job;
  }

  // How many lanes of `spec`, in ring order, lie before the first of `count` from `from` on that
  // holds more than `above` jobs; `count` if none does.
  uint32_t find_deeper(uint32_t spec, uint32_t from, uint32_t count, uint32_t above) const {
    const Row& row = rows_[spec];
    const auto lanes = static_cast<uint32_t>(row.queues.size());
    const BitRing& candidates = above == 0 ? row.held : row.held_more;
    uint32_t step = 0;
    for (uint32_t lane = from; step < count; ++step, lane = lane + 1 == lanes ? 0 : lane + 1) {
      const uint32_t skip = candidates.find(lane, count - step);
      step += skip;
      if (step == count) break;
      lane += skip;
      if (lane >= lanes) lane -= lanes;
      if (row.queues[lane].depth() > above) break;
    }
    return step;
  }

  // visitor(queue, job) for the head of every queue that holds something, and of every ring, as if
  // it were in the queue that its worker polls into.
  template <class Visitor>
  void for_each_head(Visitor&& visitor) const {
    for (uint32_t spec = 0; spec < rows_.size(); ++spec) {
      const Row& row = rows_[spec];
      const auto lanes = static_cast<uint32_t>(row.queues.size());
      for (uint32_t lane = row.held.find(0, lanes); lane < lanes;) {
        visitor(QueueRef{spec, lane}, *row.queues[lane].head());
        if (++lane < lanes) lane += row.held.find(lane, lanes - lane);
      }
    }
    for (uint32_t w = 0; w < rings_.size(); ++w) {
      if (!rings_[w].empty()) visitor(QueueRef{0, w}, *rings_[w].head());
    }
  }

 private:
  struct Row {
    std::vector<Queue> queues;
    BitRing held;       // the lanes that hold something
    BitRing held_more;  // and those that hold more than one job
  };

  static std::vector<Queue> queues_of(const QueueSpec& spec, uint32_t lanes) {
    if constexpr (kOrders<P>) {
      return std::vector<Queue>(lanes, Queue(spec.order));
    } else {
      return std::vector<Queue>(lanes);
    }
  }

  uint32_t capacity_;
  uint64_t waiting_ = 0;
  std::vector<Row> rows_;
  std::vector<JobQueue> rings_;
};

}  // namespace rubato::sim
