// SPDX-License-Identifier: Apache-2.0
#include "kv_server/text/glob.h"

#include <utility>

namespace rubato::kv {
namespace {

// Bytes compare as signed chars, as they do in Redis: it matters for ranges that cross 0x7f.
struct Matcher {
  std::string_view pattern;
  GlobCase letters;

  int fold(char c) const {
    if (letters == GlobCase::kIgnore && c >= 'A' && c <= 'Z') return c + ('a' - 'A');
    return c;
  }
  bool equal(char a, char b) const { return fold(a) == fold(b); }

  bool in_range(char from, char to, char c) const {
    int low = fold(from);
    int high = fold(to);
    if (from > to) std::swap(low, high);
    return fold(c) >= low && fold(c) <= high;
  }

  // Matches `c` against the class that opens at `at`; moves `at` behind it.
  bool match_class(size_t& at, char c) const {
    ++at;
    const bool negated = at < pattern.size() && pattern[at] == '^';
    if (negated) ++at;
    bool found = false;
    while (at < pattern.size() && pattern[at] != ']') {
      if (pattern[at] == '\\' && at + 1 < pattern.size()) {
        ++at;
        found |= pattern[at] == c;
      } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
        found |= in_range(pattern[at], pattern[at + 2], c);
        at += 2;
      } else {
        found |= equal(pattern[at], c);
      }
      ++at;
    }
    if (at < pattern.size()) ++at;
    return found != negated;
  }

  // Matches one byte of text against the pattern element at `at`, which is not a star.
  bool match_one(size_t& at, char c) const {
    switch (pattern[at]) {
      case '?':
        ++at;
        return true;
      case '[':
        return match_class(at, c);
      case '\\':
        if (at + 1 < pattern.size()) ++at;
        [[fallthrough]];
      default:
        return equal(pattern[at++], c);
    }
  }
};

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text, GlobCase letters) {
  const Matcher matcher{pattern, letters};
  size_t at = 0;
  size_t pos = 0;
  size_t star = std::string_view::npos;  // behind the last star seen
  size_t star_pos = 0;                   // where its match ends at the moment
  size_t stars = 0;
  while (pos < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      while (at < pattern.size() && pattern[at] == '*') ++at;
      if (at == pattern.size()) return true;
      if (++stars > kMaxGlobStars) return false;
      star = at;
      star_pos = pos;
      continue;
    }
    if (at < pattern.size() && matcher.match_one(at, text[pos])) {
      ++pos;
      continue;
    }
    if (star == std::string_view::npos) return false;
    at = star;
    pos = ++star_pos;
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

std::string_view glob_literal_prefix(std::string_view pattern) {
  return pattern.substr(0, pattern.find_first_of("*?[\\"));
}

}  // namespace rubato::kv
