// SPDX-License-Identifier: Apache-2.0
//
// Options by name: what `--set name=value`, the configuration file, `rubato policies` and the
// documentation share. Everything is derived from `visit` (base/option_info.h) of a policy, or of
// any other class with a kName and a Config. For set-up time; no shared state, safe on every
// thread.
//
// Values: a time is a number with ns, us, ms or s, or a bare number in the option's unit ("10us",
// "1ms", "2.5"); a whole number has no unit; a flag is on/off, true/false or 1/0.
#pragma once

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
  std::string kind;  // "time", "whole number", "number" or "flag"
  std::string low;   // as a value that would be accepted: "100ns"
  std::string high;
  std::string default_value;  // likewise
};

// The candidate that `name` was most likely meant to be; empty if none is near.
std::string closest_name(std::string_view name, std::span<const char* const> candidates);

// A time in the largest unit that keeps it at least 1: "1.5us". Requires time >= 0.
std::string format_time(Nanos time);

namespace internal {

// Parse, check the range, and only then set the field. The error is one line.
Status set_field(const OptionInfo& info, std::string_view value, Nanos& field);
Status set_field(const OptionInfo& info, std::string_view value, uint32_t& field);
Status set_field(const OptionInfo& info, std::string_view value, double& field);
Status set_field(const OptionInfo& info, std::string_view value, bool& field);

OptionDescription describe_field(const OptionInfo& info, Nanos value);
OptionDescription describe_field(const OptionInfo& info, uint32_t value);
OptionDescription describe_field(const OptionInfo& info, double value);
OptionDescription describe_field(const OptionInfo& info, bool value);

Error no_such_option(const char* policy, std::string_view name,
                     std::span<const char* const> options);

}  // namespace internal

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
    result = internal::set_field(info, value, field);
  });
  if (!found) return internal::no_such_option(P::kName, name, names);
  return result;
}

// The options of P with their defaults.
template <class P>
std::vector<OptionDescription> describe() {
  std::vector<OptionDescription> options;
  typename P::Config defaults{};
  visit_options<P>(defaults, [&](const OptionInfo& info, auto& field) {
    options.push_back(internal::describe_field(info, field));
  });
  return options;
}

}  // namespace rubato
