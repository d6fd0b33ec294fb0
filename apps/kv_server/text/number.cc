// SPDX-License-Identifier: Apache-2.0
#include "kv_server/text/number.h"

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace rubato::kv {
namespace {

// The longest float text that is looked at, as in Redis.
constexpr size_t kMaxFloatText = kMaxFloatBytes - 1;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

template <class Float, class Convert>
bool parse_any_float(std::string_view text, Float& value, Convert convert) {
  char copy[kMaxFloatBytes];
  if (text.empty() || text.size() > kMaxFloatText) return false;
  if (std::isspace(static_cast<unsigned char>(text[0])) != 0) return false;
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  char* end = nullptr;
  errno = 0;
  const Float read = convert(copy, &end);
  if (end != copy + text.size() || std::isnan(read)) return false;
  if (errno == ERANGE && (std::isinf(read) || read == Float{0})) return false;
  value = read;
  return true;
}

}  // namespace

bool parse_integer(std::string_view text, int64_t& value) {
  if (text.empty() || text.size() > kMaxIntegerBytes) return false;
  const char* at = text.data();
  const char* end = at + text.size();
  const bool negative = *at == '-';
  if (negative) ++at;
  if (at == end || !is_digit(*at)) return false;
  if (*at == '0') {
    if (text.size() != 1) return false;
    value = 0;
    return true;
  }
  uint64_t magnitude = 0;
  for (; at != end; ++at) {
    if (!is_digit(*at)) return false;
    const auto digit = static_cast<uint64_t>(*at - '0');
    if (__builtin_mul_overflow(magnitude, uint64_t{10}, &magnitude)) return false;
    if (__builtin_add_overflow(magnitude, digit, &magnitude)) return false;
  }
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (magnitude > kMax + (negative ? 1 : 0)) return false;
  value = static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  return true;
}

bool parse_float(std::string_view text, long double& value) {
  return parse_any_float(text, value,
                         [](const char* from, char** end) { return std::strtold(from, end); });
}

bool parse_double(std::string_view text, double& value) {
  return parse_any_float(text, value,
                         [](const char* from, char** end) { return std::strtod(from, end); });
}

size_t write_integer(char* to, int64_t value) {
  return static_cast<size_t>(std::to_chars(to, to + kMaxIntegerBytes, value).ptr - to);
}

size_t write_float(char* to, long double value) {
  if (std::isinf(value)) {
    const std::string_view text = value > 0 ? "inf" : "-inf";
    std::memcpy(to, text.data(), text.size());
    return text.size();
  }
  auto length = static_cast<size_t>(std::snprintf(to, kMaxFloatBytes, "%.17Lf", value));
  while (to[length - 1] == '0') --length;
  if (to[length - 1] == '.') --length;
  if (length == 2 && to[0] == '-' && to[1] == '0') {
    to[0] = '0';
    return 1;
  }
  return length;
}

size_t write_double(char* to, double value) {
  if (std::isnan(value)) {
    std::memcpy(to, "nan", 3);
    return 3;
  }
  if (std::isinf(value)) return write_float(to, static_cast<long double>(value));
  return static_cast<size_t>(std::snprintf(to, kMaxFloatBytes, "%.17g", value));
}

bool parse_memory(std::string_view text, uint64_t& bytes) {
  size_t digits = 0;
  while (digits < text.size() && is_digit(text[digits])) ++digits;
  uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + digits, number);
  if (digits == 0 || read.ec != std::errc{}) return false;

  struct Unit {
    std::string_view name;
    uint64_t bytes;
  };
  constexpr uint64_t kKilo = 1000;
  constexpr uint64_t kKibi = 1024;
  constexpr Unit kUnits[] = {{"", 1},
                             {"b", 1},
                             {"k", kKilo},
                             {"kb", kKibi},
                             {"m", kKilo * kKilo},
                             {"mb", kKibi * kKibi},
                             {"g", kKilo * kKilo * kKilo},
                             {"gb", kKibi * kKibi * kKibi}};
  const std::string_view suffix = text.substr(digits);
  for (const Unit& unit : kUnits) {
    if (suffix.size() != unit.name.size()) continue;
    bool same = true;
    for (size_t i = 0; i < suffix.size(); ++i) same &= (suffix[i] | ' ') == unit.name[i];
    if (same) return !__builtin_mul_overflow(number, unit.bytes, &bytes);
  }
  return false;
}

}  // namespace rubato::kv
