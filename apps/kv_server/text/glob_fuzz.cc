// SPDX-License-Identifier: Apache-2.0
//
// The glob matcher against a plain recursive definition of the same language, on inputs small
// enough for the latter.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kv_server/text/glob.h"

namespace {

using rubato::kv::GlobCase;
using rubato::kv::glob_match;

constexpr size_t kMaxPattern = 24;
constexpr size_t kMaxText = 24;

// One element at the front of `pattern` (not a star): how long it is.
size_t element_length(std::string_view pattern) {
  if (pattern[0] == '\\') return pattern.size() > 1 ? 2 : 1;
  if (pattern[0] != '[') return 1;
  size_t at = 1;
  if (at < pattern.size() && pattern[at] == '^') ++at;
  while (at < pattern.size() && pattern[at] != ']') {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      at += 2;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      at += 3;
    } else {
      ++at;
    }
  }
  return at < pattern.size() ? at + 1 : at;
}

bool defined_match(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    for (size_t skip = 0; skip <= text.size(); ++skip) {
      if (defined_match(pattern.substr(1), text.substr(skip))) return true;
    }
    return false;
  }
  if (text.empty()) return false;
  const size_t length = element_length(pattern);
  return glob_match(pattern.substr(0, length), text.substr(0, 1)) &&
         defined_match(pattern.substr(length), text.substr(1));
}

size_t stars(std::string_view pattern) {
  size_t count = 0;
  for (const char c : pattern) count += c == '*' ? 1 : 0;
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMaxStars = 4;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\n');
  if (cut == std::string_view::npos) return 0;
  const std::string_view pattern = input.substr(0, cut);
  const std::string_view text = input.substr(cut + 1);
  glob_match(pattern, text, GlobCase::kIgnore);
  const bool matched = glob_match(pattern, text);
  if (pattern.size() > kMaxPattern || text.size() > kMaxText || stars(pattern) > kMaxStars) {
    return 0;
  }
  if (matched != defined_match(pattern, text)) std::abort();
  return 0;
}
