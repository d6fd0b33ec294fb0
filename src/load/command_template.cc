// SPDX-License-Identifier: Apache-2.0
#include "load/command_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace rubato::load {
namespace {

constexpr std::string_view kKey = "{key}";
constexpr std::string_view kValue = "{value}";

// Replies to these are none, or more than one, and those of later requests could not be told from
// them.
constexpr std::string_view kWithoutOneReply[] = {
    "subscribe",    "psubscribe",   "ssubscribe", "unsubscribe", "punsubscribe",
    "sunsubscribe", "monitor",      "sync",       "psync"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Names of Redis' commands and of modules' ones, such as JSON.GET.
bool is_name(std::string_view text) {
  return !text.empty() && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
         });
}

bool has_one_reply(std::string_view name) {
  return std::none_of(std::begin(kWithoutOneReply), std::end(kWithoutOneReply),
                      [&](std::string_view other) {
                        return std::equal(name.begin(), name.end(), other.begin(), other.end(),
                                          [](char a, char b) { return lower(a) == b; });
                      });
}

}  // namespace

Result<CommandTemplate::Argument> CommandTemplate::parse_argument(std::string_view text) {
  Argument argument;
  std::string literal;
  const auto end_literal = [&] {
    if (!literal.empty()) argument.push_back({Kind::kText, std::exchange(literal, {})});
  };
  while (!text.empty()) {
    size_t used = 1;
    if (text.starts_with(kKey) || text.starts_with(kValue)) {
      const bool key = text.starts_with(kKey);
      end_literal();
      argument.push_back({key ? Kind::kKey : Kind::kValue, {}});
      used = key ? kKey.size() : kValue.size();
    } else if (text[0] == '{') {
      return Error{"has a '{' that begins neither {key} nor {value}; %7B is a brace"};
    } else if (text[0] == '%') {
      uint8_t byte = 0;
      const char* const digits = text.data() + 1;
      const char* const end = digits + std::min<size_t>(2, text.size() - 1);
      const auto [stop, problem] = std::from_chars(digits, end, byte, 16);
      if (problem != std::errc() || stop != digits + 2) {
        return Error{"has a '%' without two hexadecimal digits behind it; %25 is a percent sign"};
      }
      literal += static_cast<char>(byte);
      used = 3;
    } else {
      literal += text[0];
    }
    text.remove_prefix(used);
  }
  end_literal();
  return argument;
}

Result<CommandTemplate> CommandTemplate::parse(std::string_view text) {
  size_t slash = std::min(text.find('/'), text.size());
  const std::string_view name = text.substr(0, slash);
  if (!is_name(name)) return Error{"is neither a known verb nor begins with a command's name"};
  if (!has_one_reply(name)) return Error{"is a command without exactly one reply"};
  CommandTemplate command;
  command.arguments_.push_back({{Kind::kText, std::string(name)}});
  while (slash < text.size()) {
    text.remove_prefix(slash + 1);
    slash = std::min(text.find('/'), text.size());
    if (slash == 0) return Error{"has an empty argument"};
    Result<Argument> argument = parse_argument(text.substr(0, slash));
    if (!argument) return Error{argument.error()};
    command.arguments_.push_back(std::move(*argument));
  }
  return command;
}

void CommandTemplate::append(const VerbContext& context) const {
  fmt::format_to(std::back_inserter(context.out), "*{}\r\n", arguments_.size());
  std::string bytes;
  for (const Argument& argument : arguments_) {
    bytes.clear();
    for (const Piece& piece : argument) {
      switch (piece.kind) {
        case Kind::kText: bytes += piece.text; break;
        case Kind::kKey: bytes += context.random_key(); break;
        case Kind::kValue: bytes += context.value; break;
      }
    }
    append_argument(context.out, bytes);
  }
}

}  // namespace rubato::load
