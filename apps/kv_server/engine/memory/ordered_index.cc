// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/memory/ordered_index.h"

#include <mutex>

#include "kv_server/engine/memory/index_node.h"

namespace rubato::kv {

namespace {

constexpr uint32_t kFanout = OrderedIndex::kFanout;
constexpr uint32_t kMergeBelow = kFanout / 4;         // a leaf this empty looks for a neighbour
constexpr uint32_t kMergeFits = kFanout - kFanout / 4;  // and joins it if both fill no more
constexpr uint32_t kMaxHeight = 16;                   // 64 / 2 children each: 2^80 keys

size_t node_bytes(bool leaf) {
  return heap_bytes(leaf ? sizeof(OrderedIndex::Node) : sizeof(InnerNode));
}

void delete_node(OrderedIndex::Node* node) {
  if (node->leaf) {
    delete node;
  } else {
    delete static_cast<InnerNode*>(node);
  }
}

}  // namespace

OrderedIndex::OrderedIndex(MemoryAccount* account) : account_(account), root_(nullptr) {
  RUBATO_CHECK(reserve());
  root_ = make(true);
}

OrderedIndex::~OrderedIndex() {
  destroy(root_, nullptr);
  for (Node* node : spare_leaves_) delete_node(node);
  for (Node* node : spare_inner_) delete_node(node);
}

bool OrderedIndex::reserve() {
  const size_t inner = inner_levels_ + 1;
  if (!spare_leaves_.empty() && spare_inner_.size() >= inner) [[likely]] return true;
  try {
    spare_leaves_.reserve(1);
    spare_inner_.reserve(inner);
    if (spare_leaves_.empty()) spare_leaves_.push_back(new Node(true));
    while (spare_inner_.size() < inner) spare_inner_.push_back(new InnerNode);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

size_t OrderedIndex::most_growth_bytes() const {
  const size_t inner = inner_levels_.load(std::memory_order_relaxed) + 1;
  return node_bytes(true) + inner * node_bytes(false);
}

void OrderedIndex::count(int64_t bytes) {
  bytes_.fetch_add(static_cast<size_t>(bytes), std::memory_order_relaxed);
  if (account_ != nullptr) account_->add_data(bytes);
}

// There is a spare one.
OrderedIndex::Node* OrderedIndex::make(bool leaf) {
  std::vector<Node*>& spare = leaf ? spare_leaves_ : spare_inner_;
  RUBATO_CHECK(!spare.empty());
  count(static_cast<int64_t>(node_bytes(leaf)));
  Node* const node = spare.back();
  spare.pop_back();
  return node;
}

void OrderedIndex::free_node(Node* node) {
  count(-static_cast<int64_t>(node_bytes(node->leaf)));
  delete_node(node);
}

bool OrderedIndex::insert(Entry* entry) {
  const std::lock_guard guard(lock_);
  if (!reserve()) return false;
  const Split split = insert_into(root_, entry, true);
  if (split.right == nullptr) return true;
  Node* const root = make(false);
  root->place(0, nullptr, root_);
  root->place(1, split.separator, split.right);
  root_ = root;
  ++inner_levels_;
  return true;
}

OrderedIndex::Split OrderedIndex::insert_into(Node* node, Entry* entry, bool rightmost) {
  if (node->leaf) return add(node, node->bound(entry->key(), false), entry, nullptr, rightmost);
  const uint32_t i = node->bound(entry->key(), true) - 1;
  const Split below =
      insert_into(node->children()[i], entry, rightmost && i + 1 == node->count);
  if (below.right == nullptr) return {};
  return add(node, i + 1, below.separator, below.right, rightmost);
}

OrderedIndex::Split OrderedIndex::add(Node* node, uint32_t at, Entry* item, Node* child,
                                      bool rightmost) {
  if (node->count < kFanout) {
    node->place(at, item, child);
    return {};
  }
  if (rightmost && at == kFanout) {  // keys arrive in order: leave full nodes behind
    Node* const right = make(node->leaf);
    right->place(0, node->leaf ? item : nullptr, child);
    if (node->leaf) item->retain();
    return {item, right};
  }
  const Split halves = split(node, kFanout / 2);
  if (at <= kFanout / 2) {
    node->place(at, item, child);
  } else {
    halves.right->place(at - kFanout / 2, item, child);
  }
  return halves;
}

OrderedIndex::Split OrderedIndex::split(Node* node, uint32_t at) {
  Node* const right = make(node->leaf);
  Entry* const separator = node->items[at];
  std::copy(node->items + at, node->items + node->count, right->items);
  if (node->leaf) {
    separator->retain();
  } else {
    // The separator moves up with its reference.
    std::copy(node->children() + at, node->children() + node->count, right->children());
    right->items[0] = nullptr;
  }
  right->count = node->count - at;
  node->count = at;
  right->rebuild();
  node->rebuild();
  return {separator, right};
}

void OrderedIndex::erase(Entry* entry) {
  const std::lock_guard guard(lock_);
  erase_from(root_, entry);
  while (!root_->leaf && root_->count <= 1) {
    Node* const old = root_;
    RUBATO_CHECK(old->count == 1 || reserve());
    root_ = old->count == 1 ? old->children()[0] : make(true);
    --inner_levels_;
    free_node(old);
  }
}

// True when the node is empty now.
bool OrderedIndex::erase_from(Node* node, Entry* entry) {
  if (node->leaf) {
    const uint32_t at = node->bound(entry->key(), false);
    RUBATO_CHECK(at < node->count && node->items[at] == entry);
    node->remove(at);
    return node->count == 0;
  }
  const uint32_t i = node->bound(entry->key(), true) - 1;
  Node* const child = node->children()[i];
  if (erase_from(child, entry)) {
    drop_child(node, i);
  } else if (child->count < kMergeBelow) {
    const auto fits = [&](uint32_t left) {
      return node->children()[left]->count + node->children()[left + 1]->count <= kMergeFits;
    };
    if (i + 1 < node->count && fits(i)) {
      merge_children(node, i);
    } else if (i > 0 && fits(i - 1)) {
      merge_children(node, i - 1);
    }
  }
  return node->count == 0;
}

void OrderedIndex::drop_child(Node* node, uint32_t i) {
  free_node(node->children()[i]);
  // Without its first child, the second inherits that one's place and its own separator goes.
  Entry*& separator = node->items[i > 0 || node->count == 1 ? i : 1];
  if (separator != nullptr) Entry::drop(separator);
  separator = nullptr;
  node->remove(i);
  if (i == 0 && node->count > 0) node->items[0] = nullptr;
}

void OrderedIndex::merge_children(Node* node, uint32_t left) {
  Node* const into = node->children()[left];
  Node* const from = node->children()[left + 1];
  Entry* const separator = node->items[left + 1];
  std::copy(from->items, from->items + from->count, into->items + into->count);
  if (into->leaf) {
    Entry::drop(separator);
  } else {
    into->items[into->count] = separator;
    std::copy(from->children(), from->children() + from->count, into->children() + into->count);
  }
  into->count += from->count;
  into->rebuild();
  free_node(from);
  node->remove(left + 1);
}

void OrderedIndex::collect(std::string_view from, bool after, const KeyRange& range, size_t max,
                           std::vector<Pinned>& out) {
  const std::lock_guard guard(lock_);
  Node* path[kMaxHeight];
  uint32_t place[kMaxHeight];
  uint32_t depth = 0;
  Node* node = root_;
  while (!node->leaf) {
    RUBATO_DCHECK(depth < kMaxHeight);
    path[depth] = node;
    place[depth] = node->bound(from, true) - 1;
    node = node->children()[place[depth]];
    ++depth;
  }
  uint32_t at = node->bound(from, after);
  for (;;) {
    const uint32_t end =
        range.end ? std::max(at, node->bound(*range.end, range.end_inclusive)) : node->count;
    const uint32_t stop = static_cast<uint32_t>(std::min<size_t>(end, at + max));
    // Entries lie anywhere in memory: let their misses overlap.
    for (uint32_t i = at; i < stop; ++i) __builtin_prefetch(node->items[i], 1);
    for (uint32_t i = at; i < stop; ++i) out.emplace_back(node->items[i]);
    max -= stop - at;
    if (max == 0 || end < node->count) return;
    while (depth > 0 && place[depth - 1] + 1 == path[depth - 1]->count) --depth;
    if (depth == 0) return;
    node = path[depth - 1]->children()[++place[depth - 1]];
    while (!node->leaf) {
      path[depth] = node;
      place[depth] = 0;
      node = node->children()[0];
      ++depth;
    }
    at = 0;
  }
}

OrderedIndex::Node* OrderedIndex::detach() {
  const std::lock_guard guard(lock_);
  if (!reserve()) return nullptr;
  Node* const tree = root_;
  count(-static_cast<int64_t>(cost_bytes()));
  root_ = make(true);
  inner_levels_ = 0;
  return tree;
}

void OrderedIndex::destroy(Node* tree, bool (*checkpoint)()) {
  if (!tree->leaf) {
    for (uint32_t i = 0; i < tree->count; ++i) {
      destroy(tree->children()[i], checkpoint);
      if (i > 0) Entry::drop(tree->items[i]);
    }
  }
  delete_node(tree);
  if (checkpoint != nullptr) checkpoint();
}

namespace {

// Checks the subtree and returns the number of its keys, all of which must lie in [low, high).
size_t check_node(OrderedIndex::Node* node, const Entry* low, const Entry* high) {
  size_t keys = node->leaf ? node->count : 0;
  for (uint32_t i = node->first(); i < node->count; ++i) {
    const std::string_view key = node->items[i]->key();
    RUBATO_CHECK(low == nullptr || low->key() <= key);
    RUBATO_CHECK(high == nullptr || key < high->key());
    RUBATO_CHECK(i == node->first() || node->items[i - 1]->key() < key);
    RUBATO_CHECK(node->words[i] == OrderedIndex::Node::word_of(key, node->skip));
    RUBATO_CHECK(key.substr(0, node->skip) == std::string_view(node->prefix, node->skip));
  }
  for (uint32_t i = 0; !node->leaf && i < node->count; ++i) {
    RUBATO_CHECK(node->children()[i]->count > 0);
    keys += check_node(node->children()[i], i > 0 ? node->items[i] : low,
                       i + 1 < node->count ? node->items[i + 1] : high);
  }
  return keys;
}

}  // namespace

size_t OrderedIndex::check() const {
  const std::lock_guard guard(lock_);
  return check_node(root_, nullptr, nullptr);
}

}  // namespace rubato::kv
