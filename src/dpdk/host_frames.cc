// SPDX-License-Identifier: Apache-2.0
#include "dpdk/host_frames.h"

#include <netinet/in.h>
#include <rte_arp.h>
#include <rte_ether.h>
#include <rte_icmp.h>
#include <rte_ip.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "datapath/datagram_address.h"

namespace rubato::dpdk {
namespace {

using xdp::kEthernetBytes;
using xdp::kIpv6Bytes;
using xdp::kPartOfDatagram;
using xdp::kProtocolUdp;
using xdp::kTagBytes;
using xdp::kTimeToLive;

constexpr size_t kArpSender = 14;  // its IPv4 address, behind its Ethernet address
constexpr uint8_t kIcmp = 1;
constexpr uint8_t kIcmp6 = 58;
constexpr uint8_t kNeighbourHops = 255;  // RFC 4861, section 7.1: it has passed no router
constexpr uint8_t kEcho6 = 128;
constexpr uint8_t kEchoReply6 = 129;
constexpr uint8_t kSolicitation = 135;
constexpr uint8_t kAdvertisement = 136;
constexpr uint8_t kFragmentHeader = 44;
// ff02::1:ff00:0/104, before the address's last three bytes: RFC 4291, section 2.7.1.
constexpr uint8_t kSolicitedGroup[13] = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
// From the ICMPv6 header on: the target, and the option with its Ethernet address.
constexpr size_t kSolicitationBytes = 24;
constexpr size_t kAdvertisementBytes = 32;
constexpr uint8_t kSolicited = 0x40;
constexpr uint8_t kOverride = 0x20;
constexpr uint8_t kSourceMac = 1;
constexpr uint8_t kTargetMac = 2;

bool is_group(const uint8_t* mac) { return (mac[0] & 1) != 0; }

bool is_unspecified6(const uint8_t* ip) {
  return std::all_of(ip, ip + 16, [](uint8_t byte) { return byte == 0; });
}

// The frame's layers, of which sort_frame has checked that they lie inside.
struct Layers {
  char* frame;
  uint8_t* ethernet;  // to, from, type
  std::span<uint8_t> rest;
  const HostAddress& host;

