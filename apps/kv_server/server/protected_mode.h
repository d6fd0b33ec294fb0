// SPDX-License-Identifier: Apache-2.0
//
// Protected mode, as Redis has it: while no password is set, only clients of this machine are
// served, wherever the server listens. Pure.
#pragma once

#include <string>
#include <string_view>

#include "datapath/datagram.h"
#include "kv_server/server/options.h"

namespace rubato::kv {

// Whether an address as Peer has it is local: "127.0.0.1:54321", "[::1]:54321"; "loopback:7" or an
// empty one is a client in this process. An unknown form is not local.
bool is_loopback(std::string_view address);
bool is_loopback(const DatagramPeer& peer);

// The answer to a client from elsewhere, before its connection is closed.
std::string protected_mode_answer(Speaks speaks);

}  // namespace rubato::kv
