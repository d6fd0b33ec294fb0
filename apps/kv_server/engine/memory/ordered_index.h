// SPDX-License-Identifier: Apache-2.0
//
// OrderedIndex: the entries in byte order of their keys, a B+-tree. Touched when a key comes or
// goes, not when its value changes. Beside each entry a node keeps one word of its key, the eight
// bytes after the prefix that all keys of the node share, so that a search rarely looks at a key.
//
// Has a lock of its own, taken after the lock of a shard, never the other way round. Holds no
// reference for what is in a leaf (the table does, and an entry leaves the index first), one for
// each entry that serves as a separator in an inner node, where it may outlive its key.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/memory_account.h"
#include "kv_server/engine/engine.h"
#include "kv_server/engine/memory/entry.h"
#include "kv_server/engine/memory/spin_lock.h"

namespace rubato::kv {

class OrderedIndex {
 public:
  static constexpr uint32_t kFanout = 64;
  struct Node;

  // Adds what its nodes take to the account, which may be null and outlives it.
  explicit OrderedIndex(MemoryAccount* account = nullptr);
  ~OrderedIndex();
  OrderedIndex(const OrderedIndex&) = delete;
  OrderedIndex& operator=(const OrderedIndex&) = delete;

  // Requires that no entry with this key is in the index. False, with nothing changed, if the heap
  // is exhausted.
  bool insert(Entry* entry);
  // Requires that it is in the index.
  void erase(Entry* entry);

  // Appends up to `max` entries in order, from the first key at (`after`: behind) `from` to the end
  // of `range`, and pins each. Fewer than `max` = there are no more.
  void collect(std::string_view from, bool after, const KeyRange& range, size_t max,
               std::vector<Pinned>& out);

  // Takes out everything; give the tree to destroy. The lock is free again when this returns.
  // Null, with nothing changed, if the heap is exhausted.
  Node* detach();
  // Frees a detached tree, calling `checkpoint` (may be null) once per node.
  static void destroy(Node* tree, bool (*checkpoint)());

  size_t cost_bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // What cost_bytes grows by at most at the next insert, given no other one.
  size_t most_growth_bytes() const;
  // For tests: checks order, separators and prefixes, aborts when one is wrong; number of keys.
  size_t check() const;

 private:
  struct Split {
    Entry* separator = nullptr;
    Node* right = nullptr;
  };
  bool reserve();
  void count(int64_t bytes);
  Node* make(bool leaf);
  void free_node(Node* node);
  Split insert_into(Node* node, Entry* entry, bool rightmost);
  Split add(Node* node, uint32_t at, Entry* item, Node* child, bool rightmost);
  Split split(Node* node, uint32_t at);
  bool erase_from(Node* node, Entry* entry);
  void drop_child(Node* node, uint32_t i);
  void merge_children(Node* node, uint32_t left);

  MemoryAccount* const account_;
  mutable SpinLock lock_;
  Node* root_;
  std::atomic<uint32_t> inner_levels_{0};  // above the leaves; written under the lock
  // Taken before a change, so that it cannot fail half-way: a leaf, and an inner node for each
  // level and for a new root.
  std::vector<Node*> spare_leaves_;
  std::vector<Node*> spare_inner_;
  std::atomic<size_t> bytes_{0};  // written under the lock, read without
};

}  // namespace rubato::kv
