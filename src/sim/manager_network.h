// SPDX-License-Identifier: Apache-2.0
//
// ManagerNetwork: the messages between the managers of groups: their way over the mesh, which of
// them are one broadcast, and the mailboxes that got jobs. One owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "policy/extensions.h"
#include "sim/costs.h"
#include "sim/mailbox.h"

namespace rubato::sim {

class ManagerNetwork {
 public:
  static constexpr size_t kMessageKinds = 4;  // all above the last count as the last

  // `noc` outlives this.
  ManagerNetwork(const Costs::Noc& noc, uint32_t managers)
      : noc_(noc), mailboxes_(managers), places_(managers) {}

  // Which worker a manager stands beside.
  void place(ManagerId manager, uint32_t beside) { places_[manager.value] = beside; }

  // The next message is no part of a broadcast that went before.
  void end_broadcast() { broadcasts_ = false; }
  // Messages without jobs that say the same to several managers in a row are one broadcast. Is this
  // the first message of one, or on its own? Asked once per message.
  bool starts_anew(const Message& message) {
    const bool repeats = broadcasts_ && message.jobs == 0 && message.kind == last_kind_ &&
                         message.value == last_value_;
    broadcasts_ = message.jobs == 0;
    last_kind_ = message.kind;
    last_value_ = message.value;
    return !repeats;
  }

  // False = the mailbox is full.
  bool send(ManagerId to, const Message& message, Instant sent) {
    const int64_t hops = mesh_hops(noc_, places_[message.from.value], places_[to.value]);
    if (!mailboxes_[to.value].put(message, sent + noc_.per_hop * hops)) return false;
    for (uint32_t i = 0; i < message.jobs; ++i) ++message.job[i]->moves;
    ++messages_[std::min<size_t>(message.kind, messages_.size() - 1)];
    if (message.jobs > 0) got_jobs_.push_back(to);
    return true;
  }
  Mailbox& mailbox(ManagerId manager) { return mailboxes_[manager.value]; }

  // The managers to which jobs were sent, one by one; null = no more. Valid until the next send.
  const ManagerId* next_with_jobs() {
    if (got_jobs_.empty()) return nullptr;
    last_with_jobs_ = got_jobs_.back();
    got_jobs_.pop_back();
    return &last_with_jobs_;
  }

  // Messages sent, by kind.
  const std::array<uint64_t, kMessageKinds>& messages() const { return messages_; }

 private:
  const Costs::Noc& noc_;
  std::vector<Mailbox> mailboxes_;
  std::vector<uint32_t> places_;  // by manager
  std::vector<ManagerId> got_jobs_;
  ManagerId last_with_jobs_;
  std::array<uint64_t, kMessageKinds> messages_{};
  bool broadcasts_ = false;  // the last message had no jobs, and said this:
  uint8_t last_kind_ = 0;
  uint32_t last_value_ = 0;
};

}  // namespace rubato::sim
