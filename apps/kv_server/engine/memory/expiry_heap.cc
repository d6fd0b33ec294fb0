// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/memory/expiry_heap.h"

#include "base/check.h"

namespace rubato::kv {

void ExpiryHeap::update(Entry* entry) {
  const int64_t at = entry->expiry();
  if (at == 0) {
    remove(entry);
    return;
  }
  if (entry->heap_position == Entry::kNotInHeap) {
    items_.push_back({at, entry});
    entry->heap_position = static_cast<uint32_t>(items_.size() - 1);
  }
  sift(entry->heap_position, {at, entry});
}

void ExpiryHeap::remove(Entry* entry) {
  const uint32_t hole = entry->heap_position;
  if (hole == Entry::kNotInHeap) return;
  RUBATO_DCHECK(items_[hole].entry == entry);
  entry->heap_position = Entry::kNotInHeap;
  const Item last = items_.back();
  items_.pop_back();
  if (last.entry != entry) sift(hole, last);
}

void ExpiryHeap::sift(size_t i, Item item) {
  while (i > 0 && items_[(i - 1) / 2].at > item.at) {
    place(i, items_[(i - 1) / 2]);
    i = (i - 1) / 2;
  }
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= items_.size()) break;
    if (child + 1 < items_.size() && items_[child + 1].at < items_[child].at) ++child;
    if (items_[child].at >= item.at) break;
    place(i, items_[child]);
    i = child;
  }
  place(i, item);
  RUBATO_DCHECK(i == 0 || items_[(i - 1) / 2].at <= item.at);
}

}  // namespace rubato::kv
