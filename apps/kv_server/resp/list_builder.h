// SPDX-License-Identifier: Apache-2.0
//
// ListBuilder: collects the items of a reply whose length shows only at the end (KEYS, RANGE).
//
// The items are not written into the flow's ReplyBuffer as they come: its bytes may be sent
// whenever the request is preempted, and the header, which comes first, is not known yet. They are
// kept in chunks of bounded size instead of one growing block, so that no step copies megabytes at
// once and copy_to can be preempted between chunks.
//
// Lives on the stack of the request that builds the list. Adding is safe where the engine holds a
// lock: it never reaches a checkpoint. Sizes are in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/memory_account.h"
#include "kv_server/resp/reply.h"

namespace rubato::kv {

class ListBuilder {
 public:
  // `max_bytes` bounds what is kept; an item past it is dropped and the list is too_big(). Takes
  // its memory of `account`, which may be null; without memory the list is starved().
  explicit ListBuilder(uint64_t max_bytes, MemoryAccount* account = nullptr)
      : max_bytes_(max_bytes), share_(account) {}

  // A bulk string. False = the list is too big or starved, there is no point in going on.
  bool add(std::string_view item);

  size_t items() const { return items_; }
  uint64_t size_bytes() const { return size_bytes_; }
  bool too_big() const { return too_big_; }
  bool starved() const { return starved_; }

  // Writes header and items; calls `checkpoint` between chunks, and stops when that returns true.
  // Requires !too_big() and !starved().
  void write_array(Reply& reply, bool (*checkpoint)()) const;

 private:
  static constexpr size_t kFirstChunkBytes = 512;
  static constexpr size_t kMaxChunkBytes = 16 * 1024;

  struct Chunk {
    std::unique_ptr<char[]> bytes;
    size_t capacity = 0;
    size_t size = 0;
  };

  bool put(std::string_view bytes);

  uint64_t max_bytes_;
  uint64_t size_bytes_ = 0;
  size_t items_ = 0;
  bool too_big_ = false;
  bool starved_ = false;
  MemoryShare share_;  // of the chunks
  size_t chunk_bytes_ = 0;
  std::vector<Chunk> chunks_;
};

}  // namespace rubato::kv
