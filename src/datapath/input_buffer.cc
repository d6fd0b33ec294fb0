// SPDX-License-Identifier: Apache-2.0
#include "datapath/input_buffer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"

namespace rubato {

BufferPool::~BufferPool() {
  for (uint32_t i = 0; i < count_; ++i) delete[] blocks_[i];
}

char* BufferPool::take() {
  char* block = nullptr;
  if (lock_.try_lock()) {
    if (count_ > 0) block = blocks_[--count_];
    lock_.unlock();
  }
  return block != nullptr ? block : new (std::nothrow) char[kBlockBytes];
}

void BufferPool::give(char* block) {
  if (lock_.try_lock()) {
    RUBATO_DCHECK(count_ <= kBlocksKept);
    if (count_ < kBlocksKept) {
      blocks_[count_++] = block;
      block = nullptr;
    }
    lock_.unlock();
  }
  delete[] block;
}

void InputBuffer::free_data() {
  if (capacity_ == BufferPool::kBlockBytes) {
    pool_.give(data_);
  } else {
    delete[] data_;
  }
}

void InputBuffer::drop() {
  if (data_ == nullptr) return;
  free_data();
  data_ = nullptr;
  capacity_ = begin_ = end_ = 0;
  static_cast<void>(share_.resize(0));
}

// `data` may be null: the heap had nothing, and the buffer stays.
bool InputBuffer::move_to(char* data, size_t capacity) {
  const std::string_view old = unread();
  const size_t size = old.size();
  RUBATO_DCHECK(size <= capacity);
  if (data != nullptr) {
    if (size > 0) std::memcpy(data, old.data(), size);
    if (data_ != nullptr) free_data();
    data_ = data;
    capacity_ = capacity;
    begin_ = 0;
    end_ = size;
  }
  static_cast<void>(share_.resize(capacity_));
  return data != nullptr;
}

void InputBuffer::close_gap() {
  const size_t size = end_ - begin_;
  std::memmove(data_, data_ + begin_, size);
  begin_ = 0;
  end_ = size;
}

// A block of the pool, or, if memory is short, one of the least size.
bool InputBuffer::take_first_block() {
  if (share_.resize(BufferPool::kBlockBytes)) {
    if (move_to(pool_.take(), BufferPool::kBlockBytes)) return true;
  }
  if (capacity_ < kStashBytes && share_.resize(kStashBytes)) {
    if (move_to(new (std::nothrow) char[kStashBytes], kStashBytes)) return true;
  }
  if (begin_ > 0) close_gap();
  return end_ < capacity_;
}

bool InputBuffer::make_room(size_t wanted) {
  if (capacity_ < BufferPool::kBlockBytes) return take_first_block();
  // Half a buffer of dead bytes in front is worth one move; a move for fewer would come too often.
  if (begin_ >= capacity_ / 2 || (begin_ > 0 && end_ == capacity_)) close_gap();
  if (end_ < capacity_) return true;
  RUBATO_DCHECK(begin_ == 0);
  size_t bigger = capacity_ * 2;
  if (wanted > capacity_) bigger = std::min(bigger, wanted);
  if (!share_.resize(bigger)) return false;
  return move_to(new (std::nothrow) char[bigger], bigger);
}

void InputBuffer::rest() {
  const size_t size = end_ - begin_;
  if (size == 0) {
    drop();
  } else if (size <= kStashBytes && capacity_ >= BufferPool::kBlockBytes) {
    static_cast<void>(move_to(new (std::nothrow) char[size], size));
  }
}

}  // namespace rubato
