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

namespace CLI {
class App;
}

namespace rubato::cli {

// "--drain-limit"
std::string flag_of(std::string_view option);

// Was it given, on the command line or in a file?
bool given(const CLI::App& app, const std::string& flag);

namespace internal {

using Read = std::function<Status(const std::string& text)>;
bool has_flag(const CLI::App& app, const char* option);
void add_flag(CLI::App& app, const OptionDescription& option, Read read);
void add_switch(CLI::App& app, const OptionDescription& option, bool& value);
void add_settings(CLI::App& app, const OptionDescription& option, OptionSettings& settings);

}  // namespace internal

// Adds a flag for each option of `options` that the host has, but where `app` has one of its own
// for it, as `sim` for policies, of which it takes several. The defaults are what `options` has.
template <class C>
void add_flags(CLI::App& app, C& options, OptionHosts host) {
  C::visit(options, [&](const OptionInfo& info, auto& field) {
    if ((info.hosts & host) == 0 || internal::has_flag(app, info.name)) return;
    using Field = std::remove_cvref_t<decltype(field)>;
    const OptionDescription option = describe_option(info, field);
    if constexpr (std::is_same_v<Field, bool>) {
      internal::add_switch(app, option, field);
    } else if constexpr (std::is_same_v<Field, OptionSettings>) {
      internal::add_settings(app, option, field);
    } else {
      internal::add_flag(app, option, [info, &field](const std::string& text) {
        return read_option(info, text, field);
      });
    }
  });
}

}  // namespace rubato::cli
