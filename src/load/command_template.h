// SPDX-License-Identifier: Apache-2.0
//
// CommandTemplate: a RESP command in a mix, such as `hgetall/user:{key}` or `lrange/mylist/0/100`.
// Immutable once parsed; safe on every thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/verbs.h"

namespace rubato::load {

class CommandTemplate {
 public:
  // A name and arguments, joined by '/'. In an argument, each {key} stands for a key that is drawn
  // as for GET, each {value} for the value of a SET, and %XX for the byte with these hexadecimal
  // digits. Fails with what is wrong, as the rest of a sentence that begins with the text.
  static Result<CommandTemplate> parse(std::string_view text);

  // Appends one command.
  void append(const VerbContext& context) const;

 private:
  enum class Kind : uint8_t { kText, kKey, kValue };
  struct Piece {
    Kind kind = Kind::kText;
    std::string text;
  };
  using Argument = std::vector<Piece>;

  static Result<Argument> parse_argument(std::string_view text);

  std::vector<Argument> arguments_;  // the name is the first
};

}  // namespace rubato::load
