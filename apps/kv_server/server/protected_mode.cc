// SPDX-License-Identifier: Apache-2.0
#include "kv_server/server/protected_mode.h"

#include <algorithm>
#include <array>

#include "rpc/frames.h"

namespace rubato::kv {

bool is_loopback(std::string_view address) {
  if (address.empty() || address == "loopback") return true;
  for (const std::string_view local : {"loopback:", "127.", "[::1]", "[::ffff:127."}) {
    if (address.starts_with(local)) return true;
  }
  return false;
}

bool is_loopback(const DatagramPeer& peer) {
  constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::array<uint8_t, 16> kLocal{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  if (!peer.ipv6) return peer.address[0] == 127;
  if (peer.address == kLocal) return true;
  return std::equal(kMapped.begin(), kMapped.end(), peer.address.begin()) &&
         peer.address[kMapped.size()] == 127;
}

std::string protected_mode_answer(Speaks speaks) {
  constexpr std::string_view kWhy =
      "protected mode: no password is set, so only clients on the loopback interface are served";
  constexpr std::string_view kHelp =
      "From there, set a password with CONFIG SET requirepass, or switch this off with CONFIG SET "
      "protected-mode no; for good, start the server with --requirepass or --protected-mode no.";
  std::string text;
  switch (speaks) {
    case Speaks::kResp:
      return text.append("-DENIED ").append(kWhy).append(". ").append(kHelp) + "\r\n";
    case Speaks::kMemcached: return text.append("SERVER_ERROR ").append(kWhy) + "\r\n";
    case Speaks::kRpc:
      rpc::encode(text, {rpc::Kind::kError, 0, static_cast<uint32_t>(rpc::Fault::kAddress), 0,
                         kWhy});
      return text;
  }
  return text;
}

}  // namespace rubato::kv
