// SPDX-License-Identifier: Apache-2.0
#include "datapath/reply_buffer.h"

#include <algorithm>

namespace rubato {

bool ReplyBuffer::grow(size_t size) {
  if (overflowed_ || size > limit_ || this->size() > limit_ - size) {
    overflowed_ = true;
    return false;
  }
  const size_t used = this->size();
  if (used + size <= capacity_) {
    std::memmove(data_.get(), data_.get() + begin_, used);
    begin_ = 0;
    end_ = used;
    return true;
  }
  const size_t wanted = std::max({kFirstCapacity, capacity_ * 2, used + size});
  auto bigger = std::make_unique_for_overwrite<char[]>(wanted);
  if (used > 0) std::memcpy(bigger.get(), data_.get() + begin_, used);
  data_ = std::move(bigger);
  capacity_ = wanted;
  begin_ = 0;
  end_ = used;
  return true;
}

}  // namespace rubato
