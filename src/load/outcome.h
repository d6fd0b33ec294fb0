// SPDX-License-Identifier: Apache-2.0
//
// Outcome: how a request ended that got no reply and was not lost. A plain value.
#pragma once

#include <cstdint>

namespace rubato::load {

enum class Outcome : uint8_t {
  kRefused,  // by the server, explicitly and by plan
  kError,
  kExpired,  // never sent: had no credit for too long
  kOverflowed,  // never sent: too many had none
};

}  // namespace rubato::load
