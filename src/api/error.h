// SPDX-License-Identifier: Apache-2.0
//
// Errors of the C interface. Plain functions; any thread.
#pragma once

#include <rubato/rubato.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string_view>

#include "base/result.h"

namespace rubato::api {

// Cuts the message to the length of the error, which may be null.
inline void say(rubato_error* error, std::string_view message) {
  if (error == nullptr) return;
  const size_t size = std::min(message.size(), sizeof error->text - 1);
  std::memcpy(error->text, message.data(), size);
  error->text[size] = '\0';
}

// Tells what `act` returns, a Status, or throws. Returns RUBATO_OK or RUBATO_ERROR.
template <class Act>
int tell(rubato_error* error, Act&& act) {
  try {
    const Status done = act();
    if (done.ok()) return RUBATO_OK;
    say(error, done.error());
  } catch (const std::exception& trouble) {
    say(error, trouble.what());
  }
  return RUBATO_ERROR;
}

}  // namespace rubato::api
