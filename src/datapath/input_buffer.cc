// SPDX-License-Identifier: Apache-2.0
#include "datapath/input_buffer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace rubato {

BufferPool::~BufferPool() {
  for (uint32_t i = 0; i < count_; ++i) delete[] blocks_[i];
}

char* BufferPool::take() {
  char* block = nullptr;
  if (try_lock()) {
    if (count_ > 0) block = blocks_[--count_];
    unlock();
  }
  return block != nullptr ? block : new char[kBlockBytes];
}

void BufferPool::give(char* block) {
  if (try_lock()) {
    RUBATO_DCHECK(count_ <= kBlocksKept);
    if (count_ < kBlocksKept) {
      blocks_[count_++] = block;
      block = nullptr;
    }
    unlock();
  }
  delete[] block;
}

void InputBuffer::drop() {
  if (data_ == nullptr) return;
  if (capacity_ == BufferPool::kBlockBytes) {
    pool_.give(data_);
  } else {
    delete[] data_;
  }
  data_ = nullptr;
  capacity_ = begin_ = end_ = 0;
}

void InputBuffer::move_to(char* data, size_t capacity) {
  const std::string_view old = unread();
  const size_t size = old.size();
  RUBATO_DCHECK(size <= capacity);
  if (size > 0) std::memcpy(data, old.data(), size);
  drop();
  data_ = data;
  capacity_ = capacity;
  end_ = size;
}

void InputBuffer::make_room(size_t wanted) {
  if (capacity_ < BufferPool::kBlockBytes) {
    move_to(pool_.take(), BufferPool::kBlockBytes);
    return;
  }
  // Half a buffer of dead bytes in front is worth one move; a move for fewer would come too often.
  if (begin_ >= capacity_ / 2 || (begin_ > 0 && end_ == capacity_)) {
    const size_t size = end_ - begin_;
    std::memmove(data_, data_ + begin_, size);
    begin_ = 0;
    end_ = size;
  }
  if (end_ < capacity_) return;
  RUBATO_DCHECK(begin_ == 0);
  size_t bigger = capacity_ * 2;
  if (wanted > capacity_) bigger = std::min(bigger, wanted);
  move_to(new char[bigger], bigger);
}

void InputBuffer::rest() {
  const size_t size = end_ - begin_;
  if (size == 0) {
    drop();
  } else if (size <= kStashBytes && capacity_ >= BufferPool::kBlockBytes) {
    move_to(new char[size], size);
  }
}

}  // namespace rubato
