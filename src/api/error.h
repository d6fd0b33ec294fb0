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

// Cuts the message to the length of the error, which may be null, and ends it with "..." then.
inline void say(rubato_error* error, std::string_view message) {
  constexpr std::string_view kCut = "...";
  if (error == nullptr) return;
  constexpr size_t kMost = sizeof error->text - 1;
  const bool fits = message.size() <= kMost;
  const size_t size = fits ? message.size() : kMost - kCut.size();
  std::memcpy(error->text, message.data(), size);
  std::memcpy(error->text + size, kCut.data(), fits ? 0 : kCut.size());
  error->text[fits ? size : kMost] = '\0';
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