  bool to_host() const { return std::memcmp(ethernet, host.mac.data(), 6) == 0; }
  bool to_host_or_group() const { return to_host() || is_group(ethernet); }
  size_t before_rest() const {
    return static_cast<size_t>(rest.data() - reinterpret_cast<uint8_t*>(frame));
  }
  void answer_ethernet() const {
    std::memcpy(ethernet, ethernet + 6, 6);
    std::memcpy(ethernet + 6, host.mac.data(), 6);
  }
  SortedFrame answer(size_t rest_bytes) const {
    answer_ethernet();
    return {FrameKind::kAnswer, {}, before_rest() + rest_bytes};
  }
};

SortedFrame neighbour(bool ipv6, const uint8_t* ip, const uint8_t* mac) {
  SortedFrame sorted;
  if (is_group(mac)) return sorted;
  sorted.kind = FrameKind::kNeighbour;
  sorted.datagram.peer.ipv6 = ipv6;
  std::memcpy(sorted.datagram.peer.address.data(), ip, ipv6 ? 16 : 4);
  std::memcpy(sorted.datagram.peer.mac.data(), mac, 6);
  return sorted;
}

SortedFrame sort_arp(const Layers& at) {
  if (at.host.ipv6 || at.rest.size() < sizeof(rte_arp_hdr) || !at.to_host_or_group()) return {};
  auto& arp = *reinterpret_cast<rte_arp_hdr*>(at.rest.data());
  rte_arp_ipv4& data = arp.arp_data;
  if (arp.arp_hardware != htons(RTE_ARP_HRD_ETHER) || arp.arp_protocol != htons(0x0800) ||
      arp.arp_hlen != 6 || arp.arp_plen != 4) {
    return {};
  }
  if (arp.arp_opcode == htons(RTE_ARP_OP_REPLY) && at.to_host()) {
    return neighbour(false, at.rest.data() + kArpSender, at.rest.data() + kArpSender - 6);
  }
  if (arp.arp_opcode != htons(RTE_ARP_OP_REQUEST)) return {};
  const uint32_t asker = data.arp_sip;
  const uint32_t asked = data.arp_tip;
  if (std::memcmp(&asked, at.host.ip.data(), 4) != 0) return {};
  if (asker == asked || is_group(at.ethernet + 6)) return {};
  arp.arp_opcode = htons(RTE_ARP_OP_REPLY);
  data.arp_tha = data.arp_sha;
  data.arp_tip = asker;
  data.arp_sip = asked;
  std::memcpy(&data.arp_sha, at.host.mac.data(), 6);
  return at.answer(sizeof(rte_arp_hdr));
}

// `length`: of the packet.
SortedFrame sort_echo4(const Layers& at, rte_ipv4_hdr& ip, size_t length) {
  if (length < sizeof ip + sizeof(rte_icmp_hdr) || rte_ipv4_cksum(&ip) != 0) return {};
  auto& icmp = *reinterpret_cast<rte_icmp_hdr*>(at.rest.data() + sizeof ip);
  if (icmp.icmp_type != RTE_IP_ICMP_ECHO_REQUEST || icmp.icmp_code != 0) return {};
  if (rte_raw_cksum(&icmp, length - sizeof ip) != 0xffff) return {};
  icmp.icmp_type = RTE_IP_ICMP_ECHO_REPLY;
  icmp.icmp_cksum = 0;
  icmp.icmp_cksum = static_cast<uint16_t>(~rte_raw_cksum(&icmp, length - sizeof ip));
  const uint32_t asker = ip.src_addr;
  ip.src_addr = ip.dst_addr;
  ip.dst_addr = asker;
  ip.time_to_live = kTimeToLive;
  ip.hdr_checksum = 0;
  ip.hdr_checksum = rte_ipv4_cksum(&ip);
  return at.answer(length);
}

// A datagram, if the bytes are one; the frame is for the host.
SortedFrame sort_udp(const Layers& at) {
  SortedFrame sorted;
  const size_t bytes = at.before_rest() + at.rest.size();
  if (!xdp::parse_frame({at.frame, bytes}, sorted.datagram)) {
    sorted.kind = FrameKind::kMalformed;
  } else if (static_cast<uint16_t>(sorted.datagram.peer.local_port - at.host.port) <
             at.host.ports) {
    sorted.kind = FrameKind::kDatagram;
  }
  return sorted;
}

SortedFrame sort_ipv4(const Layers& at) {
  if (at.host.ipv6 || at.rest.size() < sizeof(rte_ipv4_hdr) || !at.to_host()) return {};
  auto& ip = *reinterpret_cast<rte_ipv4_hdr*>(at.rest.data());
  const uint8_t* const from = at.rest.data() + 12;
  if (std::memcmp(at.rest.data() + 16, at.host.ip.data(), 4) != 0) return {};
  if (!is_one_host4(from) || std::memcmp(from, at.host.ip.data(), 4) == 0) return {};
  if (is_group(at.ethernet + 6)) return {};
  if ((ntohs(ip.fragment_offset) & kPartOfDatagram) != 0) return {FrameKind::kFragment, {}, 0};
  if (ip.next_proto_id == kProtocolUdp) return sort_udp(at);
  const size_t length = ntohs(ip.total_length);
  if (ip.next_proto_id != kIcmp || ip.version_ihl != 0x45 || length > at.rest.size()) return {};
  return sort_echo4(at, ip, length);
}

// An IPv6 packet by the offsets of RFC 8200, section 3: DPDK 24.11 has given the addresses of
// rte_ipv6_hdr another type.
struct Ipv6Packet {
  uint8_t* bytes;

