// SPDX-License-Identifier: Apache-2.0
#include "datapath/reply_buffer.h"

#include <algorithm>
#include <new>
#include <utility>

namespace rubato {

size_t ReplyBuffer::limit() const {
  const MemoryAccount* const account = share_.account();
  const uint64_t hard_bytes = account != nullptr ? account->output_limit().hard_bytes : 0;
  return hard_bytes != 0 ? std::min<size_t>(limit_, hard_bytes) : limit_;
}

bool ReplyBuffer::grow(size_t size) {
  if (!may_take(size)) return false;
  const size_t used = this->size();
  if (begin_ > 0 && !is_read()) {
    std::memmove(data_, data_ + begin_, used);
    begin_ = 0;
    end_ = used;
  }
  const size_t needed = used + size;
  if (begin_ == 0 && needed <= capacity_) return true;
  // The limit is looked at only when room is made, so there is none beyond it, but for an error.
  const size_t doubled = needed <= capacity_ ? capacity_ : capacity_ * 2;
  const size_t roomy = std::min(std::max({kFirstCapacity, doubled, needed}),
                                std::max({kFirstCapacity, limit(), needed}));
  if (set_capacity(roomy) || (roomy > needed && set_capacity(needed))) return true;
  overflowed_ = starved_ = true;
  return false;
}

bool ReplyBuffer::set_capacity(size_t bytes) {
  const bool in_pages = pages_ != nullptr && pages_->wants(bytes);
  char* const bigger = in_pages ? pages_->take(bytes, unsent()) : take_heap(bytes);
  if (bigger == nullptr) return false;
  if (in_pages && own_ != nullptr) {
    own_.reset();
    static_cast<void>(share_.resize(0));
  }
  data_ = bigger;
  end_ -= begin_;
  begin_ = 0;
  capacity_ = bytes;
  return true;
}

// With a copy of what is unsent, in place of the present memory. Null = there is none.
char* ReplyBuffer::take_heap(size_t bytes) {
  const size_t before = own_ != nullptr ? capacity_ : 0;
  if (!share_.resize(bytes)) return nullptr;
  std::unique_ptr<char[]> bigger(new (std::nothrow) char[bytes]);
  if (bigger == nullptr) {
    static_cast<void>(share_.resize(before));
    return nullptr;
  }
  if (!empty()) std::memcpy(bigger.get(), data_ + begin_, size());
  own_ = std::move(bigger);
  if (pages_ != nullptr) pages_->leave();
  return own_.get();
}

void ReplyBuffer::drop() {
  own_.reset();
  if (pages_ != nullptr) pages_->leave();
  data_ = nullptr;
  capacity_ = 0;
  static_cast<void>(share_.resize(0));
}

}  // namespace rubato
