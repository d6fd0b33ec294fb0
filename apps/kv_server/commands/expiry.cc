// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include "kv_server/commands/helpers.h"

namespace rubato::kv {
namespace {

constexpr int64_t kMillisPerSecond = 1000;
constexpr int64_t kNoTime = -1;   // TTL of a key without expiry
constexpr int64_t kNoKey = -2;    // TTL of a key that does not exist

struct ExpireRule {
  bool nx = false;
  bool xx = false;
  bool gt = false;
  bool lt = false;

  // A missing expiry counts as one that never comes.
  bool allows(int64_t current_ms, int64_t wanted_ms) const {
    const bool has = current_ms != kNoExpiry;
    if (nx && has) return false;
    if (xx && !has) return false;
    if (gt && (!has || wanted_ms <= current_ms)) return false;
    return !(lt && has && wanted_ms >= current_ms);
  }
};

bool read_rule(Context& c, ExpireRule& rule) {
  for (const std::string_view word : c.argv.subspan(3)) {
    if (same_word(word, "nx")) {
      rule.nx = true;
    } else if (same_word(word, "xx")) {
      rule.xx = true;
    } else if (same_word(word, "gt")) {
      rule.gt = true;
    } else if (same_word(word, "lt")) {
      rule.lt = true;
    } else {
      c.error("ERR Unsupported option " + std::string(word));
      return false;
    }
  }
  if (rule.nx && (rule.xx || rule.gt || rule.lt)) {
    c.error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return false;
  }
  if (rule.gt && rule.lt) {
    c.error("ERR GT and LT options at the same time are not compatible");
    return false;
  }
  return true;
}

void expire_at(Context& c, int64_t base_ms, int64_t unit_ms) {
  ExpireRule rule;
  int64_t when = 0;
  if (!read_rule(c, rule) || !read_integer(c, c.argv[2], when)) return;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const bool overflows = when > kMax / unit_ms || when < kMin / unit_ms ||
                         when * unit_ms > kMax - base_ms;
  if (overflows) {
    return c.error("ERR invalid expire time in '" + std::string(c.command.name) + "' command");
  }
  when = when * unit_ms + base_ms;
  const int64_t now_ms = c.server.now_ms();
  bool changed = false;
  const Outcome outcome = c.engine.update(c.argv[1], [&](const Current& current) {
    if (!current.exists || !rule.allows(current.expires_at_ms, when)) return Change::keep();
    changed = true;
    return when <= now_ms ? Change::erase() : Change::expire(when);
  });
  if (c.good(outcome)) c.reply.integer(changed ? 1 : 0);
}

void expire(Context& c) { expire_at(c, c.server.now_ms(), kMillisPerSecond); }
void pexpire(Context& c) { expire_at(c, c.server.now_ms(), 1); }
void expireat(Context& c) { expire_at(c, 0, kMillisPerSecond); }
void pexpireat(Context& c) { expire_at(c, 0, 1); }

// The expiry of the key, kNoTime or kNoKey; false = the engine failed and the error is answered.
bool find_expiry(Context& c, int64_t& moment_ms) {
  Info info;
  const Outcome outcome = c.engine.info(c.argv[1], info);
  moment_ms = kNoKey;
  if (outcome == Outcome::kNone) return true;
  if (!c.good(outcome)) return false;
  moment_ms = info.expires_at_ms == kNoExpiry ? kNoTime : info.expires_at_ms;
  return true;
}

int64_t left_ms(Context& c, int64_t moment_ms) {
  const int64_t left = moment_ms - c.server.now_ms();
  return left < 0 ? 0 : left;
}

void ttl(Context& c) {
  int64_t moment = 0;
  if (!find_expiry(c, moment)) return;
  // Redis rounds to the nearest second.
  c.reply.integer(moment < 0 ? moment
                             : (left_ms(c, moment) + kMillisPerSecond / 2) / kMillisPerSecond);
}

void pttl(Context& c) {
  int64_t moment = 0;
  if (find_expiry(c, moment)) c.reply.integer(moment < 0 ? moment : left_ms(c, moment));
}

void expiretime(Context& c) {
  int64_t moment = 0;
  if (!find_expiry(c, moment)) return;
  c.reply.integer(moment < 0 ? moment : (moment + kMillisPerSecond / 2) / kMillisPerSecond);
}

void pexpiretime(Context& c) {
  int64_t moment = 0;
  if (find_expiry(c, moment)) c.reply.integer(moment);
}

void persist(Context& c) {
  bool changed = false;
  const Outcome outcome = c.engine.update(c.argv[1], [&](const Current& current) {
    changed = current.exists && current.expires_at_ms != kNoExpiry;
    return changed ? Change::expire(kNoExpiry) : Change::keep();
  });
  if (c.good(outcome)) c.reply.integer(changed ? 1 : 0);
}

constexpr uint32_t kRead = kReadOnly | kFast;
constexpr uint32_t kChange = kWrite | kFast;
constexpr KeyPositions kOneKey{1, 1, 1};

constexpr Command kCommands[] = {
    {"expire", -3, kChange, kOneKey, expire, Group::kGeneric, "1.0.0",
     "Sets the expiry of a key in seconds from now; options NX XX GT LT", {}},
    {"pexpire", -3, kChange, kOneKey, pexpire, Group::kGeneric, "2.6.0",
     "Sets the expiry of a key in milliseconds from now; options NX XX GT LT", {}},
    {"expireat", -3, kChange, kOneKey, expireat, Group::kGeneric, "1.2.0",
     "Sets the expiry of a key as a unix time in seconds; options NX XX GT LT", {}},
    {"pexpireat", -3, kChange, kOneKey, pexpireat, Group::kGeneric, "2.6.0",
     "Sets the expiry of a key as a unix time in milliseconds; options NX XX GT LT", {}},
    {"ttl", 2, kRead, kOneKey, ttl, Group::kGeneric, "1.0.0", "Seconds until a key expires", {}},
    {"pttl", 2, kRead, kOneKey, pttl, Group::kGeneric, "2.6.0",
     "Milliseconds until a key expires", {}},
    {"expiretime", 2, kRead, kOneKey, expiretime, Group::kGeneric, "7.0.0",
     "The expiry of a key as a unix time in seconds", {}},
    {"pexpiretime", 2, kRead, kOneKey, pexpiretime, Group::kGeneric, "7.0.0",
     "The expiry of a key as a unix time in milliseconds", {}},
    {"persist", 2, kChange, kOneKey, persist, Group::kGeneric, "2.2.0",
     "Removes the expiry of a key", {}},
};

}  // namespace

std::span<const Command> expiry_commands() { return kCommands; }

}  // namespace rubato::kv
