// SPDX-License-Identifier: Apache-2.0
//
// Checks of the lists of texts of the C interface. Plain functions; any thread.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "runtime/worker_stats.h"

namespace rubato::api {

// Fails if the list or a text of it is null.
inline Status check_texts(const char* const* texts, size_t count) {
  if (texts == nullptr && count != 0) {
    return Error{"null, with a count of " + std::to_string(count)};
  }
  for (size_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr) return Error{"text " + std::to_string(i) + " is null"};
  }
  return Done{};
}

// The names of types 0 .. count - 1.
inline Status check_type_names(const char* const* names, size_t count) {
  if (count > kRequestTypes) {
    return Error{"type_names: " + std::to_string(count) + " for " + std::to_string(kRequestTypes) +
                 " types"};
  }
  const Status good = check_texts(names, count);
  return good.ok() ? good : Error{"type_names: " + good.error()};
}

}  // namespace rubato::api
