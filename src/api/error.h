// SPDX-License-Identifier: Apache-2.0
//
// Errors of the C interface. A plain function; any thread.
#pragma once

#include <rubato/rubato.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace rubato::api {

// Cuts the message to the length of the error, which may be null.
inline void say(rubato_error* error, std::string_view message) {
  if (error == nullptr) return;
  const size_t size = std::min(message.size(), sizeof error->text - 1);
  std::memcpy(error->text, message.data(), size);
  error->text[size] = '\0';
}

}  // namespace rubato::api
