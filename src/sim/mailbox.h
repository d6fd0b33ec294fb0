// SPDX-License-Identifier: Apache-2.0
//
// Mailbox: messages on their way to one manager, each visible from the instant at which it arrives.
// Bounded by limits::kMailbox. One owner.
#pragma once

#include <array>
#include <memory>

#include "base/limits.h"
#include "policy/extensions.h"

namespace rubato::sim {

class Mailbox {
 public:
  // False = full. Messages that arrive at the same time stay in the order in which they were sent.
  bool put(const Message& message, Instant arrives) {
    if (count_ == limits::kMailbox) return false;
    if (packets_ == nullptr) packets_ = std::make_unique<Packets>();
    uint32_t place = count_++;
    for (; place > 0 && at(place - 1).arrives > arrives; --place) at(place) = at(place - 1);
    at(place) = {arrives, message};
    with_jobs_ += message.jobs > 0 ? 1 : 0;
    return true;
  }

  // False = none has arrived by `now`.
  bool take(Message& message, Instant now) {
    if (count_ == 0 || at(0).arrives > now) return false;
    message = at(0).message;
    with_jobs_ -= message.jobs > 0 ? 1 : 0;
    first_ = (first_ + 1) % limits::kMailbox;
    --count_;
    return true;
  }

  // When the manager should look, so that no job lies here for long; never() if none does.
  Instant look_at() const { return with_jobs_ > 0 ? at(0).arrives : Instant::never(); }

 private:
  struct Packet {
    Instant arrives;
    Message message;
  };
  using Packets = std::array<Packet, limits::kMailbox>;

  Packet& at(uint32_t i) { return (*packets_)[(first_ + i) % limits::kMailbox]; }
  const Packet& at(uint32_t i) const { return (*packets_)[(first_ + i) % limits::kMailbox]; }

  std::unique_ptr<Packets> packets_;  // from the first message on
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  uint32_t with_jobs_ = 0;
};

}  // namespace rubato::sim
