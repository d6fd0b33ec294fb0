// SPDX-License-Identifier: Apache-2.0
//
// Option words ("EX", "MATCH", "yes") without regard to case. Pure, safe on every thread.
#pragma once

#include <string>
#include <string_view>

namespace rubato::kv {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | ' ') : c; }
constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c & ~' ') : c; }

constexpr bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

inline std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

inline std::string upper_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = upper(c);
  return out;
}

}  // namespace rubato::kv
