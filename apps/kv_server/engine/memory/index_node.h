// SPDX-License-Identifier: Apache-2.0
//
// OrderedIndex::Node: one node of the B+-tree and the operations on it alone. For the index only;
// protected by its lock.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "kv_server/engine/memory/ordered_index.h"

namespace rubato::kv {

// Items are sorted by key. In a leaf, items[i] are the entries. In an inner node, items[i] (i > 0)
// separates children[i - 1] from children[i]: no key left of it is at or behind it; items[0] is
// not used.
struct OrderedIndex::Node {
  static constexpr uint32_t kMaxSkip = 48;  // of a longer common prefix the rest is compared

  const bool leaf;
  uint32_t count = 0;
  uint32_t skip = 0;      // bytes that the keys of all items have in common, and these bytes:
  char prefix[kMaxSkip];  // here, so that a search need not visit an entry for them
  uint64_t words[kFanout];
  Entry* items[kFanout];

  explicit Node(bool is_leaf) : leaf(is_leaf) {}

  inline Node** children();
  uint32_t first() const { return leaf ? 0 : 1; }

  // The eight bytes of `key` from `skip` on as a number that compares like them, zero-padded.
  static uint64_t word_of(std::string_view key, uint32_t skip) {
    uint64_t word = 0;
    if (key.size() > skip) {
      const size_t size = std::min(key.size() - skip, sizeof word);
      std::memcpy(&word, key.data() + skip, size);
    }
    if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
    return word;
  }

  static uint32_t common_prefix(std::string_view a, std::string_view b) {
    const size_t limit = std::min({a.size(), b.size(), size_t{kMaxSkip}});
    const auto [end, unused] = std::mismatch(a.data(), a.data() + limit, b.data());
    return static_cast<uint32_t>(end - a.data());
  }

  // Number of items before the first that is behind `key` (`upper`), or at or behind it; counted
  // from items[0], so never less than first().
  uint32_t bound(std::string_view key, bool upper) const {
    uint32_t low = first();
    uint32_t high = count;
    if (low == high) return low;
    if (skip > 0) {
      const int order = key.substr(0, skip).compare({prefix, skip});
      if (order != 0) return order < 0 ? low : high;
    }
    const uint64_t word = word_of(key, skip);
    low = static_cast<uint32_t>(std::lower_bound(words + low, words + high, word) - words);
    if (low == high || words[low] != word) return low;
    high = static_cast<uint32_t>(std::upper_bound(words + low, words + high, word) - words);
    while (low < high) {  // keys whose words are equal: compare them whole
      const uint32_t middle = (low + high) / 2;
      const int order = items[middle]->key().compare(key);
      if (order < 0 || (upper && order == 0)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  void set_skip(uint32_t bytes) {
    skip = bytes;
    // Entries lie anywhere in memory: let their misses overlap.
    for (uint32_t i = first(); i < count; ++i) __builtin_prefetch(items[i] + 1);
    for (uint32_t i = first(); i < count; ++i) words[i] = word_of(items[i]->key(), skip);
  }
  // After items came or went in bulk.
  void rebuild() {
    uint32_t common = 0;
    if (count > first() + 1) {
      const std::string_view key = items[first()]->key();
      common = common_prefix(key, items[count - 1]->key());
      std::memcpy(prefix, key.data(), common);
    }
    set_skip(common);
  }

  // Requires room.
  inline void place(uint32_t at, Entry* item, Node* child);
  inline void remove(uint32_t at);
};

struct InnerNode : OrderedIndex::Node {
  InnerNode() : Node(false) {}
  OrderedIndex::Node* child[OrderedIndex::kFanout];
};

inline OrderedIndex::Node** OrderedIndex::Node::children() {
  RUBATO_DCHECK(!leaf);
  return static_cast<InnerNode*>(this)->child;
}

inline void OrderedIndex::Node::place(uint32_t at, Entry* item, Node* child) {
  RUBATO_DCHECK(count < kFanout && at <= count);
  std::copy_backward(items + at, items + count, items + count + 1);
  std::copy_backward(words + at, words + count, words + count + 1);
  if (!leaf) {
    std::copy_backward(children() + at, children() + count, children() + count + 1);
    children()[at] = child;
  }
  const bool alone = count == first();
  items[at] = item;
  ++count;
  if (item == nullptr) return;  // the leftmost child has no separator
  if (alone) skip = 0;
  words[at] = word_of(item->key(), skip);
  if (skip == 0) return;
  const uint32_t common = common_prefix(item->key(), {prefix, skip});
  if (common < skip) set_skip(common);
}

inline void OrderedIndex::Node::remove(uint32_t at) {
  std::copy(items + at + 1, items + count, items + at);
  std::copy(words + at + 1, words + count, words + at);
  if (!leaf) std::copy(children() + at + 1, children() + count, children() + at);
  --count;
}

}  // namespace rubato::kv
