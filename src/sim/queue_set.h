// SPDX-License-Identifier: Apache-2.0
//
// QueueSet<P>: all places where requests of a run wait: the queues that policy P declares and the
// NIC's ring of each worker. It has no prices. One owner.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
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
    for (size_t i = 0; i < queues_.size(); ++i) {
      const QueueDeclaration& declaration = P::kQueues[i];
      const uint32_t queue_count = queue_count_of(policy, declaration, workers);
      queues_[i] = {queues_of(declaration, queue_count), BitRing(queue_count),
                    BitRing(queue_count)};
    }
  }

  const Queue& at(QueueRef q) const { return queues_[q.declaration].queues[q.index]; }
  JobQueue& ring(uint32_t worker) { return rings_[worker]; }
  const JobQueue& ring(uint32_t worker) const { return rings_[worker]; }
  uint64_t waiting() const { return waiting_; }  // in all queues; not in rings

  // False = full.
  [[gnu::always_inline]] bool insert(QueueRef q, Job* job) {
    Queues& row = queues_[q.declaration];
    Queue& queue = row.queues[q.index];
    const uint32_t before = queue.depth();
    if (!queue.put(job, capacity_)) return false;
    if (before == 0) row.held.add(q.index);
    if (before == 1) row.held_more.add(q.index);
    ++waiting_;
    return true;
  }

  // kTake is Queue::take or Queue::take_tail. Requires that q is not empty.
  template <auto kTake = &Queue::take>
  Job* remove(QueueRef q) {
    Queues& row = queues_[q.declaration];
    Queue& queue = row.queues[q.index];
    RUBATO_DCHECK(!queue.empty());
    Job* const job = (queue.*kTake)();
    const uint32_t left = queue.depth();
    if (left == 0) row.held.remove(q.index);
    if (left == 1) row.held_more.remove(q.index);
    --waiting_;
    return job;
  }

  // How many queues of `declaration`, in ring order, lie before the first of `count` from `from` on
  // that holds more than `above` jobs; `count` if none does.
  uint32_t find_deeper(uint32_t declaration, uint32_t from, uint32_t count, uint32_t above) const {
    const Queues& row = queues_[declaration];
    const auto queue_count = static_cast<uint32_t>(row.queues.size());
    const BitRing& candidates = above == 0 ? row.held : row.held_more;
    uint32_t step = 0;
    for (uint32_t index = from; step < count;
         ++step, index = index + 1 == queue_count ? 0 : index + 1) {
      const uint32_t skip = candidates.find(index, count - step);
      step += skip;
      if (step == count) break;
      index += skip;
      if (index >= queue_count) index -= queue_count;
      if (row.queues[index].depth() > above) break;
    }
    return step;
  }

  // The place in `indices` of the first of these queues of `declaration` that holds a job; their
  // number if none does.
  uint32_t find_held(uint32_t declaration, std::span<const uint8_t> indices) const {
    const BitRing& held = queues_[declaration].held;
    const auto all = static_cast<uint32_t>(indices.size());
    if (held.empty() || all == 0) return all;
    if (held.has(indices[0])) return 0;
    if (held.count() == 1) {
      const auto only = static_cast<int>(held.find(0, held.size()));
      const void* const found = std::memchr(indices.data(), only, indices.size());
      if (found == nullptr) return all;
      return static_cast<uint32_t>(static_cast<const uint8_t*>(found) - indices.data());
    }
    uint32_t place = 0;
    while (place < all && !held.has(indices[place])) ++place;
    return place;
  }

  // The first index from `from` to `end` - 1 that holds at most `most`: the jobs in its queue of
  // `declaration`, and one if it is not in `idle`; `end` if there is none.
  uint32_t find_shorter(uint32_t declaration, const BitRing& idle, uint32_t most,
                        uint32_t from, uint32_t end) const {
    const Queues& row = queues_[declaration];
    if (most == 0 && from < end) from += idle.find(from, end - from);
    for (uint32_t i = from; i < end; i = (i / 64 + 1) * 64) {
      uint64_t word = row.shorter(i / 64, idle, most) >> (i % 64);
      for (; word != 0; word &= word - 1) {
        const uint32_t index = i + static_cast<uint32_t>(std::countr_zero(word));
        if (index >= end) break;
        if (row.queues[index].depth() + (idle.has(index) ? 0 : 1) <= most) return index;
      }
    }
    return end;
  }

  // visitor(queue, job) for the head of every queue that holds something, and of every ring, as if
  // it were in the queue that its worker polls into.
  template <class Visitor>
  void for_each_head(Visitor&& visitor) const {
    for (uint32_t declaration = 0; declaration < queues_.size(); ++declaration) {
      const Queues& row = queues_[declaration];
      const auto queue_count = static_cast<uint32_t>(row.queues.size());
      for (uint32_t index = row.held.find(0, queue_count); index < queue_count;) {
        visitor(QueueRef{declaration, index}, *row.queues[index].head());
        if (++index < queue_count) index += row.held.find(index, queue_count - index);
      }
    }
    for (uint32_t w = 0; w < rings_.size(); ++w) {
      if (!rings_[w].empty()) visitor(QueueRef{0, w}, *rings_[w].head());
    }
  }

 private:
  struct Queues {
    std::vector<Queue> queues;
    BitRing held{0};       // the queues that hold something
    BitRing held_more{0};  // and those that hold more than one job

    // 64 indices, of which all that find_shorter looks for are set.
    uint64_t shorter(uint32_t word, const BitRing& idle, uint32_t most) const {
      if (most == 0) return ~held.word(word) & idle.word(word);
      if (most == 1) return ~held.word(word) | (~held_more.word(word) & idle.word(word));
      return ~uint64_t{0};
    }
  };

  static std::vector<Queue> queues_of(const QueueDeclaration& declaration, uint32_t queue_count) {
    if constexpr (kOrders<P>) {
      std::vector<Queue> queues;
      queues.reserve(queue_count);
      for (uint32_t q = 0; q < queue_count; ++q) queues.emplace_back(declaration.order);
      return queues;
    } else {
      return std::vector<Queue>(queue_count);
    }
  }

  uint32_t capacity_;
  uint64_t waiting_ = 0;
  std::array<Queues, std::size(P::kQueues)> queues_;
  std::vector<JobQueue> rings_;
};

}  // namespace rubato::sim
