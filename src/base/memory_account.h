// SPDX-License-Identifier: Apache-2.0
//
// MemoryAccount: the bytes that a server holds for its data, in the buffers of its connections and
// in the stacks of its requests, under one limit. MemoryShare: what one buffer has taken of it.
//
// Data may not take all: one of `buffer_share` parts stays for buffers, so that a full store can
// still be read and told to forget. A quarter of that stays for first buffers of connections, and
// for expiries. Any thread; a take that is refused only because others came at the same time counts
// until it is given back.
//
// Memory order: who takes adds first and looks at what the others have then, so that of two at once
// at least one sees both (sequentially consistent). All other accesses are relaxed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/time.h"

namespace rubato {

// What one connection's unsent replies may take; 0 = no limit. Beyond `hard_bytes`, or for
// `soft_for` beyond `soft_bytes`, the connection is closed.
struct OutputLimit {
  uint64_t hard_bytes = 0;
  uint64_t soft_bytes = 0;
  Nanos soft_for;
};

class MemoryAccount {
 public:
  // 0 = there are no buffers.
  explicit MemoryAccount(uint64_t buffer_share = 16) : buffer_share_(buffer_share) {}

  // 0 = unlimited.
  void set_limit(uint64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }

  uint64_t buffers() const { return buffers_.load(std::memory_order_seq_cst); }
  uint64_t data() const { return data_.load(std::memory_order_seq_cst); }
  uint64_t stacks() const { return stacks_.load(std::memory_order_relaxed); }
  uint64_t used() const { return buffers() + data() + stacks(); }
  // True if there is enough for what is not needed yet, as requests behind one in service.
  bool has_plenty() const {
    const uint64_t limit = this->limit();
    return limit == 0 || used() <= limit - limit / 4;
  }
  void set_output_limit(const OutputLimit& limit) {
    hard_bytes_.store(limit.hard_bytes, std::memory_order_relaxed);
    soft_bytes_.store(limit.soft_bytes, std::memory_order_relaxed);
    soft_for_ns_.store(limit.soft_for.count(), std::memory_order_relaxed);
  }
  OutputLimit output_limit() const {
    return {hard_bytes_.load(std::memory_order_relaxed),
            soft_bytes_.load(std::memory_order_relaxed),
            Nanos(soft_for_ns_.load(std::memory_order_relaxed))};
  }

  // What one connection's requests may take before they are served; 0 = what the datapath allows.
  void set_input_limit(uint64_t bytes) { input_limit_.store(bytes, std::memory_order_relaxed); }
  uint64_t input_limit() const { return input_limit_.load(std::memory_order_relaxed); }

  // Times that a buffer was refused.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

  // What the data take by now, where it is measured.
  void note_data(uint64_t bytes) { data_.store(bytes, std::memory_order_relaxed); }
  // Where it is counted instead: by so much more, or less. Requires that no more goes than came.
  void add_data(int64_t bytes) {
    data_.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_seq_cst);
  }
  // What the stacks take, as it was measured last.
  void note_stacks(uint64_t bytes) { stacks_.store(bytes, std::memory_order_relaxed); }
  // How much data there may be, given the others.
  uint64_t room_for_data() const {
    const uint64_t limit = this->limit();
    if (limit == 0) return UINT64_MAX;
    const uint64_t least = buffer_share_ == 0 ? 0 : limit / buffer_share_;
    const uint64_t kept = std::max(buffers() + kept_for_first(limit), least) + stacks();
    return limit > kept ? limit - kept : 0;
  }
  // The same with what others leave: an expiry makes a full store forget.
  uint64_t room_for_expiries() const {
    const uint64_t room = room_for_data();
    return room == UINT64_MAX ? room : room + kept_for_first(limit());
  }

  // False = refused, and counted.
  bool take(size_t bytes) { return take_beside(kept_for_first(limit()), bytes); }
  // The same for what a connection must have: out of what others leave, too.
  bool take_first(size_t bytes) { return take_beside(0, bytes); }
  void give(size_t bytes) { buffers_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  bool take_beside(uint64_t kept, size_t bytes) {
    if (fits(buffers() + bytes, kept)) {
      if (fits(buffers_.fetch_add(bytes, std::memory_order_seq_cst) + bytes, kept)) return true;
      give(bytes);
    }
    refused_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  bool fits(uint64_t buffers, uint64_t kept) const {
    const uint64_t limit = this->limit();
    return limit == 0 || buffers + data() + stacks() + kept <= limit;
  }
  uint64_t kept_for_first(uint64_t limit) const {
    return buffer_share_ == 0 ? 0 : limit / buffer_share_ / 4;
  }

  const uint64_t buffer_share_;
  std::atomic<uint64_t> limit_{0};
  std::atomic<uint64_t> data_{0};
  std::atomic<uint64_t> buffers_{0};
  std::atomic<uint64_t> stacks_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> input_limit_{0};
  std::atomic<uint64_t> hard_bytes_{0};
  std::atomic<uint64_t> soft_bytes_{0};
  std::atomic<int64_t> soft_for_ns_{0};
};

// Moves with its buffer, and gives back what it has when it ends. One owner at a time. Without an
// account it takes what it is asked for.
class MemoryShare {
 public:
  // A buffer of up to this size is a first one, for which others leave a part of the limit.
  static constexpr size_t kFirstBytes = 1024;

  explicit MemoryShare(MemoryAccount* account = nullptr) : account_(account) {}
  MemoryShare(MemoryShare&& other) noexcept
      : account_(other.account_), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryShare& operator=(MemoryShare&& other) noexcept {
    if (this == &other) return *this;
    resize_to_less(0);
    account_ = other.account_;
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~MemoryShare() { resize_to_less(0); }

  const MemoryAccount* account() const { return account_; }

  // The buffer is to have `bytes`. False = more than it has, and refused.
  bool resize(size_t bytes) {
    if (bytes <= bytes_) {
      resize_to_less(bytes);
      return true;
    }
    if (account_ != nullptr) {
      const size_t more = bytes - bytes_;
      if (!(bytes <= kFirstBytes ? account_->take_first(more) : account_->take(more))) return false;
    }
    bytes_ = bytes;
    return true;
  }

 private:
  void resize_to_less(size_t bytes) {
    RUBATO_DCHECK(bytes <= bytes_);
    if (account_ != nullptr) account_->give(bytes_ - bytes);
    bytes_ = bytes;
  }

  MemoryAccount* account_;
  size_t bytes_ = 0;
};

}  // namespace rubato
