// SPDX-License-Identifier: Apache-2.0
//
// What Debian's libc++ 19 for WASI lacks, included before everything else there: files as streams,
// which its configuration leaves out although wasi-libc has files, and std::from_chars of a double.
#pragma once

#ifdef __cplusplus
#include <__config_site>
#undef _LIBCPP_HAS_NO_FILESYSTEM

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

namespace std {

// strtod rounds correctly, too; it would also take what from_chars does not: space, '+', hex.
inline from_chars_result from_chars(const char* first, const char* last, double& value,
                                    chars_format format = chars_format::general) {
  const char* allowed = format == chars_format::fixed ? "-.0123456789" : "-+.0123456789eE";
  const char* end = first;
  while (end != last && *end != '\0' && strchr(allowed, *end) != nullptr) ++end;
  if (end == first || *first == '+') return {first, errc::invalid_argument};
  const string text(first, end);
  char* stop = nullptr;
  value = strtod(text.c_str(), &stop);
  if (stop == text.c_str()) return {first, errc::invalid_argument};
  return {first + (stop - text.c_str()), errc{}};
}

}  // namespace std
#endif
