// SPDX-License-Identifier: Apache-2.0
//
// What a port that no kernel serves has to do with a frame: pass datagrams for the server on, and
// answer what a host answers, that is ARP requests, echo requests of ICMP and of ICMPv6, and
// neighbour solicitations (RFC 826, 792, 4443, 4861); and ask for a neighbour, without a tag. Pure
// functions over bytes, with the headers of DPDK's librte_net; with or without one VLAN tag. Any
// thread. Units: bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "datapath/datagram.h"
#include "datapath/tcp_socket.h"
#include "xdp/frame_headers.h"

namespace rubato::dpdk {

// The one address of the port and the server.
struct HostAddress {
  std::array<uint8_t, 16> ip{};  // an IPv4 address is in the first four bytes
  std::array<uint8_t, 6> mac{};
  uint16_t port = 0;   // the first
  uint16_t ports = 1;  // from there on
  bool ipv6 = false;
};

// Without the Ethernet address.
HostAddress host_of(const SocketAddress& address);

enum class FrameKind : uint8_t {
  kDatagram,   // for the server
  kAnswer,     // the frame has become its own answer
  kNeighbour,  // tells the Ethernet address of a host
  kFragment,   // a part of a datagram for the host
  kMalformed,  // UDP for the host, whose lengths or header checksum do not fit
  kOther,      // for other hosts, ports or protocols, or from what is no other host
};

struct SortedFrame {
  FrameKind kind = FrameKind::kOther;
  xdp::ParsedFrame datagram;  // of a kDatagram; of a kNeighbour its peer's addresses
  size_t answer_bytes = 0;    // of a kAnswer
};

// An answer may be longer than what it answers.
inline constexpr size_t kMostAnswerGrowth = 8;

// `frame` has `size` bytes and room for kMostAnswerGrowth more. It may lie anywhere.
void sort_frame(char* frame, size_t size, const HostAddress& host, SortedFrame& sorted);

inline constexpr size_t kMostQuestionBytes = 86;

// Writes a frame that asks all for the Ethernet address of that one, of the host's family; returns
// its length, at most kMostQuestionBytes.
size_t ask_for_neighbour(char* frame, const HostAddress& host,
                         const std::array<uint8_t, 16>& address);

}  // namespace rubato::dpdk
