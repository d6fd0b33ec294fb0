// SPDX-License-Identifier: Apache-2.0
#include "base/option_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>

namespace rubato {
namespace {

struct Unit {
  std::string_view name;
  double nanos;
};
constexpr std::array<Unit, 4> kUnits{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};

std::optional<double> nanos_of(std::string_view unit) {
  for (const Unit& known : kUnits) {
    if (known.name == unit) return known.nanos;
  }
  return std::nullopt;
}

struct Number {
  double value = 0;
  std::string_view suffix;  // what follows the digits
};

std::optional<Number> parse_number(std::string_view text) {
  Number number;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number.value);
  if (error != std::errc{} || !std::isfinite(number.value)) return std::nullopt;
  number.suffix = std::string_view(rest, static_cast<size_t>(end - rest));
  return number;
}

std::string format_number(double value) {
  std::array<char, 32> text;
  const int length = std::snprintf(text.data(), text.size(), "%.10g", value);
  return std::string(text.data(), static_cast<size_t>(length));
}

double unit_nanos(const OptionInfo& info) { return nanos_of(info.unit).value_or(1); }

std::string format_bound(const OptionInfo& info, double bound) {
  return format_time(Nanos(std::llround(bound * unit_nanos(info))));
}

Error wrong(const OptionInfo& info, const std::string& takes, std::string_view got) {
  return {std::string(info.name) + " takes " + takes + ", not '" + std::string(got) + "'"};
}

std::string takes_number(const OptionInfo& info, const char* kind) {
  return std::string(kind) + " from " + format_number(info.low) + " to " + format_number(info.high);
}

bool in_range(const OptionInfo& info, double value) {
  return value >= info.low && value <= info.high;
}

OptionDescription describe_number(const OptionInfo& info, const char* kind, double value) {
  return {info.name,           info.help, kind, format_number(info.low), format_number(info.high),
          format_number(value)};
}

// Levenshtein, row by row.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string closest_name(std::string_view name, std::span<const char* const> candidates) {
  std::string_view best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (const std::string_view candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  const size_t tolerated = std::max<size_t>(1, best.size() / 3);
  return best_distance <= tolerated ? std::string(best) : std::string();
}

std::string format_time(Nanos time) {
  const double nanos = static_cast<double>(time.count());
  const Unit* unit = &kUnits[0];
  for (const Unit& larger : kUnits) {
    if (nanos >= larger.nanos) unit = &larger;
  }
  return format_number(nanos / unit->nanos) + std::string(unit->name);
}

namespace internal {

Status set_field(const OptionInfo& info, std::string_view value, Nanos& field) {
  const std::optional<Number> number = parse_number(value);
  const double own_unit = unit_nanos(info);
  std::optional<double> unit;
  if (number) unit = number->suffix.empty() ? own_unit : nanos_of(number->suffix);
  if (!unit || !in_range(info, number->value * *unit / own_unit)) {
    const std::string takes = "a time from " + format_bound(info, info.low) + " to " +
                              format_bound(info, info.high) + " (bare numbers are " + info.unit +
                              ")";
    return wrong(info, takes, value);
  }
  field = Nanos(std::llround(number->value * *unit));
  return Done{};
}

Status set_field(const OptionInfo& info, std::string_view value, uint32_t& field) {
  const std::optional<Number> number = parse_number(value);
  if (!number || !number->suffix.empty() || !in_range(info, number->value) ||
      number->value != std::floor(number->value)) {
    return wrong(info, takes_number(info, "a whole number"), value);
  }
  field = static_cast<uint32_t>(number->value);
  return Done{};
}

Status set_field(const OptionInfo& info, std::string_view value, double& field) {
  const std::optional<Number> number = parse_number(value);
  if (!number || !number->suffix.empty() || !in_range(info, number->value)) {
    return wrong(info, takes_number(info, "a number"), value);
  }
  field = number->value;
  return Done{};
}

Status set_field(const OptionInfo& info, std::string_view value, bool& field) {
  const bool on = value == "on" || value == "true" || value == "1";
  const bool off = value == "off" || value == "false" || value == "0";
  if (!on && !off) return wrong(info, "on or off", value);
  field = on;
  return Done{};
}

OptionDescription describe_field(const OptionInfo& info, Nanos value) {
  return {info.name,
          info.help,
          "time",
          format_bound(info, info.low),
          format_bound(info, info.high),
          format_time(value)};
}

OptionDescription describe_field(const OptionInfo& info, uint32_t value) {
  return describe_number(info, "whole number", value);
}

OptionDescription describe_field(const OptionInfo& info, double value) {
  return describe_number(info, "number", value);
}

OptionDescription describe_field(const OptionInfo& info, bool value) {
  return {info.name, info.help, "flag", "off", "on", value ? "on" : "off"};
}

Error no_such_option(const char* policy, std::string_view name,
                     std::span<const char* const> options) {
  std::string text = std::string(policy) + " has no option '" + std::string(name) + "'";
  if (options.empty()) return {text + "; it takes none"};
  if (const std::string near = closest_name(name, options); !near.empty()) {
    return {text + "; did you mean " + near + "?"};
  }
  text += "; it has ";
  for (const char* option : options) {
    if (option != options[0]) text += ", ";
    text += option;
  }
  return {text};
}

}  // namespace internal
}  // namespace rubato
