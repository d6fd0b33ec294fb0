// SPDX-License-Identifier: Apache-2.0
#include "dpdk/testing/frame_client.h"

#include <utility>

#include "xdp/frame_headers.h"

namespace rubato::testing {

std::string ClientHost::frame_of(uint16_t port, std::string_view payload) const {
  std::string bytes(xdp::kMostHeaderBytes + payload.size(), 0);
  char* const at = bytes.data() + xdp::kMostHeaderBytes;
  payload.copy(at, payload.size());
  DatagramPeer to = server_;
  to.local_port = port;
  const char* const first = xdp::write_headers(at, payload.size(), to);
  return {first, static_cast<size_t>(at + payload.size() - first)};
}

std::string ClientHost::receive(uint16_t port) {
  for (std::string bytes; !(bytes = link_.get_bytes()).empty();) {
    xdp::ParsedFrame parsed;
    const bool datagram = xdp::parse_frame(bytes, parsed);
    EXPECT_TRUE(datagram && parsed.peer.address == server_.address &&
                parsed.peer.local == server_.local && parsed.peer.vlan == server_.vlan &&
                parsed.peer.port == server_.port && parsed.peer.mac == server_.mac);
    heard_[parsed.peer.local_port].emplace_back(parsed.payload);
  }
  std::deque<std::string>& mine = heard_[port];
  if (mine.empty()) return {};
  std::string first = std::move(mine.front());
  mine.pop_front();
  return first;
}

DatagramPeer server_at(bool ipv6, uint16_t vlan, std::array<uint8_t, 6> mac) {
  DatagramPeer server;
  server.ipv6 = ipv6;
  if (ipv6) {
    server.address = {0xfd, 0x77};
    server.address[15] = 1;
  } else {
    server.address = {10, 77, 0, 1};
  }
  server.local = server.address;
  server.local[ipv6 ? 15 : 3] = 2;
  server.port = 7777;
  server.vlan = vlan;
  server.mac = mac;
  server.local_mac = {2, 0, 0, 0, 0, 2};
  return server;
}

}  // namespace rubato::testing
