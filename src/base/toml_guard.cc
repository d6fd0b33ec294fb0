// SPDX-License-Identifier: Apache-2.0
#include "base/toml_guard.h"

#include <algorithm>

namespace rubato {
namespace {

// Up to where a comment or a text in quotes begins.
std::string_view bare_part(std::string_view line) {
  return line.substr(0, line.find_first_of("#\"'"));
}

bool has_byte_beyond_ascii(std::string_view part) {
  return std::any_of(part.begin(), part.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

// A line that begins with '[', perhaps two, after which there is neither a name nor a value. What
// is in quotes counts as either.
bool has_nameless_section(std::string_view line) {
  constexpr std::string_view kBlanks = " \t";
  constexpr std::string_view kMayFollow =
      "]_-\"'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
      "abcdefghijklmnopqrstuvwxyz";
  const size_t open = line.find_first_not_of(kBlanks);
  if (open == std::string_view::npos || line[open] != '[') return false;
  size_t next = line.find_first_not_of(kBlanks, open + 1);
  if (next != std::string_view::npos && line[next] == '[') {
    next = line.find_first_not_of(kBlanks, next + 1);
  }
  return next == std::string_view::npos || kMayFollow.find(line[next]) == std::string_view::npos;
}

}  // namespace

size_t line_beyond_toml(std::string_view text) {
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (has_nameless_section(line) || has_byte_beyond_ascii(bare_part(line))) return number;
  }
  return 0;
}

}  // namespace rubato
