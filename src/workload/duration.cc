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

// Takes the unit off the text; null = there is none.
const Unit* take_unit(std::string_view& text) {
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.suffix)) continue;
    text.remove_suffix(unit.suffix.size());
    return &unit;
  }
  return nullptr;
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value) || value < 0) return {};
  if (text.front() == '-') return {};
  return value;
}

std::optional<Nanos> parse_duration(std::string_view text, Nanos bare_unit) {
  const Unit* const named = take_unit(text);
  const Nanos unit = named != nullptr ? named->length : bare_unit;
  const std::optional<double> number = parse_number(text);
  if (!number) return {};
  const double ns = *number * static_cast<double>(unit.count());
  if (ns > kLongestSeconds * 1e9) return {};
  return Nanos(std::llround(ns));
}

std::optional<Picos> parse_picos(std::string_view text) {
  const Unit* const unit = take_unit(text);
  const std::optional<double> number = parse_number(text);
  if (unit == nullptr || !number) return {};
  const double ns = *number * static_cast<double>(unit->length.count());
  if (ns > 1e9) return {};
  return Picos(std::llround(ns * 1e3));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace rubato
