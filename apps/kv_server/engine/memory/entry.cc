// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/memory/entry.h"

#include <cstring>
#include <new>

namespace rubato::kv {
namespace {

constexpr uint64_t kMaxRoom = 2047;
static_assert(Entry::kInlineMax + 23 <= kMaxRoom);
static_assert(sizeof(Entry) == 64);

}  // namespace

Blob* Blob::make(size_t capacity) {
  void* const memory = std::malloc(sizeof(Blob) + capacity);
  if (memory == nullptr) return nullptr;
  Blob* const blob = new (memory) Blob;
  blob->capacity = capacity;
  return blob;
}

Blob* Blob::grow(Blob* blob, size_t capacity) {
  // The header is a counter and plain words, which realloc may move: no other reference exists.
  void* const memory = std::realloc(static_cast<void*>(blob), sizeof(Blob) + capacity);
  if (memory == nullptr) return nullptr;
  Blob* const grown = static_cast<Blob*>(memory);
  grown->capacity = capacity;
  return grown;
}

Entry* Entry::make(std::string_view key, uint64_t hash, size_t value_bytes) {
  const bool is_inline = value_bytes <= kInlineMax;
  const size_t wanted = sizeof(Entry) + key.size() + (is_inline ? value_bytes : 0);
  // The heap rounds up anyway; the rest serves values that grow a little.
  const size_t size = is_inline ? heap_bytes(wanted) - 8 : wanted;
  void* const memory = std::malloc(size);
  if (memory == nullptr) return nullptr;
  Entry* const entry = new (memory) Entry;
  entry->hash = hash;
  entry->key_bytes = static_cast<uint32_t>(key.size());
  entry->value_bytes = static_cast<uint32_t>(value_bytes);
  entry->room_bytes = (size - sizeof(Entry) - key.size()) & kMaxRoom;
  if (!key.empty()) std::memcpy(entry->tail(), key.data(), key.size());
  if (!is_inline) {
    entry->blob = Blob::make(value_bytes);
    if (entry->blob == nullptr) {
      destroy(entry);
      return nullptr;
    }
  }
  return entry;
}

void Entry::destroy(Entry* entry) {
  if (entry->blob != nullptr) Blob::drop(entry->blob);
  entry->~Entry();
  std::free(entry);
}

}  // namespace rubato::kv
