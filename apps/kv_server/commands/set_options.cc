// SPDX-License-Identifier: Apache-2.0
#include "kv_server/commands/set_options.h"

#include <limits>

#include "kv_server/text/number.h"
#include "kv_server/text/words.h"

namespace rubato::kv {
namespace {

constexpr int64_t kMillisPerSecond = 1000;
constexpr int64_t kMaxMoment = std::numeric_limits<int64_t>::max();

ExpiryUnit expiry_unit(std::string_view word) {
  if (same_word(word, "ex")) return ExpiryUnit::kEx;
  if (same_word(word, "px")) return ExpiryUnit::kPx;
  if (same_word(word, "exat")) return ExpiryUnit::kExAt;
  if (same_word(word, "pxat")) return ExpiryUnit::kPxAt;
  return ExpiryUnit::kNone;
}

// Redis lets an option be repeated and refuses two different ones that exclude each other.
bool parse_set_word(std::string_view word, StringOptions& options) {
  using When = SetOptions::When;
  if (same_word(word, "nx") && options.when != When::kIfPresent) {
    options.when = When::kIfAbsent;
  } else if (same_word(word, "xx") && options.when != When::kIfAbsent) {
    options.when = When::kIfPresent;
  } else if (same_word(word, "get")) {
    options.get = true;
  } else if (same_word(word, "keepttl") && options.unit == ExpiryUnit::kNone) {
    options.keep_ttl = true;
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool parse_string_options(std::span<const std::string_view> words, OptionsOf command,
                          StringOptions& options) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const ExpiryUnit unit = expiry_unit(word);
    if (unit != ExpiryUnit::kNone) {
      const bool clashes = options.keep_ttl || options.persist ||
                           (options.unit != ExpiryUnit::kNone && options.unit != unit);
      if (clashes || i + 1 == words.size()) return false;
      options.unit = unit;
      options.expiry = words[++i];
    } else if (command == OptionsOf::kSet) {
      if (!parse_set_word(word, options)) return false;
    } else if (same_word(word, "persist") && options.unit == ExpiryUnit::kNone) {
      options.persist = true;
    } else {
      return false;
    }
  }
  return true;
}

ExpiryError expiry_moment(std::string_view text, ExpiryUnit unit, int64_t now_ms,
                          int64_t& expires_at_ms) {
  int64_t value = 0;
  if (!parse_integer(text, value)) return ExpiryError::kNotANumber;
  if (value <= 0) return ExpiryError::kInvalid;
  if (unit == ExpiryUnit::kEx || unit == ExpiryUnit::kExAt) {
    if (value > kMaxMoment / kMillisPerSecond) return ExpiryError::kInvalid;
    value *= kMillisPerSecond;
  }
  if (unit == ExpiryUnit::kEx || unit == ExpiryUnit::kPx) {
    if (value > kMaxMoment - now_ms) return ExpiryError::kInvalid;
    value += now_ms;
  }
  expires_at_ms = value;
  return ExpiryError::kNone;
}

}  // namespace rubato::kv
