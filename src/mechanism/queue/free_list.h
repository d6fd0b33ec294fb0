// SPDX-License-Identifier: Apache-2.0
//
// FreeList: the free nodes of one array, of which any thread takes one and to which any thread
// gives one back. Two stacks (R. K. Treiber, IBM RJ 5118, 1986): one to take from, one to give to,
// all of which becomes the other one when that is empty. So who takes and who gives contend for a
// line once in as many nodes as were given. Lock-free but for refill(). Borrows the array, which
// outlives the list; a node has a FreeLink `free_link`.
//
// A head names a node by its place in the array, and the time that it was given there: a node that
// was taken and given back meanwhile is not mistaken for what it was. Times have 32 bits, so a
// thread would have to stop between two instructions of take() while one node is given 2^32 times.
//
// Memory order: every change of `given_` is a read-modify-write, so who acquires any value of it
// has what all givers before released: the nodes' contents, their links too. refill() acquires that
// and releases it by its store to `head_`, whose other changes are read-modify-writes as well. A
// link may be read while its node is taken and given again; the compare-exchange then fails.
//
// depth() looks at both heads twice. When a refill has moved a node from where depth() saw it to
// where it looks next, `given_` has changed, which the second look sees, having acquired the store
// to `head_`; a node that was taken and given had left `head_` before `given_` had it. So no node
// counts twice; one that a refill moves at the time may not count at all.
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "mechanism/queue/sync.h"

namespace rubato {

template <class Sync = StdSync>
struct FreeLink {
  typename Sync::template Atomic<uint64_t> next{0};   // as the heads of FreeList
  typename Sync::template Atomic<uint32_t> depth{0};  // nodes in the stack from this one on
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

  // Null = there is none, until a refill().
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
    uint64_t head = given_.load(std::memory_order_acquire);
    do {
      link.next.store(head, std::memory_order_relaxed);
      link.depth.store(depth_from(head) + 1, std::memory_order_release);
    } while (!given_.compare_exchange_weak(head, given, std::memory_order_acq_rel));
  }

  // After a take() that found none: has what was given since the last refill taken from now on, and
  // takes one of it. Null = nothing was. One thread at a time, from that take() on.
  Node* refill() {
    const uint64_t given = given_.exchange(0, std::memory_order_acq_rel);
    if (static_cast<uint32_t>(given) == 0) return nullptr;
    Node& node = at(given);
    head_.store(node.free_link.next.load(std::memory_order_relaxed), std::memory_order_release);
    return &node;
  }

  // The number of nodes in the list at one moment of the call, or fewer beside a refill.
  uint32_t depth() const {
    for (;;) {
      const uint64_t given = given_.load(std::memory_order_acquire);
      const uint32_t depth_of_given = depth_from(given);
      const uint64_t head = head_.load(std::memory_order_acquire);
      const uint32_t depth = depth_from(head);
      if (given_.load(std::memory_order_acquire) == given &&
          head_.load(std::memory_order_acquire) == head) {
        return depth_of_given + depth;
      }
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
  alignas(limits::kCacheLineBytes) typename Sync::template Atomic<uint64_t> given_{0};
};

}  // namespace rubato
