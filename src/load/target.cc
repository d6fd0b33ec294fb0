// SPDX-License-Identifier: Apache-2.0
#include "load/target.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace rubato::load {
namespace {

Error bad_target(std::string_view text) {
  return {"target: '" + std::string(text) +
          "' is not resp://HOST:PORT, memcached://HOST[:PORT], memcached+udp://HOST[:PORT], "
          "http://HOST[:PORT], spin://, spin+udp://, rpc://, rpc+udp://, rpc+kv:// or "
          "rpc+kv+udp:// with a port of 1 to 65535"};
}

constexpr std::pair<std::string_view, Protocol> kSchemes[] = {
    {"resp", Protocol::kResp},
    {"spin", Protocol::kSpin},
    {"spin+udp", Protocol::kSpinUdp},
    {"rpc", Protocol::kRpc},
    {"rpc+udp", Protocol::kRpcUdp},
    {"rpc+kv", Protocol::kRpcKv},
    {"rpc+kv+udp", Protocol::kRpcKvUdp},
    {"memcached", Protocol::kMemcached},
    {"memcached+udp", Protocol::kMemcachedUdp},
    {"http", Protocol::kHttp},
};

}  // namespace

Result<Target> parse_target(std::string_view text) {
  Target target;
  const size_t end = text.find("://");
  if (end == std::string_view::npos) return bad_target(text);
  const std::string_view given = text.substr(0, end);
  const auto scheme = std::find_if(std::begin(kSchemes), std::end(kSchemes),
                                   [&](const auto& known) { return known.first == given; });
  if (scheme == std::end(kSchemes)) return bad_target(text);
  target.protocol = scheme->second;
  const std::string_view rest = text.substr(end + 3);
  const bool whole = rest.find(':') == std::string_view::npos || rest.ends_with(']');
  if (whole && default_port(target.protocol) == 0) return bad_target(text);
  const size_t colon = whole ? rest.size() : rest.rfind(':');
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad_target(text);
  }
  if (host.empty()) return bad_target(text);
  target.host = std::string(host);
  if (whole) {
    target.port = default_port(target.protocol);
    target.port_given = false;
    return target;
  }
  const std::string_view port = rest.substr(colon + 1);
  const auto [stop, problem] = std::from_chars(port.data(), port.data() + port.size(), target.port);
  if (problem != std::errc() || stop != port.data() + port.size() || target.port == 0) {
    return bad_target(text);
  }
  return target;
}

Result<std::vector<Target>> parse_targets(std::string_view text) {
  std::vector<Target> targets;
  const size_t scheme = text.find("://");
  const std::string before(scheme == std::string_view::npos ? "" : text.substr(0, scheme + 3));
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    Result<Target> target = parse_target(targets.empty() ? std::string(one)
                                                         : before + std::string(one));
    if (!target) return Error{target.error()};
    targets.push_back(std::move(*target));
    if (comma == std::string_view::npos) return targets;
    rest.remove_prefix(comma + 1);
  }
}

std::string Target::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace rubato::load
