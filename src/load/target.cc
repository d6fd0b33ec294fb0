// SPDX-License-Identifier: Apache-2.0
#include "load/target.h"

#include <charconv>

namespace rubato::load {
namespace {

Error bad_target(std::string_view text) {
  return {"target: '" + std::string(text) +
          "' is not resp://HOST:PORT or spin://HOST:PORT with a port of 1 to 65535"};
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
  std::string_view rest = text;
  Target target;
  if (rest.starts_with("resp://")) {
    target.protocol = Protocol::kResp;
  } else if (rest.starts_with("spin://")) {
    target.protocol = Protocol::kSpin;
  } else {
    return bad_target(text);
  }
  rest.remove_prefix(7);
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return bad_target(text);
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad_target(text);
  }
  if (host.empty()) return bad_target(text);
  target.host = std::string(host);
  const std::string_view port = rest.substr(colon + 1);
  const auto [stop, problem] = std::from_chars(port.data(), port.data() + port.size(), target.port);
  if (problem != std::errc() || stop != port.data() + port.size() || target.port == 0) {
    return bad_target(text);
  }
  return target;
}

}  // namespace rubato::load
