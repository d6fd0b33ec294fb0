// SPDX-License-Identifier: Apache-2.0
//
// Outcome: the end of a request that got no reply and was not lost. A plain value.
#pragma once

#include <cstdint>

namespace rubato::load {

enum class Outcome : uint8_t {
  kRefused,  // by the server, explicitly and by plan
  kError,
  kExpired,  // never sent: the request waited for credit for too long
  kOverflowed,  // never sent: too many requests waited for credit
  kWithheld,    // never sent: less urgent than what the server admits
};

}  // namespace rubato::load