  size_t length() const { return static_cast<size_t>(bytes[4] << 8 | bytes[5]); }
  void set_length(size_t length) {
    bytes[4] = static_cast<uint8_t>(length >> 8);
    bytes[5] = static_cast<uint8_t>(length);
  }
  uint8_t protocol() const { return bytes[6]; }
  uint8_t& hops() { return bytes[7]; }
  uint8_t* from() { return bytes + 8; }
  uint8_t* to() { return bytes + 24; }
  uint8_t* icmp() { return bytes + kIpv6Bytes; }
  void turn_around(const HostAddress& host) {
    std::memcpy(to(), from(), 16);
    std::memcpy(from(), host.ip.data(), 16);
  }
  // Over the message and the pseudo header, RFC 4443, section 2.3.
  uint16_t icmp_checksum() const {
    uint32_t sum = uint32_t{rte_raw_cksum(bytes + 8, 32)} + htons(static_cast<uint16_t>(length()));
    sum += htons(kIcmp6) + uint32_t{rte_raw_cksum(bytes + kIpv6Bytes, length())};
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~((sum & 0xffff) + (sum >> 16)));
  }
  void write_icmp_checksum() {
    std::memset(icmp() + 2, 0, 2);
    const uint16_t checksum = icmp_checksum();
    std::memcpy(icmp() + 2, &checksum, 2);
  }
};

// RFC 4861, sections 7.1.1 and 7.2.4; to all hosts where the asker has no address yet.
SortedFrame advertise(const Layers& at, Ipv6Packet ip) {
  const bool solicited = !is_unspecified6(ip.from());
  if (solicited && !is_one_host6(ip.from())) return {};
  uint8_t* const icmp = ip.icmp();
  if (ip.hops() != kNeighbourHops || icmp[1] != 0) return {};
  if (std::memcmp(icmp + 8, at.host.ip.data(), 16) != 0) return {};
  ip.set_length(kAdvertisementBytes);
  ip.turn_around(at.host);
  if (!solicited) {
    static constexpr uint8_t kAllHosts[16] = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    static constexpr uint8_t kAllHostsMac[6] = {0x33, 0x33, 0, 0, 0, 1};
    std::memcpy(ip.to(), kAllHosts, 16);
    std::memcpy(at.ethernet + 6, kAllHostsMac, 6);
  }
  std::memset(icmp, 0, 8);
  icmp[0] = kAdvertisement;
  icmp[4] = solicited ? kSolicited | kOverride : kOverride;
  icmp[kSolicitationBytes] = kTargetMac;
  icmp[kSolicitationBytes + 1] = 1;  // eight bytes
  std::memcpy(icmp + kSolicitationBytes + 2, at.host.mac.data(), 6);
  ip.write_icmp_checksum();
  return at.answer(kIpv6Bytes + kAdvertisementBytes);
}

// RFC 4861, section 7.1.2, of those that name the Ethernet address first.
SortedFrame take_advertisement(Ipv6Packet ip) {
  const uint8_t* const icmp = ip.icmp();
  const uint8_t* const option = icmp + kSolicitationBytes;
  if (ip.hops() != kNeighbourHops || icmp[1] != 0) return {};
  return option[0] == kTargetMac && option[1] == 1 ? neighbour(true, icmp + 8, option + 2)
                                                   : SortedFrame();
}

SortedFrame answer_echo6(const Layers& at, Ipv6Packet ip) {
  ip.turn_around(at.host);
  ip.hops() = kTimeToLive;
  ip.icmp()[0] = kEchoReply6;
  ip.write_icmp_checksum();
  return at.answer(kIpv6Bytes + ip.length());
}

bool is_solicited_group(const uint8_t* ip, const HostAddress& host) {
  return std::memcmp(ip, kSolicitedGroup, sizeof kSolicitedGroup) == 0 &&
         std::memcmp(ip + 13, host.ip.data() + 13, 3) == 0;
}

SortedFrame sort_icmp6(const Layers& at, Ipv6Packet ip, bool to_host) {
  const size_t length = ip.length();
  if (length < 8 || length > at.rest.size() - kIpv6Bytes || ip.icmp_checksum() != 0) return {};
  const uint8_t type = ip.icmp()[0];
  if (type == kSolicitation && length >= kSolicitationBytes) return advertise(at, ip);
  if (type == kAdvertisement && length >= kAdvertisementBytes && to_host) {
    return take_advertisement(ip);
  }
  if (type != kEcho6 || !to_host || !is_one_host6(ip.from())) return {};
  return answer_echo6(at, ip);
}

SortedFrame sort_ipv6(const Layers& at) {
  if (!at.host.ipv6 || at.rest.size() < kIpv6Bytes) return {};
  Ipv6Packet ip{at.rest.data()};
  if ((at.rest[0] >> 4) != 6 || is_group(at.ethernet + 6)) return {};
  const bool to_host = at.to_host() && std::memcmp(ip.to(), at.host.ip.data(), 16) == 0;
  const bool to_group = at.to_host_or_group() && is_solicited_group(ip.to(), at.host);
  if (!to_host && !to_group) return {};
  if (std::memcmp(ip.from(), at.host.ip.data(), 16) == 0) return {};
  if (ip.protocol() == kIcmp6) return sort_icmp6(at, ip, to_host);
  if (!to_host || !is_one_host6(ip.from())) return {};
  if (ip.protocol() == kFragmentHeader) return {FrameKind::kFragment, {}, 0};
  return ip.protocol() == kProtocolUdp ? sort_udp(at) : SortedFrame();
}

size_t ask4(uint8_t* frame, const HostAddress& host, const uint8_t* ip) {
  std::memset(frame, 0xff, 6);
  auto& arp = *reinterpret_cast<rte_arp_hdr*>(frame + kEthernetBytes);
  arp.arp_hardware = htons(RTE_ARP_HRD_ETHER);
  arp.arp_protocol = htons(RTE_ETHER_TYPE_IPV4);
  arp.arp_hlen = 6;
  arp.arp_plen = 4;
  arp.arp_opcode = htons(RTE_ARP_OP_REQUEST);
  std::memcpy(&arp.arp_data.arp_sha, host.mac.data(), 6);
  std::memcpy(&arp.arp_data.arp_sip, host.ip.data(), 4);
  std::memcpy(&arp.arp_data.arp_tip, ip, 4);
  return kEthernetBytes + sizeof arp;
}

// RFC 4861, section 7.2.2.
size_t ask6(uint8_t* frame, const HostAddress& host, const uint8_t* ip) {
  constexpr size_t kBytes = kSolicitationBytes + 8;
  Ipv6Packet packet{frame + kEthernetBytes};
  std::memcpy(packet.to(), kSolicitedGroup, sizeof kSolicitedGroup);
  std::memcpy(packet.to() + sizeof kSolicitedGroup, ip + sizeof kSolicitedGroup, 3);
  frame[0] = frame[1] = 0x33;
  std::memcpy(frame + 2, packet.to() + 12, 4);
  packet.bytes[0] = 0x60;
  packet.bytes[6] = kIcmp6;
  packet.hops() = kNeighbourHops;
  packet.set_length(kBytes);
  std::memcpy(packet.from(), host.ip.data(), 16);
  uint8_t* const icmp = packet.icmp();
  icmp[0] = kSolicitation;
  std::memcpy(icmp + 8, ip, 16);
  icmp[kSolicitationBytes] = kSourceMac;
  icmp[kSolicitationBytes + 1] = 1;  // eight bytes
  std::memcpy(icmp + kSolicitationBytes + 2, host.mac.data(), 6);
  packet.write_icmp_checksum();
  return kEthernetBytes + kIpv6Bytes + kBytes;
}

}  // namespace

