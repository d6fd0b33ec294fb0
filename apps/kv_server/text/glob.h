// SPDX-License-Identifier: Apache-2.0
//
// Glob matching as KEYS, SCAN MATCH and CONFIG GET use it: `*`, `?`, `[abc]`, `[^a-z]`, and `\`
// to take the next byte as it is. A pure function over bytes; safe on every thread.
//
// A pattern of more than kMaxGlobStars stars (runs of stars count once) matches nothing, as there.
// Only the last `*` is ever tried again, because everything between two stars has a fixed length:
// the time is at most pattern length times text length, whatever the pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rubato::kv {

inline constexpr size_t kMaxGlobStars = 1000;

enum class GlobCase : uint8_t { kExact, kIgnore };

// True if `pattern` matches all of `text`. An unclosed class ends with the pattern; a `\` at the
// very end stands for itself.
bool glob_match(std::string_view pattern, std::string_view text,
                GlobCase letters = GlobCase::kExact);

// True if the pattern matches everything, so that matching can be left out.
inline bool glob_matches_all(std::string_view pattern) { return pattern == "*"; }

// The bytes that every match starts with: the part of the pattern before its first special byte.
std::string_view glob_literal_prefix(std::string_view pattern);

}  // namespace rubato::kv
