// SPDX-License-Identifier: Apache-2.0
//
// Options by name and as text: what `--set name=value`, flags, configuration files, the structs of
// the library, `rubato policies` and the documentation share. Everything is derived from `visit`
// (base/option_info.h) of a class with a kName and a Config. For set-up time; no shared state, safe
// on every thread.
//
// Values: a time is a number with ns, us, ms or s, or a bare number in the option's unit ("10us",
// "1ms", "2.5"); a size has B, KiB, MiB or GiB, or is in bytes; a whole number has no unit; a flag
// is on/off, true/false or 1/0; a number that may be missing is "none" then, and -1 as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/option_info.h"
#include "base/result.h"
#include "base/time.h"

namespace rubato {

struct OptionDescription {
  const char* name = nullptr;
  const char* help = nullptr;
  // "time", "size", "whole number", "whole number or none", "number", "flag", "choice", "text" or
  // "settings" (name=value, with spaces between them)
  std::string kind;
  std::string low;   // as a value that would be accepted: "100ns"; empty where there is no order
  std::string high;
  std::string default_value;  // likewise
  OptionHosts hosts = kEveryHost;
  std::vector<OptionChoice> choices;
};

using OptionSettings = std::map<std::string, std::string>;  // name and value

template <class T>
concept Choice = std::is_enum_v<T> && requires(T t) {
  { choices_of(t) } -> std::convertible_to<std::span<const OptionChoice>>;
};

template <Choice E>
constexpr const char* name_of(E value) {
  return choices_of(value)[static_cast<size_t>(value)].name;
}

// The candidate that `name` was most likely meant to be; empty if none is near.
std::string closest_name(std::string_view name, std::span<const char* const> candidates);

// A time in the largest unit that keeps it at least 1: "1.5us". Requires time >= 0.
std::string format_time(Nanos time);
// The same of bytes: "64KiB".
std::string format_size(size_t bytes);

// Parse, check the range, and only then set the field. The error is one line without the option's
// name: "takes a number from 0 to 1, not '2'".
Status read_option(const OptionInfo& info, std::string_view value, Nanos& field);
Status read_option(const OptionInfo& info, std::string_view value, uint32_t& field);
Status read_option(const OptionInfo& info, std::string_view value, int32_t& field);
Status read_option(const OptionInfo& info, std::string_view value, size_t& field);
Status read_option(const OptionInfo& info, std::string_view value, double& field);
Status read_option(const OptionInfo& info, std::string_view value, bool& field);
Status read_option(const OptionInfo& info, std::string_view value, std::string& field);
// Adds one setting, or sets it anew.
Status read_option(const OptionInfo& info, std::string_view value, OptionSettings& field);

OptionDescription describe_option(const OptionInfo& info, Nanos value);
OptionDescription describe_option(const OptionInfo& info, uint32_t value);
OptionDescription describe_option(const OptionInfo& info, int32_t value);
OptionDescription describe_option(const OptionInfo& info, size_t value);
OptionDescription describe_option(const OptionInfo& info, double value);
OptionDescription describe_option(const OptionInfo& info, bool value);
OptionDescription describe_option(const OptionInfo& info, const std::string& value);
OptionDescription describe_option(const OptionInfo& info, const OptionSettings& value);

namespace internal {

Status read_choice(std::span<const OptionChoice> choices, std::string_view value, size_t& chosen);
OptionDescription describe_choice(const OptionInfo& info, std::span<const OptionChoice> choices,
                                  size_t value);
Error no_such_option(const char* policy, std::string_view name,
                     std::span<const char* const> options);
Error no_effect(const VoidedOption& option);

}  // namespace internal

template <Choice E>
Status read_option(const OptionInfo&, std::string_view value, E& field) {
  size_t chosen = 0;
  Status read = internal::read_choice(choices_of(field), value, chosen);
  if (read.ok()) field = static_cast<E>(chosen);
  return read;
}

template <Choice E>
OptionDescription describe_option(const OptionInfo& info, E value) {
  return internal::describe_choice(info, choices_of(value), static_cast<size_t>(value));
}

// Calls `visitor(info, field)` for every option of P, in the order in which P lists them.
template <class P, class Visitor>
void visit_options(typename P::Config& config, Visitor&& visitor) {
  if constexpr (requires { P::visit(config, visitor); }) P::visit(config, visitor);
}

// Sets one option of P. On an error `config` is as before, and the error names the option, what it
// takes, and what it got, or what a misspelt name may have meant.
template <class P>
Status set_option(typename P::Config& config, std::string_view name, std::string_view value) {
  bool found = false;
  Status result = Done{};
  std::vector<const char*> names;
  visit_options<P>(config, [&](const OptionInfo& info, auto& field) {
    names.push_back(info.name);
    if (info.name != name) return;
    found = true;
    result = read_option(info, value, field);
  });
  if (!found) return internal::no_such_option(P::kName, name, names);
  if (!result.ok()) return Error{std::string(name) + " " + result.error()};
  return result;
}

// The options of P as `settings` have them, pairs of name and value. Fails as set_option does, and
// on an option that another one voids: "reserve has no effect with wait_queue=off".
template <class P, class Settings>
Result<typename P::Config> read_options(const Settings& settings) {
  typename P::Config config{};
  for (const auto& [name, value] : settings) {
    if (Status set = set_option<P>(config, name, value); !set) return Error{set.error()};
  }
  if constexpr (requires { config.voided(); }) {
    const VoidedOption voided = config.voided();
    if (voided.name != nullptr) return internal::no_effect(voided);
  }
  return config;
}

// The options of P, with what `config` has for defaults.
template <class P>
std::vector<OptionDescription> describe(typename P::Config config = {}) {
  std::vector<OptionDescription> options;
  visit_options<P>(config, [&](const OptionInfo& info, auto& field) {
    options.push_back(describe_option(info, field));
  });
  return options;
}

// Gives `to` the option of that name as `from` has it; nothing, if P has none.
template <class P>
void copy_option(typename P::Config from, std::string_view name, typename P::Config& to) {
  visit_options<P>(to, [&]<class T>(const OptionInfo& mine, T& field) {
    if (mine.name != name) return;
    visit_options<P>(from, [&]<class U>(const OptionInfo& theirs, U& value) {
      if constexpr (std::is_same_v<T, U>) {
        if (theirs.name == name) field = value;
      }
    });
  });
}

}  // namespace rubato
