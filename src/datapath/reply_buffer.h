// SPDX-License-Identifier: Apache-2.0
//
// ReplyBuffer: bytes on their way to one client. The worker that runs a request of the flow appends
// to the buffer, and the datapath drains it. It has one owner at a time, so it is plain memory. It
// is bounded: an append past the limit drops the bytes and marks the buffer overflowed, and the
// datapath then closes the flow and counts it. Unit: bytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/check.h"

namespace rubato {

class ReplyBuffer {
 public:
  static constexpr size_t kFirstCapacity = 1024;
  static constexpr size_t kNoLimit = ~size_t{0};

  explicit ReplyBuffer(size_t limit_bytes = kNoLimit) : limit_(limit_bytes) {}

  void append(std::string_view bytes) {
    char* to = reserve(bytes.size());
    if (to == nullptr) return;
    std::memcpy(to, bytes.data(), bytes.size());
    commit(bytes.size());
  }

  // Room for `size` bytes at the end, to be followed by commit; null = over the limit.
  char* reserve(size_t size) {
    if (size > capacity_ - end_ && !grow(size)) return nullptr;
    return data_.get() + end_;
  }
  void commit(size_t size) {
    RUBATO_DCHECK(size <= capacity_ - end_);
    end_ += size;
  }

  std::string_view unsent() const { return {data_.get() + begin_, end_ - begin_}; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  bool overflowed() const { return overflowed_; }
  size_t capacity() const { return capacity_; }

  // The first `size` unsent bytes have left. Requires size <= size().
  void consume(size_t size) {
    RUBATO_DCHECK(size <= this->size());
    begin_ += size;
    if (begin_ == end_) begin_ = end_ = 0;
  }

  // Gives memory back when an emptied buffer has grown past `keep_bytes`.
  void shrink(size_t keep_bytes) {
    if (!empty() || capacity_ <= keep_bytes) return;
    data_.reset();
    capacity_ = 0;
  }

 private:
  bool grow(size_t size);

  std::unique_ptr<char[]> data_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t capacity_ = 0;
  size_t limit_;
  bool overflowed_ = false;
};

}  // namespace rubato
