// SPDX-License-Identifier: Apache-2.0
//
// InputBuffer: received bytes of one flow that are not yet a finished request; BufferPool: blocks
// that flows borrow while they have input, so that an idle flow holds none.
//
// An InputBuffer belongs to the flow's owner of the moment. A BufferPool may be used from any
// thread: it is guarded by a try-lock, and a thread that does not get the lock uses the heap.
// Units: bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/memory_account.h"
#include "datapath/try_lock.h"

namespace rubato {

class BufferPool {
 public:
  static constexpr size_t kBlockBytes = 16 * 1024;
  static constexpr uint32_t kBlocksKept = 64;

  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  char* take();  // null = the heap has nothing
  void give(char* block);

 private:
  TryLock lock_;  // guards all below
  uint32_t count_ = 0;
  std::array<char*, kBlocksKept> blocks_{};
};

class InputBuffer {
 public:
  // While the flow is idle, an unfinished request of up to this size is kept in a block of its own
  // size. If memory is short, a buffer begins with so much.
  static constexpr size_t kStashBytes = MemoryShare::kFirstBytes;

  // Takes its memory of `account`, which may be null and outlives it.
  explicit InputBuffer(BufferPool& pool, MemoryAccount* account = nullptr)
      : pool_(pool), share_(account) {}
  ~InputBuffer() { drop(); }
  InputBuffer(const InputBuffer&) = delete;
  InputBuffer& operator=(const InputBuffer&) = delete;

  std::string_view unread() const { return {data_ + begin_, end_ - begin_}; }
  size_t capacity() const { return capacity_; }

  // Drops the first `size` unread bytes. Requires size <= unread().size().
  void consume(size_t size) {
    RUBATO_DCHECK(size <= end_ - begin_);
    begin_ += size;
    if (begin_ == end_) begin_ = end_ = 0;
  }

  // Makes room at the end for at least one byte, moving or growing the buffer as needed; views into
  // it end. `wanted` is the size of the whole request, 0 if unknown. It bounds the growth; memory
  // is not allocated in advance on the peer's word. False = there is no memory.
  bool make_room(size_t wanted);
  char* room() { return data_ + end_; }
  size_t room_size() const { return capacity_ - end_; }
  // So many bytes have been written to room(). Requires size <= room_size().
  void received(size_t size) {
    RUBATO_DCHECK(size <= room_size());
    end_ += size;
  }

  // Gives back the memory that an idle flow need not hold. Views into the buffer end.
  void rest();
  // Drops all bytes and gives back all memory.
  void drop();

 private:
  void free_data();
  bool move_to(char* data, size_t capacity);
  bool take_first_block();
  void close_gap();

  BufferPool& pool_;
  MemoryShare share_;  // of capacity_
  char* data_ = nullptr;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace rubato
