// SPDX-License-Identifier: Apache-2.0
#include "cli/options/option_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/option_text.h"
#include "datapath/server_options.h"
#include "sched/options.h"

namespace rubato::cli {
namespace {

constexpr size_t kColumns = 100;

// "timer-core" -> "TIMER_CORE"
std::string upper(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

// "timer-core" -> "TimerCore"
std::string camel(std::string_view name) {
  std::string text;
  bool first = true;
  for (const char c : name) {
    const bool gap = c == '-' || c == '_';
    if (!gap) text += first ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    first = gap;
  }
  return text;
}

std::string sentence(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

// Lines of "  // ", no wider than a page.
std::string comment(const std::string& text, const std::string& indent) {
  std::string lines;
  std::string line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line.clear();
    }
    line += (line.empty() ? indent + "// " : " ") + word;
    at = end + 1;
  }
  return lines + line + "\n";
}

// Behind the line of code, or above it where that would be too long.
std::string commented(const std::string& code, const std::string& text) {
  const std::string line = code + "  // " + text;
  return line.size() <= kColumns ? line + "\n" : comment(text, "  ") + code + "\n";
}

std::string c_name(const OptionDescription& option) {
  const char* suffix = option.kind == "time" ? "_ns" : option.kind == "size" ? "_bytes" : "";
  return std::string(option.name) + suffix;
}

std::string cpp_name(const OptionDescription& option) {
  return std::string(option.name) + (option.kind == "size" ? "_bytes" : "");
}

// The meaning of a field, and the values it takes.
std::string meaning(const OptionDescription& option, bool in_c) {
  std::string text = sentence(option.help);
  if (option.kind == "settings") return text + (in_c ? ", \"name=value\" each." : ".");
  if (option.kind == "choice" && in_c) text += fmt::format("; enum rubato_{}", option.name);
  if (!option.low.empty() && option.kind != "flag") {
    const bool none = option.kind == "whole number or none";
    text += fmt::format("; {}{} .. {}", none ? "-1 = none, " : "", option.low, option.high);
  }
  if (option.kind == "flag" && in_c) text += "; 0 or 1";
  return text + (in_c && !option.default_value.empty()
                     ? fmt::format("; {} by default.", option.default_value)
                     : ".");
}

std::string c_type(const OptionDescription& option) {
  if (option.kind == "time") return "int64_t";
  if (option.kind == "size") return "size_t";
  if (option.kind == "number") return "double";
  if (option.kind == "text") return "const char*";
  if (option.kind == "whole number or none") return "int32_t";
  return "uint32_t";
}

std::string cpp_time(const std::string& text) {
  const size_t unit = text.find_first_not_of("0123456789");
  RUBATO_CHECK(unit != std::string::npos);
  const std::string_view name = std::string_view(text).substr(unit);
  const char* type = name == "s"    ? "seconds"
                     : name == "ms" ? "milliseconds"
                     : name == "us" ? "microseconds"
                                    : "nanoseconds";
  return fmt::format("std::chrono::{}({})", type, text.substr(0, unit));
}

std::string cpp_size(const std::string& text) {
  const size_t unit = text.find_first_not_of("0123456789");
  const std::string_view name = std::string_view(text).substr(unit);
  const int shift = name == "KiB" ? 10 : name == "MiB" ? 20 : name == "GiB" ? 30 : 0;
  return fmt::format("size_t{{{}}} << {}", text.substr(0, unit), shift);
}

std::string cpp_field(const OptionDescription& option) {
  const std::string& standard = option.default_value;
  const auto field = [&](const std::string& type, const std::string& value) {
    return fmt::format("  {} {} = {};\n", type, cpp_name(option), value);
  };
  if (option.kind == "time") return field("std::chrono::nanoseconds", cpp_time(standard));
  if (option.kind == "size") return field("size_t", cpp_size(standard));
  if (option.kind == "number") return field("double", standard);
  if (option.kind == "text") return field("std::string", '"' + standard + '"');
  if (option.kind == "flag") return field("bool", standard == "on" ? "true" : "false");
  if (option.kind == "choice") {
    return field(camel(option.name), camel(option.name) + "::k" + camel(standard));
  }
  if (option.kind == "settings") {
    return fmt::format("  std::map<std::string, std::string> {}{{}};\n", option.name);
  }
  return field(c_type(option), standard == "none" ? "-1" : standard);
}

std::string cpp_copy(const OptionDescription& option) {
  const std::string from = "o." + cpp_name(option);
  const auto copy = [&](const std::string& value) {
    return fmt::format("    c.{} = {};\n", c_name(option), value);
  };
  if (option.kind == "settings") {
    return fmt::format("    {0}.fill(\"{0}\", {1}, texts);\n    c.{0} = {0}.pointers.data();\n"
                       "    c.{0}_count = {0}.pointers.size();\n",
                       option.name, from);
  }
  if (option.kind == "time") return copy(from + ".count()");
  if (option.kind == "text") return copy(fmt::format("texts.of(\"{}\", {})", option.name, from));
  if (option.kind == "flag") return copy(from + " ? 1 : 0");
  if (option.kind == "choice") return copy("static_cast<uint32_t>(" + from + ")");
  return copy(from);
}

template <class Line>
std::string for_each_choice(const OptionDescription& option, Line line) {
  std::string text;
  for (size_t i = 0; i < option.choices.size(); ++i) text += line(option.choices[i], i);
  return text;
}

std::vector<OptionDescription> library_options() {
  std::vector<OptionDescription> all = describe<SchedulerOptions>();
  for (OptionDescription& option : describe<ServerOptions>()) all.push_back(std::move(option));
  std::erase_if(all, [](const OptionDescription& o) { return (o.hosts & kLibrary) == 0; });
  return all;
}

}  // namespace

std::string c_enums() {
  std::string text;
  for (const OptionDescription& option : library_options()) {
    if (option.choices.empty()) continue;
    text += (text.empty() ? "" : "\n") + comment(sentence(option.help) + ".", "");
    text += fmt::format("enum rubato_{} {{\n", option.name);
    text += for_each_choice(option, [&](const OptionChoice& choice, size_t i) {
      return commented(
          fmt::format("  RUBATO_{}_{} = {},", upper(option.name), upper(choice.name), i),
          choice.help);
    });
    text += "};\n";
  }
  return text;
}

std::string c_fields() {
  std::string text;
  for (const OptionDescription& option : library_options()) {
    text += comment(meaning(option, true), "  ");
    if (option.kind == "settings") {
      text += fmt::format("  const char* const* {0};\n  size_t {0}_count;\n", option.name);
    } else {
      text += fmt::format("  {} {};\n", c_type(option), c_name(option));
    }
  }
  return text;
}

std::string c_places() {
  std::string text;
  for (const OptionDescription& option : library_options()) {
    text += fmt::format("    {{\"{}\", offsetof(rubato_options, {})}},\n", option.name,
                        c_name(option));
  }
  return text;
}

std::string cpp_enums() {
  std::string text;
  for (const OptionDescription& option : library_options()) {
    if (option.choices.empty()) continue;
    text += (text.empty() ? "" : "\n") + comment(sentence(option.help) + ".", "");
    text += fmt::format("enum class {} : uint32_t {{\n", camel(option.name));
    text += for_each_choice(option, [&](const OptionChoice& choice, size_t) {
      return commented(fmt::format("  k{} = RUBATO_{}_{},", camel(choice.name),
                                   upper(option.name), upper(choice.name)),
                       choice.help);
    });
    text += "};\n";
  }
  return text;
}

std::string cpp_fields() {
  std::string text;
  for (const OptionDescription& option : library_options()) {
    text += comment(meaning(option, false), "  ") + cpp_field(option);
  }
  return text;
}

std::string cpp_members() {
  std::string text;
  for (const OptionDescription& option : library_options()) {
    if (option.kind == "settings") text += fmt::format("  Settings {};\n", option.name);
  }
  return text;
}

std::string cpp_copies() {
  std::string text;
  for (const OptionDescription& option : library_options()) text += cpp_copy(option);
  return text;
}

}  // namespace rubato::cli
