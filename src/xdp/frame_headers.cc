// SPDX-License-Identifier: Apache-2.0
#include "xdp/frame_headers.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace rubato::xdp {
namespace {

constexpr uint16_t kTypeIpv4 = 0x0800;
constexpr uint16_t kTypeIpv6 = 0x86dd;
constexpr uint16_t kTypeTag = 0x8100;
constexpr uint16_t kDoNotFragment = 0x4000;

uint8_t byte_at(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

uint16_t word_at(std::string_view bytes, size_t at) {
  return static_cast<uint16_t>(byte_at(bytes, at) << 8 | byte_at(bytes, at + 1));
}

void put_word(char* to, uint32_t word) {
  to[0] = static_cast<char>(word >> 8);
  to[1] = static_cast<char>(word);
}

uint64_t folded(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

// The sum of RFC 1071 over the bytes as big-endian words, the last one filled up with zero. It may
// be taken in the machine's own order, four bytes at a time, and turned around at the end
// (section 2, B and C).
uint64_t sum_of(std::string_view bytes, uint64_t sum = 0) {
  uint64_t own = 0;
  size_t at = 0;
  uint32_t word = 0;
  for (; at + sizeof word <= bytes.size(); at += sizeof word) {
    std::memcpy(&word, bytes.data() + at, sizeof word);
    own += word;
  }
  word = 0;
  std::memcpy(&word, bytes.data() + at, bytes.size() - at);
  return sum + ntohs(static_cast<uint16_t>(folded(own + word)));
}

uint16_t checksum_of(uint64_t sum) {
  return static_cast<uint16_t>(~folded(sum));
}

bool parse_ipv4(std::string_view& rest, DatagramPeer& peer) {
  if (rest.size() < kIpv4Bytes || byte_at(rest, 0) != 0x45) return false;
  const size_t length = word_at(rest, 2);
  if (length < kIpv4Bytes || length > rest.size()) return false;
  if ((word_at(rest, 6) & kPartOfDatagram) != 0 || byte_at(rest, 9) != kProtocolUdp) return false;
  if (checksum_of(sum_of(rest.substr(0, kIpv4Bytes))) != 0) return false;
  std::copy_n(rest.begin() + 12, 4, peer.address.begin());
  std::copy_n(rest.begin() + 16, 4, peer.local.begin());
  rest = rest.substr(kIpv4Bytes, length - kIpv4Bytes);
  return true;
}

bool parse_ipv6(std::string_view& rest, DatagramPeer& peer) {
  if (rest.size() < kIpv6Bytes || byte_at(rest, 0) >> 4 != 6) return false;
  const size_t length = word_at(rest, 4);
  if (length > rest.size() - kIpv6Bytes || byte_at(rest, 6) != kProtocolUdp) return false;
  peer.ipv6 = true;
  std::copy_n(rest.begin() + 8, 16, peer.address.begin());
  std::copy_n(rest.begin() + 24, 16, peer.local.begin());
  rest = rest.substr(kIpv6Bytes, length);
  return true;
}

size_t ethernet_bytes(const DatagramPeer& peer) {
  return kEthernetBytes + (peer.vlan != 0 ? kTagBytes : 0);
}

// The words of the addresses, of the protocol and of the length, which the checksum of UDP covers.
uint64_t pseudo_sum(const DatagramPeer& peer, size_t udp_bytes) {
  const size_t size = peer.ipv6 ? 16 : 4;
  const auto text = [size](const std::array<uint8_t, 16>& address) {
    return std::string_view(reinterpret_cast<const char*>(address.data()), size);
  };
  return sum_of(text(peer.address), sum_of(text(peer.local), kProtocolUdp + udp_bytes));
}

// `udp` is the header and the payload. The checksum of the whole datagram, its own field included,
// folds to all ones.
bool udp_checksum_fits(std::string_view udp, const DatagramPeer& peer) {
  const uint64_t pseudo = pseudo_sum(peer, udp.size());
  const uint16_t given = word_at(udp, 6);
  if (given == 0) return !peer.ipv6;
  return given == folded(pseudo) || folded(sum_of(udp, pseudo)) == 0xffff;
}

void write_udp(char* at, size_t udp_bytes, const DatagramPeer& peer, UdpChecksum wanted) {
  put_word(at, peer.local_port);
  put_word(at + 2, peer.port);
  put_word(at + 4, static_cast<uint32_t>(udp_bytes));
  put_word(at + 6, 0);
  const uint64_t pseudo = pseudo_sum(peer, udp_bytes);
  if (wanted == UdpChecksum::kPseudoHeader) {
    put_word(at + 6, static_cast<uint32_t>(folded(pseudo)));
    return;
  }
  const uint16_t checksum = checksum_of(sum_of({at, udp_bytes}, pseudo));
  put_word(at + 6, checksum != 0 ? checksum : 0xffffu);  // 0 would say that there is none
}

void write_ipv4(char* at, size_t udp_bytes, const DatagramPeer& peer) {
  std::memset(at, 0, kIpv4Bytes);
  at[0] = 0x45;
  put_word(at + 2, static_cast<uint32_t>(kIpv4Bytes + udp_bytes));
  put_word(at + 6, kDoNotFragment);
  at[8] = kTimeToLive;
  at[9] = kProtocolUdp;
  std::memcpy(at + 12, peer.local.data(), 4);
  std::memcpy(at + 16, peer.address.data(), 4);
  put_word(at + 10, checksum_of(sum_of({at, kIpv4Bytes})));
}

void write_ipv6(char* at, size_t udp_bytes, const DatagramPeer& peer) {
  std::memset(at, 0, 8);
  at[0] = 0x60;
  put_word(at + 4, static_cast<uint32_t>(udp_bytes));
  at[6] = kProtocolUdp;
  at[7] = kTimeToLive;
  std::memcpy(at + 8, peer.local.data(), 16);
  std::memcpy(at + 24, peer.address.data(), 16);
}

void write_ethernet(char* at, const DatagramPeer& peer) {
  std::memcpy(at, peer.mac.data(), peer.mac.size());
  std::memcpy(at + 6, peer.local_mac.data(), peer.local_mac.size());
  at += 12;
  if (peer.vlan != 0) {
    put_word(at, kTypeTag);
    put_word(at + 2, peer.vlan);
    at += kTagBytes;
  }
  put_word(at, peer.ipv6 ? kTypeIpv6 : kTypeIpv4);
}

}  // namespace

bool parse_frame(std::string_view frame, ParsedFrame& parsed) {
  if (frame.size() < kEthernetBytes) return false;
  DatagramPeer& peer = parsed.peer;
  peer = DatagramPeer();
  std::copy_n(frame.begin(), 6, peer.local_mac.begin());
  std::copy_n(frame.begin() + 6, 6, peer.mac.begin());
  uint16_t type = word_at(frame, 12);
  std::string_view rest = frame.substr(kEthernetBytes);
  if (type == kTypeTag) {
    if (rest.size() < kTagBytes) return false;
    peer.vlan = word_at(rest, 0);
    type = word_at(rest, 2);
    rest.remove_prefix(kTagBytes);
  }
  if (type == kTypeIpv4) {
    if (!parse_ipv4(rest, peer)) return false;
  } else if (type != kTypeIpv6 || !parse_ipv6(rest, peer)) {
    return false;
  }
  if (rest.size() < kUdpBytes) return false;
  const size_t length = word_at(rest, 4);
  if (length < kUdpBytes || length > rest.size()) return false;
  if (!udp_checksum_fits(rest.substr(0, length), peer)) return false;
  peer.port = word_at(rest, 0);
  peer.local_port = word_at(rest, 2);
  parsed.payload = rest.substr(kUdpBytes, length - kUdpBytes);
  return peer.port != 0 && peer.local_port != 0;
}

size_t header_bytes(const DatagramPeer& peer) {
  return ethernet_bytes(peer) + ip_bytes(peer) + kUdpBytes;
}

char* write_headers(char* payload, size_t payload_bytes, const DatagramPeer& peer,
                    UdpChecksum checksum) {
  const size_t udp_bytes = kUdpBytes + payload_bytes;
  char* at = payload - kUdpBytes;
  write_udp(at, udp_bytes, peer, checksum);
  at -= ip_bytes(peer);
  peer.ipv6 ? write_ipv6(at, udp_bytes, peer) : write_ipv4(at, udp_bytes, peer);
  at -= ethernet_bytes(peer);
  write_ethernet(at, peer);
  return at;
}

}  // namespace rubato::xdp
