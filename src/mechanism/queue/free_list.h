// SPDX-License-Identifier: Apache-2.0
//
// FreeList: the free nodes of one array, of which any thread takes one and to which any thread
// gives one back; the one given last is taken first, while caches still hold it (R. K. Treiber, IBM
// RJ 5118, 1986). Lock-free. Borrows the array, which outlives the list; a node has a FreeLink
// `free_link`.
//
// `head_` names a node by its place in the array, and the time that it was given there: a node that
// was taken and given back meanwhile is not mistaken for what it was. Times have 32 bits, so a
// thread would have to stop between two instructions of take() while one node is given 2^32 times.
//
// Memory order: every change of `head_` is a read-modify-write, so who acquires any value of it has
// what all givers before released: the nodes' contents, their links too. A link may be read while
// its node is taken and given again; the compare-exchange then fails. The same holds for depth(),
// which looks twice: who reads a later depth acquires the take before it, and sees another head.
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "mechanism/queue/sync.h"

namespace rubato {

template <class Sync = StdSync>
struct FreeLink {
  typename Sync::template Atomic<uint64_t> next{0};   // as FreeList::head_
  typename Sync::template Atomic<uint32_t> depth{0};  // nodes in the list from this one on
  typename Sync::template Plain<uint32_t> times{};    // that it was given
};

template <class Node, class Sync = StdSync>
class FreeList {
 public:
  // Empty. Requires an array of less than 2^32 units of the nodes' alignment.
  explicit FreeList(Node* nodes)
      : before_first_(reinterpret_cast<uintptr_t>(nodes) - alignof(Node)) {}
  FreeList(const FreeList&) = delete;
  FreeList& operator=(const FreeList&) = delete;

  // Null = there is none.
  Node* take() {
    uint64_t head = head_.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(head) != 0) {
      Node& node = at(head);
      const uint64_t next = node.free_link.next.load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(head, next, std::memory_order_acquire)) [[likely]] {
        return &node;
      }
    }
    return nullptr;
  }

  // The node is of the array, and not in the list.
  void give(Node& node) {
    FreeLink<Sync>& link = node.free_link;
    link.times = link.times + 1;
    const uint64_t given = uint64_t{link.times} << 32 | place_of(node);
    uint64_t head = head_.load(std::memory_order_acquire);
    do {
      link.next.store(head, std::memory_order_relaxed);
      link.depth.store(depth_from(head) + 1, std::memory_order_release);
    } while (!head_.compare_exchange_weak(head, given, std::memory_order_acq_rel));
  }

  // The number of nodes in the list at one moment of the call.
  uint32_t depth() const {
    for (;;) {
      const uint64_t head = head_.load(std::memory_order_acquire);
      const uint32_t depth = depth_from(head);
      if (head_.load(std::memory_order_acquire) == head) return depth;
    }
  }

 private:
  // Places count from 1 in units of the alignment; 0 = no node.
  Node& at(uint64_t head) const {
    auto* const node = reinterpret_cast<Node*>(
        before_first_ + uint64_t{static_cast<uint32_t>(head)} * alignof(Node));
    if (node == nullptr) __builtin_unreachable();
    return *node;
  }
  uint64_t place_of(const Node& node) const {
    return (reinterpret_cast<uintptr_t>(&node) - before_first_) / alignof(Node);
  }
  uint32_t depth_from(uint64_t head) const {
    const bool none = static_cast<uint32_t>(head) == 0;
    return none ? 0 : at(head).free_link.depth.load(std::memory_order_acquire);
  }

  const uintptr_t before_first_;
  alignas(limits::kCacheLineBytes) typename Sync::template Atomic<uint64_t> head_{0};
};

}  // namespace rubato
