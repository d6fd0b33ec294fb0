// SPDX-License-Identifier: Apache-2.0
//
// What an interface is like, which its administrator may change while a wire uses it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "datapath/tcp_socket.h"

namespace rubato::xdp {

struct LinkState {
  int index = 0;
  int mtu = 0;  // bytes of an IP packet
  std::array<uint8_t, 6> mac{};
  uint32_t hardware_queues = 1;  // for receiving; 1 where the driver does not say

  bool operator==(const LinkState&) const = default;
};

// As the namespace of the socket, which may be any, has it. Fails with one line, above all where
// there is none of that name.
Result<LinkState> read_link(const Fd& socket, const std::string& interface);

// Its name at present, which may be another one than it was; empty = it is gone.
std::string name_of_link(const Fd& socket, int index);

// The log tells what was `before` and is no more, for a wire that was opened on `first`. Of an
// interface that is gone, `now` has the index 0.
void log_changes(const std::string& interface, const LinkState& first, const LinkState& before,
                 const LinkState& now);

}  // namespace rubato::xdp
