// SPDX-License-Identifier: Apache-2.0
#include "kv_server/resp/list_builder.h"

#include <algorithm>
#include <cstring>

#include "kv_server/text/number.h"

namespace rubato::kv {

bool ListBuilder::add(std::string_view item) {
  char header[1 + kMaxIntegerBytes + 2];
  header[0] = '$';
  size_t length = 1 + write_integer(header + 1, static_cast<int64_t>(item.size()));
  header[length++] = '\r';
  header[length++] = '\n';
  const uint64_t total = length + item.size() + 2;
  if (starved_ || too_big_ || total > max_bytes_ - size_bytes_) {
    too_big_ = !starved_;
    return false;
  }
  if (!put({header, length}) || !put(item) || !put("\r\n")) return false;
  size_bytes_ += total;
  ++items_;
  return true;
}

bool ListBuilder::put(std::string_view bytes) {
  while (!bytes.empty()) {
    if (chunks_.empty() || chunks_.back().size == chunks_.back().capacity) {
      const size_t last = chunks_.empty() ? kFirstChunkBytes / 2 : chunks_.back().capacity;
      const size_t capacity = std::min(last * 2, kMaxChunkBytes);
      if (!share_.resize(chunk_bytes_ + capacity)) {
        starved_ = true;
        return false;
      }
      chunk_bytes_ += capacity;
      chunks_.push_back({std::make_unique_for_overwrite<char[]>(capacity), capacity, 0});
    }
    Chunk& chunk = chunks_.back();
    const size_t fits = std::min(bytes.size(), chunk.capacity - chunk.size);
    std::memcpy(chunk.bytes.get() + chunk.size, bytes.data(), fits);
    chunk.size += fits;
    bytes.remove_prefix(fits);
  }
  return true;
}

void ListBuilder::write_array(Reply& reply, bool (*checkpoint)()) const {
  reply.array(items_);
  for (const Chunk& chunk : chunks_) {
    if (checkpoint()) return;
    reply.raw({chunk.bytes.get(), chunk.size});
  }
}

}  // namespace rubato::kv
