// SPDX-License-Identifier: Apache-2.0
//
// A datagram's peer as a socket address, and back; what addresses a host may have. Any thread.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>

#include "datapath/datagram.h"

namespace rubato {

// Its address and port; nothing else is known.
DatagramPeer peer_of(const sockaddr_storage& from);
// Returns the length of `to`.
socklen_t address_of(const DatagramPeer& peer, sockaddr_storage& to);

// False: the address of 4 or 16 bytes is that of every host, of each one itself, or of a group, or
// an IPv4 address in the form that IPv6 sockets give it, which is in no packet.
inline bool is_one_host4(const uint8_t* ip) { return ip[0] != 0 && ip[0] != 127 && ip[0] < 224; }
inline bool is_one_host6(const uint8_t* ip) {
  const auto all_zero = [ip](int size) {
    return std::all_of(ip, ip + size, [](uint8_t byte) { return byte == 0; });
  };
  const bool mapped = all_zero(10) && ip[10] == 0xff && ip[11] == 0xff;
  return ip[0] != 0xff && !mapped && !(all_zero(15) && ip[15] <= 1);
}
bool is_of_one_host(const sockaddr_storage& address);

}  // namespace rubato