size_t ask_for_neighbour(char* frame, const HostAddress& host,
                         const std::array<uint8_t, 16>& address) {
  std::memset(frame, 0, kMostQuestionBytes);
  auto* const bytes = reinterpret_cast<uint8_t*>(frame);
  std::memcpy(bytes + 6, host.mac.data(), 6);
  const uint16_t type = htons(host.ipv6 ? RTE_ETHER_TYPE_IPV6 : RTE_ETHER_TYPE_ARP);
  std::memcpy(bytes + 12, &type, sizeof type);
  return host.ipv6 ? ask6(bytes, host, address.data()) : ask4(bytes, host, address.data());
}

HostAddress host_of(const SocketAddress& address) {
  HostAddress host;
  host.ipv6 = address.storage.ss_family == AF_INET6;
  if (host.ipv6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &address.storage, sizeof in);
    host.port = ntohs(in.sin6_port);
    std::memcpy(host.ip.data(), &in.sin6_addr, 16);
  } else {
    sockaddr_in in{};
    std::memcpy(&in, &address.storage, sizeof in);
    host.port = ntohs(in.sin_port);
    std::memcpy(host.ip.data(), &in.sin_addr, 4);
  }
  return host;
}

void sort_frame(char* frame, size_t size, const HostAddress& host, SortedFrame& sorted) {
  sorted.kind = FrameKind::kOther;
  if (size < kEthernetBytes) return;
  auto* const ethernet = reinterpret_cast<uint8_t*>(frame);
  if (is_group(ethernet + 6)) return;  // an answer would go to all hosts of the link
  const auto type_at = [ethernet](size_t at) {
    return static_cast<uint16_t>(ethernet[at] << 8 | ethernet[at + 1]);
  };
  uint16_t type = type_at(12);
  size_t headers = kEthernetBytes;
  if (type == RTE_ETHER_TYPE_VLAN) {
    headers += kTagBytes;
    if (size < headers) return;
    type = type_at(16);
  }
  const Layers at{frame, ethernet, {ethernet + headers, size - headers}, host};
  switch (type) {
    case RTE_ETHER_TYPE_ARP: sorted = sort_arp(at); break;
    case RTE_ETHER_TYPE_IPV4: sorted = sort_ipv4(at); break;
    case RTE_ETHER_TYPE_IPV6: sorted = sort_ipv6(at); break;
    default: break;
  }
}

}  // namespace rubato::dpdk
