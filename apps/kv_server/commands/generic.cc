// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include "kv_server/commands/helpers.h"

namespace rubato::kv {
namespace {

// Counts the keys for which `step` returns kDone. With more than kManyItems keys the request is
// long, and the keys are then not one atomic step.
template <class Step>
void count_keys(Context& c, Step step) {
  const auto keys = c.argv.subspan(1);
  expect_items(keys.size());
  int64_t done = 0;
  for (const std::string_view key : keys) {
    if (keys.size() > kManyItems && checkpoint()) return;
    const Outcome outcome = step(key);
    if (!c.good(outcome)) return;
    done += outcome == Outcome::kDone ? 1 : 0;
  }
  c.reply.integer(done);
}

void del(Context& c) {
  count_keys(c, [&c](std::string_view key) { return c.engine.erase(key); });
}

void exists(Context& c) {
  count_keys(c, [&c](std::string_view key) {
    Info info;
    return c.engine.info(key, info);
  });
}

void touch(Context& c) {
  count_keys(c, [&c](std::string_view key) { return c.engine.get(key, [](std::string_view) {}); });
}

void type(Context& c) {
  Info info;
  const Outcome outcome = c.engine.info(c.argv[1], info);
  if (c.good(outcome)) c.reply.simple(outcome == Outcome::kDone ? "string" : "none");
}

void randomkey(Context& c) {
  std::string key;
  const Outcome outcome = c.engine.random_key([&key](std::string_view found) { key = found; });
  if (outcome == Outcome::kNone) return c.reply.null();
  if (c.good(outcome)) c.reply.bulk(key);
}

enum class Move : uint8_t { kDone, kNoSource, kTargetExists };

// Gives the value and expiry of one key to another.
Outcome move_value(Context& c, bool erase_source, bool replace, Move& result) {
  const std::array<std::string_view, 2> keys{c.argv[1], c.argv[2]};
  return c.engine.update_many(keys, [&](std::span<const Current> now, std::span<Change> change) {
    result = Move::kNoSource;
    if (!now[0].exists) return;
    result = Move::kTargetExists;
    if (now[1].exists && !replace) return;
    result = Move::kDone;
    change[1] = Change::put(now[0].value, now[0].expires_at_ms);
    if (erase_source) change[0] = Change::erase();
  });
}

bool source_exists(Context& c) {
  Info info;
  const Outcome outcome = c.engine.info(c.argv[1], info);
  if (outcome == Outcome::kNone) c.error(kNoSuchKey);
  return outcome != Outcome::kNone && c.good(outcome);
}

void rename(Context& c) {
  if (c.argv[1] == c.argv[2]) {
    if (source_exists(c)) c.reply.ok();
    return;
  }
  Move result = Move::kDone;
  if (!c.good(move_value(c, true, true, result))) return;
  if (result == Move::kNoSource) return c.error(kNoSuchKey);
  c.reply.ok();
}

void renamenx(Context& c) {
  if (c.argv[1] == c.argv[2]) {
    if (source_exists(c)) c.reply.integer(0);
    return;
  }
  Move result = Move::kDone;
  if (!c.good(move_value(c, true, false, result))) return;
  if (result == Move::kNoSource) return c.error(kNoSuchKey);
  c.reply.integer(result == Move::kDone ? 1 : 0);
}

void copy(Context& c) {
  bool replace = false;
  for (size_t i = 3; i < c.argv.size(); ++i) {
    if (same_word(c.argv[i], "replace")) {
      replace = true;
    } else if (same_word(c.argv[i], "db") && i + 1 < c.argv.size()) {
      int64_t database = 0;
      if (!read_integer(c, c.argv[++i], database)) return;
      if (database != 0) return c.error("ERR DB index is out of range");
    } else {
      return c.error(kSyntaxError);
    }
  }
  if (c.argv[1] == c.argv[2]) {
    return c.error("ERR source and destination objects are the same");
  }
  Move result = Move::kDone;
  if (c.good(move_value(c, false, replace, result))) c.reply.integer(result == Move::kDone ? 1 : 0);
}

constexpr uint32_t kRead = kReadOnly | kFast;
constexpr KeyPositions kOneKey{1, 1, 1};
constexpr KeyPositions kTwoKeys{1, 2, 1};
constexpr KeyPositions kAllKeys{1, -1, 1};

constexpr Command kCommands[] = {
    {"del", -2, kWrite, kAllKeys, del, Group::kGeneric, "1.0.0", "Removes keys", {}},
    {"unlink", -2, kWrite | kFast, kAllKeys, del, Group::kGeneric, "4.0.0", "Removes keys", {}},
    {"exists", -2, kRead, kAllKeys, exists, Group::kGeneric, "1.0.0",
     "How many of the keys exist", {}},
    {"touch", -2, kRead, kAllKeys, touch, Group::kGeneric, "3.2.1",
     "Counts as a use of the keys; how many of them exist", {}},
    {"type", 2, kRead, kOneKey, type, Group::kGeneric, "1.0.0", "The type of a key", {}},
    {"randomkey", 1, kReadOnly, {}, randomkey, Group::kGeneric, "1.0.0", "Some key", {}},
    {"rename", 3, kWrite, kTwoKeys, rename, Group::kGeneric, "1.0.0", "Renames a key", {}},
    {"renamenx", 3, kWrite | kFast, kTwoKeys, renamenx, Group::kGeneric, "1.0.0",
     "Renames a key if the new name is free", {}},
    {"copy", -3, kWrite | kDenyOom, kTwoKeys, copy, Group::kGeneric, "6.2.0",
     "Copies a key; options DB 0, REPLACE", {}},
};

}  // namespace

std::span<const Command> generic_commands() { return kCommands; }

}  // namespace rubato::kv
