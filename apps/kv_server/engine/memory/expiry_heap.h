// SPDX-License-Identifier: Apache-2.0
//
// ExpiryHeap: the entries of one shard that have an expiry, the soonest on top. Entries know their
// place, so that a changed expiry moves them and no stale item remains. O(log n) per call, 16 bytes
// per volatile key. Protected by the lock of its shard; owns no reference.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kv_server/engine/memory/entry.h"

namespace rubato::kv {

class ExpiryHeap {
 public:
  // Makes room for so many more entries; throws std::bad_alloc. update() does not throw then.
  void reserve(size_t more) {
    if (items_.size() + more > items_.capacity()) {
      items_.reserve(std::max(items_.size() + more, 2 * items_.capacity()));
    }
  }
  // Files `entry` under its expires_at: adds, moves or (no expiry) removes it.
  void update(Entry* entry);
  void remove(Entry* entry);

  // The entry that expires soonest, null = none.
  Entry* top() const { return items_.empty() ? nullptr : items_.front().entry; }
  size_t size() const { return items_.size(); }
  void clear() { items_ = {}; }

 private:
  struct Item {
    int64_t at;
    Entry* entry;
  };
  void place(size_t i, Item item) {
    items_[i] = item;
    item.entry->heap_position = static_cast<uint32_t>(i);
  }
  void sift(size_t i, Item item);

  std::vector<Item> items_;
};

}  // namespace rubato::kv
