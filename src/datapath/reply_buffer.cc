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
  if (begin_ > 0) {
    std::memmove(data_, data_ + begin_, used);
    begin_ = 0;
    end_ = used;
  }
  const size_t needed = used + size;
  if (needed <= capacity_) return true;
  // The limit is looked at only when room is made, so there is none beyond it, but for an error.
  const size_t roomy = std::min(std::max({kFirstCapacity, capacity_ * 2, needed}),
                                std::max({kFirstCapacity, limit(), needed}));
  if (set_capacity(roomy) || (roomy > needed && set_capacity(needed))) return true;
  overflowed_ = starved_ = true;
  return false;
}

bool ReplyBuffer::set_capacity(size_t bytes) {
  if (!share_.resize(bytes)) return false;
  std::unique_ptr<char[]> bigger(new (std::nothrow) char[bytes]);
  if (bigger == nullptr) {
    static_cast<void>(share_.resize(capacity_));
    return false;
  }
  if (!empty()) std::memcpy(bigger.get(), data_, end_);
  own_ = std::move(bigger);
  data_ = own_.get();
  capacity_ = bytes;
  return true;
}

}  // namespace rubato
