// SPDX-License-Identifier: Apache-2.0
#include "cli/common/value_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "base/option_text.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

template <class Integer>
Option add_integer(CommandLine& command, const std::string& name, Integer& value, Integer low,
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
  return command.add_parsed(name, "N", parse, help).default_text(std::to_string(value));
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

Option add_number(CommandLine& command, const std::string& name, double& value, double low,
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
  return command.add_parsed(name, "R", parse, help).default_text(fmt::format("{:g}", value));
}

Option add_count(CommandLine& command, const std::string& name, uint64_t& value, uint64_t low,
                 uint64_t high, const std::string& what, const std::string& help) {
  return add_integer(command, name, value, low, high, what, help);
}

Option add_count(CommandLine& command, const std::string& name, uint32_t& value, uint32_t low,
                 uint32_t high, const std::string& what, const std::string& help) {
  return add_integer(command, name, value, low, high, what, help);
}

Option add_seconds(CommandLine& command, const std::string& name, Nanos& value, Nanos low,
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
  return command.add_parsed(name, "S", parse, help);
}

void add_micros(CommandLine& command, const std::string& name, Nanos& value,
                const std::string& help, const std::string& default_text) {
  auto parse = [&value](const std::string& text) -> Status {
    const auto parsed = parse_duration(text);
    if (!parsed) return Error{"takes microseconds, or a time like 5us or 1ms, not '" + text + "'"};
    value = *parsed;
    return Done{};
  };
  Option option = command.add_parsed(name, "T", parse, help);
  if (!default_text.empty()) option.default_text(default_text);
}

Option add_rpc_expire(CommandLine& command, Nanos& value) {
  constexpr OptionInfo kInfo{"rpc_expire", "us", 0, 1e9, ""};
  const auto parse = [&value, kInfo](const std::string& text) {
    return read_option(kInfo, text, value);
  };
  return command
      .add_parsed("--rpc-expire", "T", parse,
                  "Clients with credits give up what they have queued for so long; 0 = never")
      .default_text(format_time(value));
}

}  // namespace rubato::cli
