// SPDX-License-Identifier: Apache-2.0
#include "dpdk/port.h"

#include <rte_errno.h>

#include <algorithm>
#include <charconv>
#include <mutex>

#include "dpdk/steering.h"

namespace rubato::dpdk {
namespace {

constexpr uint16_t kDescriptors = 1024;
constexpr uint16_t kPacketBytes = 1500;  // the longest that is received
constexpr size_t kIpv4HeaderBytes = 28;  // with UDP
constexpr size_t kIpv6HeaderBytes = 48;
constexpr uint16_t kNoteBytes = RTE_ALIGN(sizeof(FrameNote), RTE_MBUF_PRIV_ALIGN);
constexpr size_t kLeastKeyBytes = 40;
// net_af_xdp has the kernel write to the frames of the pool, and wants each in a page.
static_assert(sizeof(rte_mbuf) + RTE_CACHE_LINE_SIZE + kNoteBytes + kBufferBytes <= 4096);

Error failed_to(const std::string& what, int error) {
  return {"dpdk: " + what + ": " + rte_strerror(error < 0 ? -error : error)};
}

std::string name_of(uint16_t port) {
  char name[RTE_ETH_NAME_MAX_LEN] = "?";
  rte_eth_dev_get_name_by_port(port, name);
  return name;
}

std::string all_ports() {
  std::string text;
  for (uint16_t port = 0; port < RTE_MAX_ETHPORTS; ++port) {
    if (rte_eth_dev_is_valid_port(port) == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(port) + " = " + name_of(port);
  }
  return text.empty() ? "none" : text;
}

}  // namespace

Port::~Port() {
  if (started_) rte_eth_dev_stop(id_);
  if (id_ != RTE_MAX_ETHPORTS) rte_eth_dev_close(id_);
  rte_mempool_free(pool_);
}

Status Port::find(const std::string& port) {
  uint16_t id = RTE_MAX_ETHPORTS;
  const char* const end = port.data() + port.size();
  const auto [stop, failed] = std::from_chars(port.data(), end, id);
  if (failed != std::errc() || stop != end) {
    id = RTE_MAX_ETHPORTS;
    rte_eth_dev_get_port_by_name(port.c_str(), &id);
  }
  if (rte_eth_dev_is_valid_port(id) == 0) {
    return Error{"dpdk: there is no port '" + port + "'; ports: " + all_ports()};
  }
  id_ = id;
  name_ = name_of(id);
  return Done{};
}

Status Port::start(const DpdkWireOptions& options, const HostAddress& address) {
  host_ = address;
  if (Status found = find(options.port); !found.ok()) return found;
  if (Status configured = configure(options.queues); !configured.ok()) return configured;
  if (const int failed = rte_eth_dev_start(id_); failed != 0) {
    return failed_to("start of " + name_, failed);
  }
  started_ = true;
  rte_ether_addr mac{};
  rte_eth_macaddr_get(id_, &mac);
  std::copy_n(mac.addr_bytes, host_.mac.size(), host_.mac.begin());
  // Neighbour solicitations go to a group; a driver that cannot choose passes all.
  if (host_.ipv6) static_cast<void>(rte_eth_allmulticast_enable(id_));
  return Done{};
}

// Without a table as large as the number of groups, or a queue for each worker, software steers.
bool Port::can_steer(const rte_eth_dev_info& info, uint32_t workers) const {
  const uint64_t hash = host_.ipv6 ? RTE_ETH_RSS_NONFRAG_IPV6_UDP : RTE_ETH_RSS_NONFRAG_IPV4_UDP;
  return workers > 1 && receive_queues_ == workers && info.hash_key_size >= kLeastKeyBytes &&
         (info.flow_type_rss_offloads & hash) != 0 && info.reta_size >= kSteeringGroups &&
         info.reta_size % kSteeringGroups == 0;
}

Status Port::configure(uint32_t workers) {
  rte_eth_dev_info info{};
  if (const int failed = rte_eth_dev_info_get(id_, &info); failed != 0) {
    return failed_to("capabilities of " + name_, failed);
  }
  if (info.max_rx_queues == 0 || info.max_tx_queues == 0) {
    return Error{"dpdk: " + name_ + " has no queues: " + std::to_string(info.max_rx_queues) +
                 " to receive by and " + std::to_string(info.max_tx_queues) + " to send by"};
  }
  receive_queues_ = static_cast<uint16_t>(std::min<uint32_t>(info.max_rx_queues, workers));
  transmit_queues_ = static_cast<uint16_t>(std::min<uint32_t>(info.max_tx_queues, workers));
  uint16_t mtu = kPacketBytes;
  rte_eth_dev_get_mtu(id_, &mtu);
  mtu = std::min(mtu, kPacketBytes);
  most_payload_ = std::min(kMaxDatagramPayload,
                           mtu - (host_.ipv6 ? kIpv6HeaderBytes : kIpv4HeaderBytes));
  rte_eth_conf conf{};
  conf.rxmode.mtu = mtu;
  conf.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
  conf.txmode.offloads = info.tx_offload_capa &
                         (RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE);
  computes_checksums_ = (conf.txmode.offloads & RTE_ETH_TX_OFFLOAD_UDP_CKSUM) != 0;
  if (can_steer(info, workers)) {
    reta_entries_ = info.reta_size;
    key_ = steering_key(info.hash_key_size, host_.ipv6);
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_key = key_.data();
    conf.rx_adv_conf.rss_conf.rss_key_len = info.hash_key_size;
    conf.rx_adv_conf.rss_conf.rss_hf =
        host_.ipv6 ? RTE_ETH_RSS_NONFRAG_IPV6_UDP : RTE_ETH_RSS_NONFRAG_IPV4_UDP;
  }
  if (const int failed = rte_eth_dev_configure(id_, receive_queues_, transmit_queues_, &conf);
      failed != 0) {
    return failed_to("configuration of " + name_, failed);
  }
  return set_up_queues(info);
}

Status Port::set_up_queues(const rte_eth_dev_info& info) {
  uint16_t received = kDescriptors;
  uint16_t sent = kDescriptors;
  rte_eth_dev_adjust_nb_rx_tx_desc(id_, &received, &sent);
  const int node = rte_eth_dev_socket_id(id_);
  const uint32_t queued = uint32_t{received} * receive_queues_ + uint32_t{sent} * transmit_queues_;
  const uint32_t frames =
      std::max(kFramesPerQueue * receive_queues_, queued + kFramesOfRequests) - 1;
  pool_ = rte_pktmbuf_pool_create_by_ops(("rubato_" + std::to_string(id_)).c_str(), frames, 0,
                                         kNoteBytes, kBufferBytes, node, "ring_mt_rts");
  if (pool_ == nullptr) {
    return failed_to("memory for " + std::to_string(frames) +
                         " frames of 4 KiB (with --no-huge, -m says how many MiB there are)",
                     rte_errno);
  }
  for (uint16_t queue = 0; queue < receive_queues_; ++queue) {
    rte_eth_rxconf conf = info.default_rxconf;
    const int failed = rte_eth_rx_queue_setup(id_, queue, received,
                                              static_cast<uint32_t>(node), &conf, pool_);
    if (failed != 0) return failed_to("receive queue of " + name_, failed);
  }
  for (uint16_t queue = 0; queue < transmit_queues_; ++queue) {
    const int failed =
        rte_eth_tx_queue_setup(id_, queue, sent, static_cast<uint32_t>(node), nullptr);
    if (failed != 0) return failed_to("transmit queue of " + name_, failed);
  }
  transmit_locks_ = std::vector<TransmitQueue>(transmit_queues_);
  return Done{};
}

Port::Transmitted Port::transmit(uint16_t queue, std::span<rte_mbuf*> frames) {
  const auto count = static_cast<uint16_t>(frames.size());
  const std::lock_guard guard(transmit_locks_[queue].lock);
  const uint16_t prepared =
      computes_checksums_ ? rte_eth_tx_prepare(id_, queue, frames.data(), count) : count;
  const uint16_t taken = rte_eth_tx_burst(id_, queue, frames.data(), prepared);
  return {taken, taken == prepared && prepared < count};
}

}  // namespace rubato::dpdk
