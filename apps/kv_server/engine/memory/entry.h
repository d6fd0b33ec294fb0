// SPDX-License-Identifier: Apache-2.0
//
// Entry: one key with its value, and Blob: a value that does not fit into its entry.
//
// An entry is one allocation (header, key, room for a small value) and never moves while its key
// exists, so the ordered index does not change on overwrites. A value larger than the room lives in
// a Blob. Both are counted: the table owns one reference; readers that go on without the lock of
// the shard take another. Fields are protected by the lock of the shard, except `refs`, and
// `expires_at`, which may be read without it.
//
// Memory order: dropping a reference is a release, and the thread that frees (or that finds itself
// the only owner of a Blob and overwrites it) acquires, so that no read of a former owner comes
// later.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/check.h"

namespace rubato::kv {

// The heap bytes of an allocation of `size`: glibc keeps 8 bytes beside it, in steps of 16.
inline constexpr size_t heap_bytes(size_t size) {
  return size <= 24 ? 32 : (size + 23) & ~size_t{15};
}

struct Blob {
  std::atomic<uint32_t> refs{1};
  size_t capacity = 0;
  Blob* next = nullptr;  // in a DeferredFree

  char* bytes() { return reinterpret_cast<char*>(this + 1); }
  size_t cost_bytes() const { return heap_bytes(sizeof(Blob) + capacity); }
  // Requires the lock of the shard: new references are taken under it only.
  bool only_owner() const { return refs.load(std::memory_order_acquire) == 1; }

  // Null when the heap is exhausted. The bytes are not initialised.
  static Blob* make(size_t capacity);
  // Null when the heap is exhausted: the old one is still there. Requires only_owner.
  static Blob* grow(Blob* blob, size_t capacity);
  static void drop(Blob* blob) {
    const uint32_t before = blob->refs.fetch_sub(1, std::memory_order_acq_rel);
    RUBATO_DCHECK(before > 0);
    if (before == 1) std::free(blob);
  }
};

struct Entry {
  // Values up to this size lie inside the entry.
  static constexpr size_t kInlineMax = 512;
  static constexpr uint32_t kNotInHeap = ~uint32_t{0};
  static constexpr uint32_t kVersionBits = 52;

  Entry* next = nullptr;  // chain of the bucket, or of a DeferredFree
  uint64_t hash = 0;
  std::atomic<int64_t> expires_at{0};
  Blob* blob = nullptr;
  std::atomic<uint32_t> refs{1};
  uint32_t heap_position = kNotInHeap;
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  // One word, so that numbering the writes costs no memory.
  uint64_t room_bytes : 11 = 0;
  uint64_t dead : 1 = 0;  // no longer in its table
  uint64_t version : kVersionBits = 0;  // of the last write
  // When it was used last: the low bits of the time in milliseconds, of which the lowest says
  // instead whether the value was read since it was written. Relaxed, a hint.
  std::atomic<uint32_t> used{0};
  static constexpr uint32_t kRead = 1;

  std::string_view key() const { return {tail(), key_bytes}; }
  char* value_data() { return blob != nullptr ? blob->bytes() : tail() + key_bytes; }
  std::string_view value() { return {value_data(), value_bytes}; }
  bool is_read() const { return (used.load(std::memory_order_relaxed) & kRead) != 0; }
  // Requires the lock of the shard.
  void set_read(bool read) {
    const uint32_t before = used.load(std::memory_order_relaxed);
    const uint32_t after = read ? before | kRead : before & ~kRead;
    if (after != before) used.store(after, std::memory_order_relaxed);
  }
  int64_t expiry() const { return expires_at.load(std::memory_order_relaxed); }

  size_t own_bytes() const { return own_bytes(key_bytes, room_bytes); }
  static size_t own_bytes(size_t key_bytes, size_t room_bytes) {
    return heap_bytes(sizeof(Entry) + key_bytes + room_bytes);
  }
  size_t cost_bytes() const { return own_bytes() + (blob != nullptr ? blob->cost_bytes() : 0); }

  void retain() { refs.fetch_add(1, std::memory_order_relaxed); }
  static void drop(Entry* entry) {
    const uint32_t before = entry->refs.fetch_sub(1, std::memory_order_acq_rel);
    RUBATO_DCHECK(before > 0);
    if (before == 1) destroy(entry);
  }

  // Room for a value of `value_bytes` that the caller fills in; a blob if it is large. Null when
  // the heap is exhausted.
  static Entry* make(std::string_view key, uint64_t hash, size_t value_bytes);

 private:
  static void destroy(Entry* entry);
  char* tail() { return reinterpret_cast<char*>(this + 1); }
  const char* tail() const { return reinterpret_cast<const char*>(this + 1); }
};

// Holds a reference for a reader.
class Pinned {
 public:
  Pinned() = default;
  explicit Pinned(Entry* entry) : entry_(entry) { entry->retain(); }
  Pinned(Pinned&& other) noexcept : entry_(other.entry_) { other.entry_ = nullptr; }
  Pinned& operator=(Pinned&& other) noexcept {
    Entry* const mine = entry_;
    entry_ = other.entry_;
    other.entry_ = nullptr;
    if (mine != nullptr) Entry::drop(mine);
    return *this;
  }
  ~Pinned() {
    if (entry_ != nullptr) Entry::drop(entry_);
  }
  Entry* operator->() const { return entry_; }
  Entry& operator*() const { return *entry_; }
  explicit operator bool() const { return entry_ != nullptr; }

 private:
  Entry* entry_ = nullptr;
};

}  // namespace rubato::kv
