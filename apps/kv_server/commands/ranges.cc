// SPDX-License-Identifier: Apache-2.0
//
// The commands that go over many keys. All of them are long requests: they inform the scheduler
// first, and the engine reaches a checkpoint at every item.
#include <cstdlib>
#include <optional>
#include <string>

#include "kv_server/commands/helpers.h"
#include "kv_server/resp/list_builder.h"
#include "kv_server/text/glob.h"

namespace rubato::kv {
namespace {

// Sends the finished bytes between two chunks of a long list, so that neither the reply buffer
// grows nor the kernel copies the whole list at once.
bool send_a_piece() {
  Request* request = current_request();
  if (request != nullptr && request->datapath != nullptr) {
    request->datapath->flush_some(*request, kReplyPieceBytes);
  }
  return checkpoint();
}

ListBuilder new_list(const Context& c) {
  return ListBuilder(c.session.max_reply_bytes(), c.server.options().memory);
}

// Pieces are sent before all is written, so the client's limit is applied to the whole: beyond it
// the client is closed, as in Redis.
void write_list(Context& c, const ListBuilder& list) {
  if (list.starved()) return c.error(kNoMemoryForReply);
  if (list.too_big()) {
    return c.error("ERR the reply would exceed max-reply-bytes; use SCAN, or RANGE with LIMIT");
  }
  if (!c.request.reply->may_take(list.size_bytes())) return;
  list.write_array(c.reply, send_a_piece);
}

// The first key behind all keys that start with `prefix`; none if there is no such key.
std::optional<std::string> end_of_prefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (end.empty()) return std::nullopt;
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

void keys(Context& c) {
  long_begin();
  const std::string_view pattern = c.argv[1];
  const std::string_view prefix = glob_literal_prefix(pattern);
  const std::optional<std::string> end = end_of_prefix(prefix);
  KeyRange range;
  range.start = prefix;
  range.end_inclusive = false;
  if (end) range.end = *end;
  const bool all = glob_matches_all(pattern);
  ListBuilder list = new_list(c);
  const Outcome outcome = c.engine.keys(range, [&](std::string_view key) {
    return all || glob_match(pattern, key) ? list.add(key) : true;
  });
  if (c.good(outcome)) write_list(c, list);
}

struct ScanOptions {
  uint64_t cursor = 0;
  int64_t count = 10;
  std::string_view pattern = "*";
  std::string_view type = "string";
};

// Reads the cursor as strtoul does, so that every value a client may hold is accepted.
bool parse_cursor(std::string_view text, uint64_t& cursor) {
  if (!text.empty() && (text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r'))) return false;
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  cursor = std::strtoull(copy.c_str(), &end, 10);
  return *end == '\0' && errno != ERANGE;
}

bool read_scan_options(Context& c, ScanOptions& options) {
  if (!parse_cursor(c.argv[1], options.cursor)) {
    c.error("ERR invalid cursor");
    return false;
  }
  for (size_t i = 2; i < c.argv.size(); i += 2) {
    const bool has_value = i + 1 < c.argv.size();
    if (same_word(c.argv[i], "count") && has_value) {
      if (!read_integer(c, c.argv[i + 1], options.count)) return false;
      if (options.count >= 1) continue;
    } else if (same_word(c.argv[i], "match") && has_value) {
      options.pattern = c.argv[i + 1];
      continue;
    } else if (same_word(c.argv[i], "type") && has_value) {
      options.type = c.argv[i + 1];
      continue;
    }
    c.error(kSyntaxError);
    return false;
  }
  return true;
}

void scan(Context& c) {
  ScanOptions options;
  if (!read_scan_options(c, options)) return;
  expect_items(static_cast<size_t>(options.count));
  const bool all = glob_matches_all(options.pattern);
  const bool strings = same_word(options.type, "string");
  ListBuilder list = new_list(c);
  const Outcome outcome = c.engine.scan(
      options.cursor, static_cast<size_t>(options.count), [&](std::string_view key) {
        return strings && (all || glob_match(options.pattern, key)) ? list.add(key) : true;
      });
  if (!c.good(outcome)) return;
  if (list.too_big() || list.starved()) return write_list(c, list);
  c.reply.array(2);
  c.reply.bulk_integer(static_cast<int64_t>(options.cursor));
  write_list(c, list);
}

// `-` and `+` are the open ends.
KeyRange read_range(Context& c) {
  KeyRange range;
  if (c.argv[1] != "-") range.start = c.argv[1];
  if (c.argv[2] != "+") range.end = c.argv[2];
  return range;
}

void range(Context& c) {
  uint64_t limit = ~uint64_t{0};
  if (c.argv.size() > 3) {
    int64_t given = 0;
    if (c.argv.size() != 5 || !same_word(c.argv[3], "limit")) return c.error(kSyntaxError);
    if (!read_integer(c, c.argv[4], given)) return;
    if (given < 0) return c.error("ERR LIMIT must not be negative");
    limit = static_cast<uint64_t>(given);
  }
  long_begin();
  ListBuilder list = new_list(c);
  if (limit > 0) {
    const Outcome outcome =
        c.engine.range(read_range(c), limit, [&](std::string_view key, std::string_view value) {
          return list.add(key) && list.add(value);
        });
    if (!c.good(outcome)) return;
  }
  write_list(c, list);
}

void rangecount(Context& c) {
  long_begin();
  uint64_t count = 0;
  if (c.good(c.engine.count(read_range(c), count))) {
    c.reply.integer(static_cast<int64_t>(count));
  }
}

constexpr Command kCommands[] = {
    {"keys", 2, kReadOnly | kDangerous | kNotInMulti, {}, keys, Group::kGeneric, "1.0.0",
     "All keys that match a glob pattern, in byte order", {}},
    {"scan", -2, kReadOnly | kNotInMulti, {}, scan, Group::kGeneric, "2.8.0",
     "Goes over all keys in steps; options MATCH COUNT TYPE", {}},
    {"range", -3, kReadOnly | kNotInMulti, {}, range, Group::kGeneric, "7.0.0",
     "Keys and values from start to end in byte order (- and + are open ends); option LIMIT", {}},
    {"rangecount", 3, kReadOnly | kNotInMulti, {}, rangecount, Group::kGeneric, "7.0.0",
     "How many keys lie between start and end", {}},
};

}  // namespace

std::span<const Command> range_commands() { return kCommands; }

}  // namespace rubato::kv
