// SPDX-License-Identifier: Apache-2.0
//
// A datagram's peer as a socket address, and back. Any thread.
#pragma once

#include <sys/socket.h>

#include "datapath/datagram.h"

namespace rubato {

// Its address and port; nothing else is known.
DatagramPeer peer_of(const sockaddr_storage& from);
// Returns the length of `to`.
socklen_t address_of(const DatagramPeer& peer, sockaddr_storage& to);

}  // namespace rubato
