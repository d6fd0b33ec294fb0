// SPDX-License-Identifier: Apache-2.0
//
// The helpers that several command families share: error texts of Redis, argument readers that
// answer the error themselves, and the mark of a long request. For handlers only.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kv_server/commands/command.h"
#include "kv_server/server/server.h"
#include "kv_server/server/session.h"
#include "kv_server/text/number.h"
#include "kv_server/text/words.h"
#include "runtime/app.h"

namespace rubato::kv {

inline constexpr std::string_view kSyntaxError = "ERR syntax error";
inline constexpr std::string_view kNotInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kNotFloat = "ERR value is not a valid float";
inline constexpr std::string_view kNoSuchKey = "ERR no such key";
inline constexpr std::string_view kTooLongString =
    "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

// A request over more items than this is long.
inline constexpr size_t kManyItems = 64;

// Tells the scheduler that this request goes over `items` items.
inline void expect_items(size_t items) {
  if (items > kManyItems) long_begin();
}

// These answer with an error and return false when the argument does not fit.
inline bool read_integer(Context& c, std::string_view text, int64_t& value,
                         std::string_view error = kNotInteger) {
  if (parse_integer(text, value)) return true;
  c.error(error);
  return false;
}

// Redis' getRangeLongFromObjectOrReply.
inline bool read_integer_between(Context& c, std::string_view text, int64_t low, int64_t high,
                                 int64_t& value, std::string_view error) {
  if (parse_integer(text, value) && value >= low && value <= high) return true;
  c.error(error);
  return false;
}

// Answers with the value, or with the null of a missing one.
inline void reply_optional(Context& c, const std::optional<std::string>& value) {
  if (value) return c.reply.bulk(*value);
  c.reply.null();
}

// Reads a name that a connection gives itself; `what` begins the error text.
bool read_client_name(Context& c, std::string_view name, std::string_view what = "Client names");

// Answers the container's HELP: made from the rows of its subcommands.
void reply_help(Context& c);

}  // namespace rubato::kv
