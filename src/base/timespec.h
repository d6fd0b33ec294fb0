// SPDX-License-Identifier: Apache-2.0
//
// Times as system calls take them. Pure.
#pragma once

#include <ctime>

#include "base/time.h"

namespace rubato {

// Requires that it is not negative.
constexpr timespec timespec_of(Nanos time) {
  return {time.count() / 1'000'000'000, time.count() % 1'000'000'000};
}

}  // namespace rubato
