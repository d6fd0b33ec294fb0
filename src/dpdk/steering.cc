// SPDX-License-Identifier: Apache-2.0
#include "dpdk/steering.h"

#include <rte_ethdev.h>

namespace rubato::dpdk {
namespace {

// Where the low seven bits of the client's port end in what is hashed, which is the addresses and
// both ports. Bit k of the hash is the sum of the products of bit i of the input and bit i + 31 - k
// of the key.
constexpr size_t kPortEndIpv4 = 2 * 32 + 16 - 7;
constexpr size_t kPortEndIpv6 = 2 * 128 + 16 - 7;
constexpr size_t kHashBits = 32;

}  // namespace

std::vector<uint8_t> steering_key(size_t bytes, bool ipv6) {
  std::vector<uint8_t> key(bytes);
  const size_t bit = (ipv6 ? kPortEndIpv6 : kPortEndIpv4) + kHashBits - 1;
  key[bit / 8] = static_cast<uint8_t>(0x80u >> bit % 8);
  return key;
}

uint32_t reta_index_of(uint32_t group) {
  uint32_t index = 0;
  for (uint32_t bit = 1; bit < kSteeringGroups; bit <<= 1) {
    index = index << 1 | ((group & bit) != 0 ? 1u : 0u);
  }
  return index;
}

Steering::Steering(uint32_t workers) {
  for (uint32_t group = 0; group < kSteeringGroups; ++group) table_[group] = group % workers;
}

bool Steering::start_card(uint16_t port, uint32_t entries) {
  port_ = port;
  entries_ = entries;
  if (!write_card(0, kSteeringGroups)) entries_ = 0;
  return entries_ > 0;
}

bool Steering::write_card(uint32_t first_group, uint32_t groups) const {
  std::vector<rte_eth_rss_reta_entry64> entries(entries_ / RTE_ETH_RETA_GROUP_SIZE);
  for (uint32_t group = first_group; group < first_group + groups; ++group) {
    for (uint32_t i = reta_index_of(group); i < entries_; i += kSteeringGroups) {
      rte_eth_rss_reta_entry64& part = entries[i / RTE_ETH_RETA_GROUP_SIZE];
      part.mask |= uint64_t{1} << i % RTE_ETH_RETA_GROUP_SIZE;
      part.reta[i % RTE_ETH_RETA_GROUP_SIZE] = static_cast<uint16_t>(worker_of(group));
    }
  }
  const auto size = static_cast<uint16_t>(entries_);
  return rte_eth_dev_rss_reta_update(port_, entries.data(), size) == 0;
}

bool Steering::move(uint32_t group, uint32_t to) {
  const std::lock_guard guard(mutex_);
  const uint32_t before = table_[group].exchange(to, std::memory_order_release);
  if (before == to) return false;
  if (!by_card() || write_card(group, 1)) return true;
  table_[group].store(before, std::memory_order_relaxed);
  return false;
}

}  // namespace rubato::dpdk
