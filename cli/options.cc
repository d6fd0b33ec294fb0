// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/option_text.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

template <class Integer>
CLI::Option* add_integer(CLI::App& app, const std::string& name, Integer& value, Integer low,
                         Integer high, const std::string& what, const std::string& help) {
  auto parse = [&value, low, high, what](const std::string& text) -> Status {
    Integer parsed = 0;
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, parsed);
    if (problem != std::errc() || stop != end || parsed < low || parsed > high) {
      return Error{fmt::format("takes {} of {} to {}, not '{}'", what, low, high, text)};
    }
    value = parsed;
    return Done{};
  };
  return add_parsed(app, name, "N", parse, help)->default_str(std::to_string(value));
}

// Numbers as programs print them, 2.1e+06 included.
std::optional<double> parse_figure(const std::string& text) {
  const char* end = text.data() + text.size();
  double value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || stop != end || !std::isfinite(value)) return {};
  return value;
}

}  // namespace

void bad_value(const std::string& name, const std::string& message) {
  // Parsers name what they parse ("mix: ..."); the option's name says that already.
  std::string prefix = name.substr(name.find_first_not_of('-')) + ": ";
  std::replace(prefix.begin(), prefix.end(), '-', '_');
  throw CLI::ValidationError(name,
                             message.starts_with(prefix) ? message.substr(prefix.size()) : message);
}

CLI::Option* add_parsed(CLI::App& app, const std::string& name, const std::string& placeholder,
                        std::function<Status(const std::string&)> parse, const std::string& help) {
  auto take = [name, parse = std::move(parse)](const std::string& text) {
    if (Status parsed = parse(text); !parsed) bad_value(name, parsed.error());
  };
  return app.add_option_function<std::string>(name, take, help)->type_name(placeholder);
}

CLI::Option* add_number(CLI::App& app, const std::string& name, double& value, double low,
                        double high, const std::string& what, const std::string& help) {
  auto parse = [&value, low, high, what](const std::string& text) -> Status {
    const auto parsed = parse_figure(text);
    if (!parsed || *parsed < low || *parsed > high) {
      const std::string highest =
          high < 1 ? fmt::format("{:g}", high) : fmt::format("{:.0f}", high);
      return Error{fmt::format("takes {} of {:g} to {}, not '{}'", what, low, highest, text)};
    }
    value = *parsed;
    return Done{};
  };
  return add_parsed(app, name, "R", parse, help)->default_str(fmt::format("{:g}", value));
}

CLI::Option* add_count(CLI::App& app, const std::string& name, uint64_t& value, uint64_t low,
                       uint64_t high, const std::string& what, const std::string& help) {
  return add_integer(app, name, value, low, high, what, help);
}

CLI::Option* add_count(CLI::App& app, const std::string& name, uint32_t& value, uint32_t low,
                       uint32_t high, const std::string& what, const std::string& help) {
  return add_integer(app, name, value, low, high, what, help);
}

CLI::Option* add_seconds(CLI::App& app, const std::string& name, Nanos& value, Nanos low,
                         Nanos high, const std::string& help) {
  auto parse = [&value, low, high](const std::string& text) -> Status {
    const auto parsed = parse_duration(text, Nanos::seconds(1));
    if (!parsed || *parsed < low || *parsed > high) {
      return Error{fmt::format("takes seconds, or a time like 500ms, of {:g}s to {:g}s, not '{}'",
                               low.seconds(), high.seconds(), text)};
    }
    value = *parsed;
    return Done{};
  };
  return add_parsed(app, name, "S", parse, help);
}

void add_micros(CLI::App& app, const std::string& name, Nanos& value, const std::string& help,
                const std::string& default_text) {
  auto parse = [&value](const std::string& text) -> Status {
    const auto parsed = parse_duration(text);
    if (!parsed) return Error{"takes microseconds, or a time like 5us or 1ms, not '" + text + "'"};
    value = *parsed;
    return Done{};
  };
  CLI::Option* option = add_parsed(app, name, "T", parse, help);
  if (!default_text.empty()) option->default_str(default_text);
}

CLI::Option* add_rpc_expire(CLI::App& app, Nanos& value) {
  constexpr OptionInfo kInfo{"rpc_expire", "us", 0, 1e9, ""};
  return add_parsed(app, "--rpc-expire", "T",
                    [&value, kInfo](const std::string& text) {
                      return read_option(kInfo, text, value);
                    },
                    "Clients with credits give up what they have queued for so long; 0 = never")
      ->default_str(format_time(value));
}

CLI::Validator whole_number(int64_t low, int64_t high) {
  auto problem_of = [low, high](const std::string& text) -> std::string {
    int64_t parsed = 0;
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, parsed);
    const bool fits = problem == std::errc() && stop == end && parsed >= low && parsed <= high;
    return fits ? "" : fmt::format("takes a whole number of {} to {}, not '{}'", low, high, text);
  };
  return {problem_of, fmt::format("INT in [{} - {}]", low, high), ""};
}

CLI::Validator number(double low, double high) {
  auto problem_of = [low, high](const std::string& text) -> std::string {
    const auto parsed = parse_figure(text);
    if (parsed && *parsed >= low && *parsed <= high) return "";
    return fmt::format("takes a number of {:g} to {:.0f}, not '{}'", low, high, text);
  };
  return {problem_of, fmt::format("FLOAT in [{:g} - {:.0f}]", low, high), ""};
}

}  // namespace rubato::cli
