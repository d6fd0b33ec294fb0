// SPDX-License-Identifier: Apache-2.0
#include "workload/duration.h"

#include <charconv>
#include <cmath>

namespace rubato {
namespace {

constexpr double kLongestSeconds = 1e6;

struct Unit {
  std::string_view suffix;
  Nanos length;
};

// Longer suffixes first: "s" ends every other one.
constexpr Unit kUnits[] = {
    {"ns", Nanos(1)}, {"us", Nanos::micros(1)}, {"ms", Nanos::millis(1)}, {"s", Nanos::seconds(1)}};

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc() || stop != end || !std::isfinite(value) || value < 0) return {};
  if (text.front() == '-') return {};
  return value;
}

std::optional<Nanos> parse_duration(std::string_view text, Nanos bare_unit) {
  Nanos unit = bare_unit;
  for (const Unit& u : kUnits) {
    if (!text.ends_with(u.suffix)) continue;
    text.remove_suffix(u.suffix.size());
    unit = u.length;
    break;
  }
  const std::optional<double> number = parse_number(text);
  if (!number) return {};
  const double ns = *number * static_cast<double>(unit.count());
  if (ns > kLongestSeconds * 1e9) return {};
  return Nanos(std::llround(ns));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace rubato
