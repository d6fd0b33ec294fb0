// SPDX-License-Identifier: Apache-2.0
#include "dpdk/steering.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_thash.h>

#include <set>

#include "base/prng.h"
#include "dpdk/testing/environment.h"

namespace rubato::dpdk {
namespace {

TEST(SteeringKey, the_low_bits_of_the_hash_are_the_group) {
  Prng dice(5);
  const auto word = [&dice] { return static_cast<uint32_t>(dice.next()); };
  for (const bool ipv6 : {false, true}) {
    const size_t addresses = ipv6 ? 8 : 2;
    for (const size_t bytes : {size_t{40}, size_t{52}}) {
      const std::vector<uint8_t> key = steering_key(bytes, ipv6);
      for (int i = 0; i < 1000; ++i) {
        std::vector<uint32_t> tuple;
        while (tuple.size() < addresses) tuple.push_back(word());
        DatagramPeer peer;
        peer.port = static_cast<uint16_t>(word());
        tuple.push_back(uint32_t{peer.port} << 16 | 7777);
        const uint32_t hash =
            rte_softrss(tuple.data(), static_cast<uint32_t>(tuple.size()), key.data());
        ASSERT_EQ(hash % kSteeringGroups, reta_index_of(group_of(peer)));
      }
    }
  }
}

TEST(SteeringKey, each_group_has_an_entry_of_its_own) {
  std::set<uint32_t> entries;
  for (uint32_t group = 0; group < kSteeringGroups; ++group) entries.insert(reta_index_of(group));
  EXPECT_EQ(entries.size(), kSteeringGroups);
  EXPECT_EQ(*entries.rbegin(), kSteeringGroups - 1);
}

TEST(Steering, a_table_in_software_is_rewritten) {
  Steering steering(3);
  EXPECT_FALSE(steering.by_card());
  EXPECT_EQ(steering.worker_of(4), 1u);
  EXPECT_FALSE(steering.move(4, 1));
  EXPECT_TRUE(steering.move(4, 2));
  EXPECT_EQ(steering.worker_of(4), 2u);
}

// net_null keeps a table, though it steers by none.
TEST(Steering, the_cards_table_follows) {
  std::string reason;
  if (!testing::has_environment(reason)) GTEST_SKIP() << reason;
  uint16_t port = 0;
  ASSERT_EQ(rte_eth_dev_get_port_by_name("net_null0", &port), 0);
  rte_eth_dev_info info{};
  ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
  ASSERT_EQ(info.reta_size, kSteeringGroups);
  rte_eth_conf conf{};
  conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
  ASSERT_EQ(rte_eth_dev_configure(port, 2, 2, &conf), 0);
  Steering steering(2);
  ASSERT_TRUE(steering.start_card(port, info.reta_size));
  const auto queue_in_card = [&](uint32_t group) {
    const uint32_t index = reta_index_of(group);
    rte_eth_rss_reta_entry64 entries[2]{};
    for (auto& part : entries) part.mask = ~uint64_t{0};
    EXPECT_EQ(rte_eth_dev_rss_reta_query(port, entries, info.reta_size), 0);
    return entries[index / 64].reta[index % 64];
  };
  EXPECT_EQ(queue_in_card(5), 1);
  EXPECT_EQ(queue_in_card(6), 0);
  EXPECT_TRUE(steering.move(6, 1));
  EXPECT_EQ(queue_in_card(6), 1);
  EXPECT_EQ(queue_in_card(4), 0);
  EXPECT_EQ(queue_in_card(5), 1);
}

TEST(Steering, a_port_without_a_table_is_left_to_software) {
  std::string reason;
  if (!testing::has_environment(reason)) GTEST_SKIP() << reason;
  Steering steering(2);
  EXPECT_FALSE(steering.start_card(RTE_MAX_ETHPORTS - 1, kSteeringGroups));
  EXPECT_FALSE(steering.by_card());
  EXPECT_TRUE(steering.move(1, 0));
}

}  // namespace
}  // namespace rubato::dpdk
