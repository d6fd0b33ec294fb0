// SPDX-License-Identifier: Apache-2.0
//
// Target: the server that a run drives, and its protocol. Pure; safe on every thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rubato::load {

enum class Protocol : uint8_t {
  kResp,       // a key-value server
  kSpin,       // the synthetic one, over RESP
  kSpinUdp,    // the synthetic one, over datagrams
  kRpc,        // the synthetic one, over Rubato RPC and TCP
  kRpcUdp,     // the same over UDP
  kRpcKv,      // a key-value server, over Rubato RPC and TCP
  kRpcKvUdp,   // the same over UDP
  kMemcached,  // one that speaks memcached's text protocol
  kMemcachedUdp,  // the same over UDP
  kHttp,       // any server of HTTP/1.1
};

struct Target {
  Protocol protocol = Protocol::kResp;
  std::string host;
  uint16_t port = 0;
  bool port_given = true;  // false: port is the default of the protocol

  std::string text() const;  // HOST:PORT
};

inline bool speaks_rpc(const Target& target) {
  return target.protocol == Protocol::kRpc || target.protocol == Protocol::kRpcUdp ||
         target.protocol == Protocol::kRpcKv || target.protocol == Protocol::kRpcKvUdp;
}
// The synthetic server, whose requests are service times; the others' are a mix of commands.
inline bool spins(const Target& target) {
  return target.protocol == Protocol::kSpin || target.protocol == Protocol::kSpinUdp ||
         target.protocol == Protocol::kRpc || target.protocol == Protocol::kRpcUdp;
}

constexpr bool speaks_memcached(Protocol protocol) {
  return protocol == Protocol::kMemcached || protocol == Protocol::kMemcachedUdp;
}
constexpr bool over_udp(Protocol protocol) {
  return protocol == Protocol::kSpinUdp || protocol == Protocol::kRpcUdp ||
         protocol == Protocol::kRpcKvUdp || protocol == Protocol::kMemcachedUdp;
}

// 0 = there is none.
constexpr uint16_t default_port(Protocol protocol) {
  if (speaks_memcached(protocol)) return 11211;
  return protocol == Protocol::kHttp ? 80 : 0;
}

// `resp://HOST:PORT`, or with spin, spin+udp, rpc, rpc+udp, rpc+kv, rpc+kv+udp, memcached,
// memcached+udp or http for resp; an IPv6 address stands in brackets. Only memcached and HTTP have
// a default port.
Result<Target> parse_target(std::string_view text);
// The same, or several: behind the first, `,HOST:PORT` of each other server of that protocol.
Result<std::vector<Target>> parse_targets(std::string_view text);

}  // namespace rubato::load
