// SPDX-License-Identifier: Apache-2.0
//
// Target: the server that a run drives, and its protocol. Pure; safe on every thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::load {

enum class Protocol : uint8_t {
  kResp,       // a key-value server
  kSpin,       // the synthetic one, over RESP
  kSpinUdp,    // the synthetic one, over datagrams
  kRpc,        // the synthetic one, over Rubato RPC and TCP
  kRpcUdp,     // the same over UDP
  kRpcKv,      // a key-value server, over Rubato RPC and TCP
  kMemcached,  // one that speaks memcached's text protocol
};

struct Target {
  Protocol protocol = Protocol::kResp;
  std::string host;
  uint16_t port = 0;
};

inline bool speaks_rpc(const Target& target) {
  return target.protocol == Protocol::kRpc || target.protocol == Protocol::kRpcUdp ||
         target.protocol == Protocol::kRpcKv;
}
inline bool keeps_values(const Target& target) {
  return target.protocol == Protocol::kResp || target.protocol == Protocol::kRpcKv ||
         target.protocol == Protocol::kMemcached;
}

inline constexpr uint16_t kMemcachedPort = 11211;

// `resp://HOST:PORT`, or with spin, spin+udp, rpc, rpc+udp, rpc+kv or memcached for resp; an IPv6
// address stands in brackets. Only memcached has a default port.
Result<Target> parse_target(std::string_view text);

}  // namespace rubato::load
