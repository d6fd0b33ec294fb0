// SPDX-License-Identifier: Apache-2.0
#include "datapath/loopback_wire.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "datapath/loopback_queue.h"

namespace rubato {

bool LoopbackWire::reserve(size_t size, bool& full) {
  std::lock_guard lock(mutex_);
  if (closed_ || reset_ || end_) return false;
  full = in_reserved_ + size > limit_bytes_;
  if (full) return false;
  in_reserved_ += size;
  return true;
}

void LoopbackWire::unreserve(size_t size) {
  std::lock_guard lock(mutex_);
  in_reserved_ -= size;
}

void LoopbackWire::deliver(std::string_view bytes, Instant at) {
  std::lock_guard lock(mutex_);
  in_.append(bytes);
  arrived_ = at;
}

void LoopbackWire::deliver_end() {
  std::lock_guard lock(mutex_);
  end_ = true;
}

void LoopbackWire::reset() {
  std::lock_guard lock(mutex_);
  reset_ = true;
  changed_.notify_all();
}

bool LoopbackWire::take(std::string& to, bool& resumed) {
  std::lock_guard lock(mutex_);
  resumed = wants_room_;
  wants_room_ = false;
  to += out_;
  const bool more = !out_.empty() || !closed_;
  out_.clear();
  return more;
}

void LoopbackWire::await(size_t size, Nanos limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(limit.count()),
                    [&] { return out_.size() >= size || wants_room_ || closed_ || reset_; });
}

bool LoopbackWire::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

ClientState LoopbackWire::client() const {
  std::lock_guard lock(mutex_);
  if (reset_ || closed_) return ClientState::kGone;
  return end_ ? ClientState::kHalfClosed : ClientState::kOpen;
}

Transfer LoopbackWire::receive(char* to, size_t room, Instant& when) {
  std::lock_guard lock(mutex_);
  if (reset_ || closed_) return {Transfer::State::kBroken, 0};
  const size_t n = std::min(room, in_.size() - in_begin_);
  if (n == 0) return {end_ ? Transfer::State::kEnd : Transfer::State::kWait, 0};
  std::memcpy(to, in_.data() + in_begin_, n);
  in_begin_ += n;
  in_reserved_ -= n;
  if (in_begin_ == in_.size()) {
    in_.clear();
    in_begin_ = 0;
  }
  when = arrived_;
  return {Transfer::State::kMoved, n};
}

Transfer LoopbackWire::transmit(std::string_view bytes, const LoopbackReply& on_reply) {
  std::unique_lock lock(mutex_);
  if (reset_ || closed_) return {Transfer::State::kBroken, 0};
  if (on_reply) {
    lock.unlock();
    on_reply(id_, bytes);
    return {Transfer::State::kMoved, bytes.size()};
  }
  const size_t n = std::min(bytes.size(), limit_bytes_ - out_.size());
  out_.append(bytes.substr(0, n));
  wants_room_ = n < bytes.size();
  changed_.notify_all();
  return {n > 0 ? Transfer::State::kMoved : Transfer::State::kWait, n};
}

void LoopbackWire::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

LoopbackFlow::LoopbackFlow(FlowHost& host, std::shared_ptr<LoopbackWire> wire,
                           std::string peer_name, Instant opened_at,
                           const LoopbackReply& on_reply)
    : StreamFlow(host, wire->id(), std::move(peer_name), opened_at),
      wire_(std::move(wire)),
      on_reply_(on_reply) {}

void LoopbackFlow::abort() {
  wire_->close();
  LoopbackQueue::raise(wire_);
}

bool LoopbackFlow::rewire(FlowHost&, FlowHost& to) {
  wire_->move_to(static_cast<LoopbackQueue&>(*to.queue));
  return true;
}

}  // namespace rubato
