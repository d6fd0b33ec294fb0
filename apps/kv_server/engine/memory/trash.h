// SPDX-License-Identifier: Apache-2.0
//
// DeferredFree: the entries and blobs that an operation unlinked under a lock; they are freed when
// the lock is free again. Declare it before the lock guard. Not thread safe: one per operation.
#pragma once

#include <new>
#include <utility>
#include <vector>

#include "kv_server/engine/memory/bucket_array.h"
#include "kv_server/engine/memory/entry.h"

namespace rubato::kv {

class DeferredFree {
 public:
  DeferredFree() = default;
  DeferredFree(const DeferredFree&) = delete;
  DeferredFree& operator=(const DeferredFree&) = delete;
  ~DeferredFree() {
    if (entries_ != nullptr || blobs_ != nullptr) empty();
  }

  // Each takes over the reference of the table.
  void add(Entry* entry) { entry->next = std::exchange(entries_, entry); }
  void add(Blob* blob) { blob->next = std::exchange(blobs_, blob); }
  void add(BucketArray array) {
    try {
      if (array) arrays_.push_back(std::move(array));
    } catch (const std::bad_alloc&) {
      // Then it is freed at once.
    }
  }

 private:
  void empty();

  Entry* entries_ = nullptr;
  Blob* blobs_ = nullptr;
  std::vector<BucketArray> arrays_;
};

}  // namespace rubato::kv
