// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kv_server/commands/helpers.h"
#include "kv_server/commands/set_options.h"

namespace rubato::kv {
namespace {

using When = SetOptions::When;

// Reads an expiry; false = it is bad, and the error has been answered.
bool read_expiry(Context& c, std::string_view text, ExpiryUnit unit, int64_t& expires_at_ms) {
  switch (expiry_moment(text, unit, c.server.now_ms(), expires_at_ms)) {
    case ExpiryError::kNone: return true;
    case ExpiryError::kNotANumber: c.error(kNotInteger); return false;
    case ExpiryError::kInvalid: break;
  }
  c.error("ERR invalid expire time in '" + std::string(c.command.name) + "' command");
  return false;
}

void reply_value(Context& c, std::string_view key) {
  const Outcome outcome = c.engine.get(key, [&c](std::string_view value) { c.reply.bulk(value); });
  if (outcome == Outcome::kNone) return c.reply.null();
  c.good(outcome);
}

void get(Context& c) { reply_value(c, c.argv[1]); }

// SET with GET: the old value is the reply, whether or not the new one was set.
void set_and_get(Context& c, SetOptions options) {
  std::optional<std::string> old;
  const auto keep_old = [&](const Current& current) {
    old.reset();
    if (current.exists) old.emplace(current.value);
  };
  options.old = keep_old;
  if (!c.good(c.engine.set(c.argv[1], c.argv[2], options))) return;
  reply_optional(c, old);
}

void set(Context& c) {
  if (c.argv.size() == 3) [[likely]] {
    if (c.good(c.engine.set(c.argv[1], c.argv[2]))) c.reply.ok();
    return;
  }
  StringOptions words;
  if (!parse_string_options(c.argv.subspan(3), OptionsOf::kSet, words)) {
    return c.error(kSyntaxError);
  }
  SetOptions options;
  options.when = words.when;
  options.keep_expiry = words.keep_ttl;
  if (words.unit != ExpiryUnit::kNone &&
      !read_expiry(c, words.expiry, words.unit, options.expires_at_ms)) {
    return;
  }
  if (words.get) return set_and_get(c, options);
  const Outcome outcome = c.engine.set(c.argv[1], c.argv[2], options);
  if (outcome == Outcome::kNone) return c.reply.null();
  if (c.good(outcome)) c.reply.ok();
}

void setnx(Context& c) {
  SetOptions options;
  options.when = When::kIfAbsent;
  const Outcome outcome = c.engine.set(c.argv[1], c.argv[2], options);
  if (c.good(outcome)) c.reply.integer(outcome == Outcome::kDone ? 1 : 0);
}

void set_with_expiry(Context& c, ExpiryUnit unit) {
  SetOptions options;
  if (!read_expiry(c, c.argv[2], unit, options.expires_at_ms)) return;
  if (c.good(c.engine.set(c.argv[1], c.argv[3], options))) c.reply.ok();
}
void setex(Context& c) { set_with_expiry(c, ExpiryUnit::kEx); }
void psetex(Context& c) { set_with_expiry(c, ExpiryUnit::kPx); }

void getset(Context& c) { set_and_get(c, {}); }

void getdel(Context& c) {
  std::optional<std::string> old;
  const Outcome outcome = c.engine.update(c.argv[1], [&](const Current& current) {
    if (current.exists) old.emplace(current.value);
    return Change::erase();
  });
  if (!c.good(outcome)) return;
  reply_optional(c, old);
}

void getex(Context& c) {
  StringOptions words;
  if (!parse_string_options(c.argv.subspan(2), OptionsOf::kGetEx, words)) {
    return c.error(kSyntaxError);
  }
  if (words.unit == ExpiryUnit::kNone && !words.persist) return reply_value(c, c.argv[1]);
  int64_t expires_at_ms = kNoExpiry;
  if (words.unit != ExpiryUnit::kNone) {
    // Redis looks at the key first: a missing one is null whatever the expiry says.
    Info info;
    const Outcome found = c.engine.info(c.argv[1], info);
    if (found == Outcome::kNone) return c.reply.null();
    if (!c.good(found)) return;
    if (!read_expiry(c, words.expiry, words.unit, expires_at_ms)) return;
  }
  std::optional<std::string> value;
  const Outcome outcome = c.engine.update(c.argv[1], [&](const Current& current) {
    if (!current.exists) return Change::keep();
    value.emplace(current.value);
    return Change::expire(expires_at_ms);
  });
  if (!c.good(outcome)) return;
  reply_optional(c, value);
}

void append(Context& c) {
  const std::string_view tail = c.argv[2];
  size_t length = 0;
  bool too_long = false;
  const Outcome outcome = c.engine.update(c.argv[1], [&](const Current& current) {
    length = current.value.size() + tail.size();
    too_long = length > static_cast<size_t>(c.server.config().max_bulk_bytes());
    if (too_long) return Change::keep();
    // An empty tail makes the key, too.
    return current.exists ? Change::splice(current.value.size(), tail) : Change::put(tail);
  });
  if (!c.good(outcome)) return;
  if (too_long) return c.error(kTooLongString);
  c.reply.integer(static_cast<int64_t>(length));
}

void strlen(Context& c) {
  size_t bytes = 0;
  const auto measure = [&bytes](std::string_view value) { bytes = value.size(); };
  if (c.good(c.engine.get(c.argv[1], measure))) c.reply.integer(static_cast<int64_t>(bytes));
}

// Redis' rules for GETRANGE: negative positions count from the end, both ends are clipped.
std::string_view slice(std::string_view value, int64_t start, int64_t end) {
  const auto size = static_cast<int64_t>(value.size());
  if (start < 0 && end < 0 && start > end) return {};
  if (start < 0) start = std::max<int64_t>(start + size, 0);
  if (end < 0) end = std::max<int64_t>(end + size, 0);
  end = std::min(end, size - 1);
  if (size == 0 || start > end) return {};
  return value.substr(static_cast<size_t>(start), static_cast<size_t>(end - start + 1));
}

void getrange(Context& c) {
  int64_t start = 0;
  int64_t end = 0;
  if (!read_integer(c, c.argv[2], start) || !read_integer(c, c.argv[3], end)) return;
  const Outcome outcome = c.engine.get(
      c.argv[1], [&](std::string_view value) { c.reply.bulk(slice(value, start, end)); });
  if (outcome == Outcome::kNone) return c.reply.bulk("");
  c.good(outcome);
}

void setrange(Context& c) {
  int64_t offset = 0;
  if (!read_integer(c, c.argv[2], offset)) return;
  if (offset < 0) return c.error("ERR offset is out of range");
  const std::string_view bytes = c.argv[3];
  const auto limit = static_cast<uint64_t>(c.server.config().max_bulk_bytes());
  const auto begin = static_cast<uint64_t>(offset);
  if (!bytes.empty() && (begin > limit || bytes.size() > limit - begin)) {
    return c.error(kTooLongString);
  }
  size_t length = 0;
  const Outcome outcome = c.engine.update(c.argv[1], [&](const Current& current) {
    length = current.value.size();
    if (bytes.empty()) return Change::keep();
    length = std::max<size_t>(length, begin + bytes.size());
    return Change::splice(begin, bytes);
  });
  if (c.good(outcome)) c.reply.integer(static_cast<int64_t>(length));
}

// Of up to kManyItems keys the values are those of one moment.
void mget(Context& c) {
  const auto keys = c.argv.subspan(1);
  expect_items(keys.size());
  if (keys.size() <= kManyItems) {
    const uint64_t mark = c.request.reply->mark();
    c.reply.array(keys.size());
    const Outcome outcome =
        c.engine.get_many(keys, [&](size_t, std::optional<std::string_view> value) {
          value ? c.reply.bulk(*value) : c.reply.null();
        });
    if (outcome == Outcome::kFailed && c.request.reply->take_back(mark)) c.good(outcome);
    return;
  }
  c.reply.array(keys.size());
  for (const std::string_view key : keys) {
    if (checkpoint()) return;
    reply_value(c, key);
  }
}

// Atomic over all keys, as in Redis; only the building of the list can be preempted.
Outcome set_pairs(Context& c, bool only_if_none_exists) {
  const auto words = c.argv.subspan(1);
  expect_items(words.size() / 2);
  std::vector<KeyValue> items;
  items.reserve(words.size() / 2);
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    if (checkpoint()) return Outcome::kCancelled;
    items.push_back({words[i], words[i + 1]});
  }
  return c.engine.set_many(items, only_if_none_exists);
}

bool are_pairs(Context& c) {
  if (c.argv.size() % 2 == 1) return true;
  c.error("ERR wrong number of arguments for '" + std::string(c.command.name) + "' command");
  return false;
}

void mset(Context& c) {
  if (are_pairs(c) && c.good(set_pairs(c, false))) c.reply.ok();
}

void msetnx(Context& c) {
  if (!are_pairs(c)) return;
  const Outcome outcome = set_pairs(c, true);
  if (c.good(outcome)) c.reply.integer(outcome == Outcome::kDone ? 1 : 0);
}

constexpr uint32_t kRead = kReadOnly | kFast;
constexpr uint32_t kPut = kWrite | kDenyOom;
constexpr KeyPositions kOneKey{1, 1, 1};

constexpr Command kCommands[] = {
    {"get", 2, kRead, kOneKey, get, Group::kString, "1.0.0", "The value of a key", {}},
    {"set", -3, kPut, kOneKey, set, Group::kString, "1.0.0",
     "Sets a key to a value; options EX PX EXAT PXAT NX XX KEEPTTL GET", {}},
    {"setnx", 3, kPut | kFast, kOneKey, setnx, Group::kString, "1.0.0",
     "Sets a key that does not exist yet", {}},
    {"setex", 4, kPut, kOneKey, setex, Group::kString, "2.0.0",
     "Sets a key and its expiry in seconds", {}},
    {"psetex", 4, kPut, kOneKey, psetex, Group::kString, "2.6.0",
     "Sets a key and its expiry in milliseconds", {}},
    {"getset", 3, kPut | kFast, kOneKey, getset, Group::kString, "1.0.0",
     "Sets a key and returns the old value", {}},
    {"getdel", 2, kWrite | kFast, kOneKey, getdel, Group::kString, "6.2.0",
     "Returns the value of a key and removes it", {}},
    {"getex", -2, kWrite | kFast, kOneKey, getex, Group::kString, "6.2.0",
     "Returns the value of a key and sets or removes its expiry", {}},
    {"append", 3, kPut | kFast, kOneKey, append, Group::kString, "2.0.0",
     "Adds bytes to the end of a value", {}},
    {"strlen", 2, kRead, kOneKey, strlen, Group::kString, "2.2.0", "The length of a value", {}},
    {"getrange", 4, kReadOnly, kOneKey, getrange, Group::kString, "2.4.0", "Part of a value", {}},
    {"substr", 4, kReadOnly, kOneKey, getrange, Group::kString, "1.0.0",
     "The old name of GETRANGE", {}},
    {"setrange", 4, kPut, kOneKey, setrange, Group::kString, "2.2.0",
     "Overwrites part of a value", {}},
    {"mget", -2, kRead, {1, -1, 1}, mget, Group::kString, "1.0.0", "The values of many keys", {}},
    {"mset", -3, kPut, {1, -1, 2}, mset, Group::kString, "1.0.1",
     "Sets many keys in one atomic step", {}},
    {"msetnx", -3, kPut, {1, -1, 2}, msetnx, Group::kString, "1.0.1",
     "Sets many keys in one atomic step if none of them exists", {}},
};

}  // namespace

std::span<const Command> string_commands() { return kCommands; }

}  // namespace rubato::kv
