// SPDX-License-Identifier: Apache-2.0
//
// Target: which server a run drives and which protocol it speaks. Pure; safe on every thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::load {

enum class Protocol : uint8_t { kResp, kSpin };

struct Target {
  Protocol protocol = Protocol::kResp;
  std::string host;
  uint16_t port = 0;
};

// `resp://HOST:PORT` or `spin://HOST:PORT`; an IPv6 address stands in brackets.
Result<Target> parse_target(std::string_view text);

}  // namespace rubato::load
