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
  double size;  // in nanoseconds, or bytes
};
constexpr std::array<Unit, 4> kUnits{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};


constexpr std::array<Unit, 4> kSizes{
    {{"B", 1}, {"KiB", 1024}, {"MiB", 1024.0 * 1024}, {"GiB", 1024.0 * 1024 * 1024}}};

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

std::optional<double> find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& known : units) {
    if (known.name == name) return known.size;
  }
  return std::nullopt;
}

// In the largest unit that keeps it at least 1.
std::string in_units(std::span<const Unit> units, double value) {
  const Unit* unit = &units[0];
  for (const Unit& larger : units) {
    if (value >= larger.size) unit = &larger;
  }
  return format_number(value / unit->size) + std::string(unit->name);
}

double unit_nanos(const OptionInfo& info) { return find_unit(kUnits, info.unit).value_or(1); }

std::string format_bound(const OptionInfo& info, double bound) {
  return format_time(Nanos(std::llround(bound * unit_nanos(info))));
}

Error wrong(const std::string& takes, std::string_view got) {
  return {"takes " + takes + ", not '" + std::string(got) + "'"};
}

std::string takes_number(const OptionInfo& info, const char* kind) {
  return std::string(kind) + " from " + format_number(info.low) + " to " + format_number(info.high);
}

bool in_range(const OptionInfo& info, double value) {
  return value >= info.low && value <= info.high;
}

bool is_whole(const Number& number) {
  return number.suffix.empty() && number.value == std::floor(number.value);
}

OptionDescription describe_number(const OptionInfo& info, const char* kind, double value) {
  return {info.name,
          info.help,
          kind,
          format_number(info.low),
          format_number(info.high),
          format_number(value),
          info.hosts,
          {}};
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

std::string format_time(Nanos time) { return in_units(kUnits, static_cast<double>(time.count())); }

std::string format_size(size_t bytes) { return in_units(kSizes, static_cast<double>(bytes)); }

Status read_option(const OptionInfo& info, std::string_view value, Nanos& field) {
  const std::optional<Number> number = parse_number(value);
  const double own_unit = unit_nanos(info);
  std::optional<double> unit;
  if (number) unit = number->suffix.empty() ? own_unit : find_unit(kUnits, number->suffix);
  if (!unit || !in_range(info, number->value * *unit / own_unit)) {
    const std::string takes = "a time from " + format_bound(info, info.low) + " to " +
                              format_bound(info, info.high) + " (bare numbers are " + info.unit +
                              ")";
    return wrong(takes, value);
  }
  field = Nanos(std::llround(number->value * *unit));
  return Done{};
}

Status read_option(const OptionInfo& info, std::string_view value, uint32_t& field) {
  const std::optional<Number> number = parse_number(value);
  if (!number || !is_whole(*number) || !in_range(info, number->value)) {
    return wrong(takes_number(info, "a whole number"), value);
  }
  field = static_cast<uint32_t>(number->value);
  return Done{};
}

Status read_option(const OptionInfo& info, std::string_view value, int32_t& field) {
  if (value == "none") {
    field = -1;
    return Done{};
  }
  const std::optional<Number> number = parse_number(value);
  if (!number || !is_whole(*number) || number->value < 0 || number->value > info.high) {
    return wrong("none, or a whole number from 0 to " + format_number(info.high), value);
  }
  field = static_cast<int32_t>(number->value);
  return Done{};
}

Status read_option(const OptionInfo& info, std::string_view value, size_t& field) {
  const std::optional<Number> number = parse_number(value);
  std::optional<double> unit;
  if (number) unit = number->suffix.empty() ? 1 : find_unit(kSizes, number->suffix);
  if (!unit || !in_range(info, number->value * *unit)) {
    return wrong("a size from " + format_size(static_cast<size_t>(info.low)) + " to " +
                     format_size(static_cast<size_t>(info.high)),
                 value);
  }
  field = static_cast<size_t>(std::llround(number->value * *unit));
  return Done{};
}

Status read_option(const OptionInfo& info, std::string_view value, double& field) {
  const std::optional<Number> number = parse_number(value);
  if (!number || !number->suffix.empty() || !in_range(info, number->value)) {
    return wrong(takes_number(info, "a number"), value);
  }
  field = number->value;
  return Done{};
}

Status read_option(const OptionInfo&, std::string_view value, bool& field) {
  const bool on = value == "on" || value == "true" || value == "1";
  const bool off = value == "off" || value == "false" || value == "0";
  if (!on && !off) return wrong("on or off", value);
  field = on;
  return Done{};
}

Status read_option(const OptionInfo&, std::string_view value, std::string& field) {
  field = value;
  return Done{};
}

Status read_option(const OptionInfo&, std::string_view value, OptionSettings& field) {
  const size_t equals = value.find('=');
  if (equals == std::string_view::npos || equals == 0) return wrong("name=value", value);
  field.insert_or_assign(std::string(value.substr(0, equals)),
                         std::string(value.substr(equals + 1)));
  return Done{};
}

OptionDescription describe_option(const OptionInfo& info, Nanos value) {
  return {info.name,
          info.help,
          "time",
          format_bound(info, info.low),
          format_bound(info, info.high),
          format_time(value),
          info.hosts,
          {}};
}

OptionDescription describe_option(const OptionInfo& info, uint32_t value) {
  return describe_number(info, "whole number", value);
}

OptionDescription describe_option(const OptionInfo& info, int32_t value) {
  OptionDescription described = describe_number(info, "whole number or none", value);
  described.low = "0";
  if (value < 0) described.default_value = "none";
  return described;
}

OptionDescription describe_option(const OptionInfo& info, size_t value) {
  return {info.name,
          info.help,
          "size",
          format_size(static_cast<size_t>(info.low)),
          format_size(static_cast<size_t>(info.high)),
          format_size(value),
          info.hosts,
          {}};
}

OptionDescription describe_option(const OptionInfo& info, double value) {
  return describe_number(info, "number", value);
}

OptionDescription describe_option(const OptionInfo& info, bool value) {
  return {info.name, info.help, "flag", "off", "on", value ? "on" : "off", info.hosts, {}};
}

OptionDescription describe_option(const OptionInfo& info, const std::string& value) {
  return {info.name, info.help, "text", "", "", value, info.hosts, {}};
}

OptionDescription describe_option(const OptionInfo& info, const OptionSettings& value) {
  std::string settings;
  for (const auto& [name, setting] : value) {
    settings += (settings.empty() ? "" : " ") + name + "=" + setting;
  }
  return {info.name, info.help, "settings", "", "", std::move(settings), info.hosts, {}};
}

namespace internal {

Status read_choice(std::span<const OptionChoice> choices, std::string_view value, size_t& chosen) {
  std::string names;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (value == choices[i].name) {
      chosen = i;
      return Done{};
    }
    if (i > 0) names += i + 1 < choices.size() ? ", " : " or ";
    names += choices[i].name;
  }
  return wrong(names, value);
}

OptionDescription describe_choice(const OptionInfo& info, std::span<const OptionChoice> choices,
                                  size_t value) {
  return {info.name, info.help, "choice", "", "", choices[value].name, info.hosts,
          {choices.begin(), choices.end()}};
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

Error no_effect(const VoidedOption& option) {
  return {std::string(option.name) + " has no effect with " + option.by};
}

}  // namespace internal
}  // namespace rubato
