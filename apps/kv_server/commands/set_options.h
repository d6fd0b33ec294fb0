// SPDX-License-Identifier: Apache-2.0
//
// The options of SET and GETEX, which share their expiry forms. Pure over the arguments and the
// time given.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kv_server/engine/engine.h"

namespace rubato::kv {

enum class ExpiryUnit : uint8_t { kNone, kEx, kPx, kExAt, kPxAt };

struct StringOptions {
  SetOptions::When when = SetOptions::When::kAlways;
  bool get = false;
  bool keep_ttl = false;
  bool persist = false;
  ExpiryUnit unit = ExpiryUnit::kNone;
  std::string_view expiry;  // as given
};

enum class OptionsOf : uint8_t { kSet, kGetEx };

// False = syntax error.
bool parse_string_options(std::span<const std::string_view> words, OptionsOf command,
                          StringOptions& options);

enum class ExpiryError : uint8_t { kNone, kNotANumber, kInvalid };

// The moment that `text` in `unit` names. Requires unit != kNone.
ExpiryError expiry_moment(std::string_view text, ExpiryUnit unit, int64_t now_ms,
                          int64_t& expires_at_ms);

}  // namespace rubato::kv
