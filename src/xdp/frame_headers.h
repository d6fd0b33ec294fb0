// SPDX-License-Identifier: Apache-2.0
//
// The headers in front of a UDP datagram on Ethernet, as pure functions over bytes: with or without
// one VLAN tag (IEEE 802.1Q), IPv4 without options or IPv6 without extension headers, whole
// datagrams only. Any thread. Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/limits.h"
#include "datapath/datagram.h"

namespace rubato::xdp {

inline constexpr size_t kEthernetBytes = 14;
inline constexpr size_t kTagBytes = 4;
inline constexpr size_t kIpv4Bytes = 20;
inline constexpr size_t kIpv6Bytes = 40;
inline constexpr size_t kUdpBytes = 8;
inline constexpr size_t kMostHeaderBytes = kEthernetBytes + kTagBytes + kIpv6Bytes + kUdpBytes;
inline constexpr uint8_t kProtocolUdp = 17;
inline constexpr uint8_t kTimeToLive = 64;
inline constexpr uint16_t kPartOfDatagram = 0x3fff;  // of IPv4: more fragments, or an offset

// Of the IP header in front of a datagram.
inline size_t ip_bytes(const DatagramPeer& peer) { return peer.ipv6 ? kIpv6Bytes : kIpv4Bytes; }

struct ParsedFrame {
  DatagramPeer peer;  // all of it, for the answer
  std::string_view payload;
};

// False: `frame` is no whole UDP datagram as above, its lengths do not fit each other, or a
// checksum is wrong. Bytes behind the datagram are padding. UDP's checksum may be missing over IPv4
// (RFC 768), and may be that of the pseudo header alone: a kernel that sends over a virtual link
// leaves the rest to the hardware that is not there (CHECKSUM_PARTIAL).
bool parse_frame(std::string_view frame, ParsedFrame& parsed);

// Header bytes of an answer to `peer`.
size_t header_bytes(const DatagramPeer& peer);

enum class UdpChecksum : uint8_t {
  kWhole,
  kPseudoHeader,  // of that alone, not inverted: hardware adds the rest
};

// Writes the headers of a datagram to `peer`, from the address and port that it has as local, right
// in front of its payload, which is `payload_bytes` long; returns their first byte. The checksum of
// an IPv4 header is computed.
char* write_headers(char* payload, size_t payload_bytes, const DatagramPeer& peer,
                    UdpChecksum checksum = UdpChecksum::kWhole);

// The processor fetches what a short request and its reply, in front of whose payload headers are
// written, take of a frame. Thousands of frames take turns, so none is in a cache near by when it
// comes: call it for a whole burst before the first of it is looked at.
inline void fetch_frame(const char* request, const char* reply_payload) {
  __builtin_prefetch(request);
  __builtin_prefetch(request + limits::kCacheLineBytes);
  __builtin_prefetch(reply_payload - limits::kCacheLineBytes, 1);
  __builtin_prefetch(reply_payload, 1);
}

}  // namespace rubato::xdp
