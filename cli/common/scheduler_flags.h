// SPDX-License-Identifier: Apache-2.0
//
// Flags made of a list of options (base/option_info.h): the option `drain_limit` is the flag
// `--drain-limit`. For set-up on one thread; the options must outlive the parsing.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/option_text.h"
#include "cli/common/command_line.h"

namespace rubato::cli {

// "--drain-limit"
std::string flag_of(std::string_view option);

namespace internal {

using Read = std::function<Status(const std::string& text)>;
void add_flag(CommandLine& command, const OptionDescription& option, Read read);
void add_switch(CommandLine& command, const OptionDescription& option, bool& value);
void add_settings(CommandLine& command, const OptionDescription& option, OptionSettings& settings);

}  // namespace internal

// Adds a flag for each option of `options` that the host has, except where `command` has its own
// flag, as `sim` has for policies, of which it takes several. The values in `options` are the
// defaults.
template <class C>
void add_flags(CommandLine& command, C& options, OptionHosts host) {
  C::visit(options, [&](const OptionInfo& info, auto& field) {
    if ((info.hosts & host) == 0 || command.find(flag_of(info.name))) return;
    using Field = std::remove_cvref_t<decltype(field)>;
    const OptionDescription option = describe_option(info, field);
    if constexpr (std::is_same_v<Field, bool>) {
      internal::add_switch(command, option, field);
    } else if constexpr (std::is_same_v<Field, OptionSettings>) {
      internal::add_settings(command, option, field);
    } else {
      internal::add_flag(command, option, [info, &field](const std::string& text) {
        return read_option(info, text, field);
      });
    }
  });
}

}  // namespace rubato::cli
