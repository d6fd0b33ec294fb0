// SPDX-License-Identifier: Apache-2.0
//
// ReplyBuffer: bytes on their way to one client. The worker that runs a request of the flow appends
// to the buffer, and the datapath drains it. It has one owner at a time, so it is plain memory. It
// is bounded, by a limit of its own and by the memory of the server: an append past these, or for
// which the heap has nothing, drops the bytes and marks the buffer overflowed, and the datapath
// then closes the flow and counts it, unless the worker takes back what it has appended. A large
// one may be in pages that the kernel sends in place (sent_pages.h). Unit: bytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/memory_account.h"
#include "datapath/sent_pages.h"

namespace rubato {

class ReplyBuffer {
 public:
  static constexpr size_t kFirstCapacity = MemoryShare::kFirstBytes;
  static constexpr size_t kNoLimit = ~size_t{0};

  // Takes its memory of `account`, which may be null and outlives it.
  explicit ReplyBuffer(size_t limit_bytes = kNoLimit, MemoryAccount* account = nullptr)
      : share_(account), limit_(limit_bytes) {}
  // In memory of somebody else, for as long as that is lent: it holds no more than that.
  explicit ReplyBuffer(std::span<char> lent)
      : data_(lent.data()), share_(nullptr), capacity_(lent.size()), limit_(lent.size()) {}
  // Large replies are to be in these. Requires that the buffer is new.
  void use(std::unique_ptr<SentPages> pages) { pages_ = std::move(pages); }
  ReplyBuffer(ReplyBuffer&&) = default;
  ReplyBuffer& operator=(ReplyBuffer&&) = default;

  void append(std::string_view bytes) {
    char* to = reserve(bytes.size());
    if (to == nullptr) return;
    std::memcpy(to, bytes.data(), bytes.size());
    commit(bytes.size());
  }

  // False = so much more is over the limit, and the buffer has overflowed. For a reply of which
  // parts are sent before it is whole.
  bool may_take(size_t size) {
    const size_t most = limit();
    overflowed_ = overflowed_ || size > most || this->size() > most - size;
    return !overflowed_;
  }

  // Room for `size` bytes at the end, to be followed by commit; null = over the limit.
  char* reserve(size_t size) {
    if (size > capacity_ - end_ && !grow(size)) return nullptr;
    return data_ + end_;
  }
  void commit(size_t size) {
    RUBATO_DCHECK(size <= capacity_ - end_);
    end_ += size;
  }

  std::string_view unsent() const { return {data_ + begin_, end_ - begin_}; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  bool overflowed() const { return overflowed_; }
  // Overflowed for want of memory.
  bool starved() const { return starved_; }
  size_t capacity() const { return capacity_; }

  // The first `size` unsent bytes have left. Requires size <= size().
  void consume(size_t size) {
    RUBATO_DCHECK(size <= this->size());
    begin_ += size;
    consumed_ += size;
    if (begin_ != end_) return;
    begin_ = end_ = 0;
    if (is_read()) drop();
  }

  // The position behind what was appended so far, for take_back, and behind what has left.
  uint64_t mark() const { return consumed_ + size(); }
  uint64_t left() const { return consumed_; }
  // Takes back what was appended since, and any overflow. False = some of it has left already.
  bool take_back(uint64_t mark) {
    if (mark < consumed_) return false;
    end_ = begin_ + static_cast<size_t>(mark - consumed_);
    overflowed_ = starved_ = false;
    return true;
  }

  // Gives memory back when an emptied buffer has grown past `keep_bytes`, and pages that the kernel
  // has done with; with keep_bytes = 0 also those that it still reads.
  void shrink(size_t keep_bytes) {
    if (pages_ != nullptr) pages_->give_back(keep_bytes == 0);
    if (empty() && capacity_ > keep_bytes) drop();
  }

 private:
  size_t limit() const;
  bool grow(size_t size);
  bool set_capacity(size_t bytes);
  char* take_heap(size_t bytes);
  void drop();
  // By the kernel: what has left may not be overwritten.
  bool is_read() const { return pages_ != nullptr && pages_->is_read(); }

  std::unique_ptr<char[]> own_;
  std::unique_ptr<SentPages> pages_;  // null = none
  char* data_ = nullptr;  // own_, of pages_, or lent
  MemoryShare share_;     // of own_
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t capacity_ = 0;
  size_t limit_;
  uint64_t consumed_ = 0;  // in all
  bool overflowed_ = false;
  bool starved_ = false;
};

}  // namespace rubato
