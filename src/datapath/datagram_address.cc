// SPDX-License-Identifier: Apache-2.0
#include "datapath/datagram_address.h"

#include <netinet/in.h>

#include <cstring>

namespace rubato {

DatagramPeer peer_of(const sockaddr_storage& from) {
  DatagramPeer peer;
  peer.ipv6 = from.ss_family == AF_INET6;
  if (peer.ipv6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &from, sizeof in);
    std::memcpy(peer.address.data(), &in.sin6_addr, sizeof in.sin6_addr);
    peer.port = ntohs(in.sin6_port);
    peer.scope = in.sin6_scope_id;
  } else {
    sockaddr_in in{};
    std::memcpy(&in, &from, sizeof in);
    std::memcpy(peer.address.data(), &in.sin_addr, sizeof in.sin_addr);
    peer.port = ntohs(in.sin_port);
  }
  return peer;
}

socklen_t address_of(const DatagramPeer& peer, sockaddr_storage& to) {
  if (peer.ipv6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    std::memcpy(&in.sin6_addr, peer.address.data(), sizeof in.sin6_addr);
    in.sin6_port = htons(peer.port);
    in.sin6_scope_id = peer.scope;
    std::memcpy(&to, &in, sizeof in);
    return sizeof in;
  }
  sockaddr_in in{};
  in.sin_family = AF_INET;
  std::memcpy(&in.sin_addr, peer.address.data(), sizeof in.sin_addr);
  in.sin_port = htons(peer.port);
  std::memcpy(&to, &in, sizeof in);
  return sizeof in;
}

bool is_of_one_host(const sockaddr_storage& address) {
  const DatagramPeer host = peer_of(address);
  return host.ipv6 ? is_one_host6(host.address.data()) : is_one_host4(host.address.data());
}

}  // namespace rubato
