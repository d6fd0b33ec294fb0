// SPDX-License-Identifier: Apache-2.0
//
// Which worker gets the datagrams of a steering group. A card with receive side scaling does it
// itself: the Toeplitz hash is linear in its key, and a key with a single bit set makes the low
// seven bits of the hash those of the client's port in reverse order, so that an entry of the
// card's redirection table (RETA) is a group. Otherwise the wire looks into the same table for
// each frame.
//
// Memory order: an entry is read relaxed, since a frame that goes by the old one is served as well.
// A lock keeps moves in the order in which the card hears of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "datapath/datagram.h"

namespace rubato::dpdk {

// A key of that many bytes, at least 40, for datagrams over IPv4 or IPv6.
std::vector<uint8_t> steering_key(size_t bytes, bool ipv6);
// The low seven bits of the table's index.
uint32_t reta_index_of(uint32_t group);

class Steering {
 public:
  explicit Steering(uint32_t workers);

  // From now on the card's table follows, which has `entries`, a multiple of the number of groups.
  // False: the driver does not take it. Set-up.
  bool start_card(uint16_t port, uint32_t entries);
  bool by_card() const { return entries_ > 0; }

  uint32_t worker_of(uint32_t group) const {
    return table_[group].load(std::memory_order_relaxed);
  }
  // False: the group is there already, or the card refuses. Any thread.
  bool move(uint32_t group, uint32_t to);

 private:
  // Of one group, or of all.
  bool write_card(uint32_t first_group, uint32_t groups) const;

  std::array<std::atomic<uint32_t>, kSteeringGroups> table_;
  uint16_t port_ = 0;
  uint32_t entries_ = 0;
  std::mutex mutex_;  // guards moves
};

}  // namespace rubato::dpdk
