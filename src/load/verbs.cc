// SPDX-License-Identifier: Apache-2.0
#include "load/verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace rubato::load {
namespace {

constexpr uint64_t kManyKeys = 10;  // of one MGET or MSET without its own number
constexpr std::string_view kLuaLoop = "local t=0 for i=1,ARGV[1] do t=t+i end return t";

void send_get(const VerbContext& c) { append_command(c.out, {"GET", c.random_key()}); }
void send_set(const VerbContext& c) { append_command(c.out, {"SET", c.random_key(), c.value}); }
void send_incr(const VerbContext& c) {
  append_command(c.out, {"INCR", c.random_counter()});
}
void send_del(const VerbContext& c) { append_command(c.out, {"DEL", c.random_key()}); }
void send_exists(const VerbContext& c) { append_command(c.out, {"EXISTS", c.random_key()}); }
void send_ping(const VerbContext& c) { append_command(c.out, {"PING"}); }

void send_mget(const VerbContext& c) {
  fmt::format_to(std::back_inserter(c.out), "*{}\r\n", c.size + 1);
  append_argument(c.out, "MGET");
  for (uint64_t i = 0; i < c.size; ++i) append_argument(c.out, c.random_key());
}
void send_mset(const VerbContext& c) {
  fmt::format_to(std::back_inserter(c.out), "*{}\r\n", 2 * c.size + 1);
  append_argument(c.out, "MSET");
  for (uint64_t i = 0; i < c.size; ++i) {
    append_argument(c.out, c.random_key());
    append_argument(c.out, c.value);
  }
}

// The index of the first key of a range, far enough from the last key for `size` items.
uint64_t range_start(const VerbContext& c) {
  return c.prng.next() % (c.shape.keys > c.size ? c.shape.keys - c.size : 1);
}
void send_range(const VerbContext& c) {
  append_command(c.out, {"RANGE", key_name(range_start(c)), kLastKey, "LIMIT", c.number(c.size)});
}
void send_rangecount(const VerbContext& c) {
  const uint64_t first = range_start(c);
  append_command(c.out, {"RANGECOUNT", key_name(first), key_name(first + c.size - 1)});
}
void send_scan(const VerbContext& c) {
  append_command(c.out, {"SCAN", "0", "COUNT", c.number(c.size)});
}
void send_keys(const VerbContext& c) { append_command(c.out, {"KEYS", "key:*"}); }
void send_debugsleep(const VerbContext& c) {
  append_command(c.out,
                 {"DEBUG", "SLEEP", fmt::format("{:.6f}", static_cast<double>(c.size) / 1e6)});
}
void send_lrange(const VerbContext& c) {
  append_command(c.out, {"LRANGE", kListKey, "0", c.number(c.size - 1)});
}
void send_smembers(const VerbContext& c) { append_command(c.out, {"SMEMBERS", kSetKey}); }
void send_hgetall(const VerbContext& c) { append_command(c.out, {"HGETALL", kHashKey}); }
void send_eval(const VerbContext& c) {
  append_command(c.out, {"EVAL", kLuaLoop, "0", c.number(c.size)});
}

// The same for memcached.
void ask_get(const VerbContext& c) {
  c.out.append("get ").append(c.random_key()).append("\r\n");
}
void ask_set(const VerbContext& c) { append_memcached_set(c.out, c.random_key(), c.value); }
void ask_incr(const VerbContext& c) {
  fmt::format_to(std::back_inserter(c.out), "incr {} 1\r\n", c.random_counter());
}
void ask_delete(const VerbContext& c) {
  fmt::format_to(std::back_inserter(c.out), "delete {}\r\n", c.random_key());
}
void ask_version(const VerbContext& c) { c.out += "version\r\n"; }
void ask_many(const VerbContext& c) {
  c.out += "get";
  for (uint64_t i = 0; i < c.size; ++i) {
    fmt::format_to(std::back_inserter(c.out), " {}", c.random_key());
  }
  c.out += "\r\n";
}

constexpr Verb kVerbs[] = {
    {"get", send_get, ask_get, 1, "GET of a random key"},
    {"set", send_set, ask_set, 1, "SET of a random key"},
    {"incr", send_incr, ask_incr, 1, "INCR of a random counter"},
    {"del", send_del, ask_delete, 1, "DEL of a random key"},
    {"exists", send_exists, nullptr, 1, "EXISTS of a random key"},
    {"ping", send_ping, ask_version, 1, "PING"},
    {"mget", send_mget, ask_many, kManyKeys, "MGET of 10 (or /N) random keys"},
    {"mset", send_mset, nullptr, kManyKeys, "MSET of 10 (or /N) random keys"},
    {"range", send_range, nullptr, 0, "RANGE start end LIMIT N, Rubato's ordered read"},
    {"rangecount", send_rangecount, nullptr, 0, "RANGECOUNT over N keys (Rubato)"},
    {"scan", send_scan, nullptr, 0, "SCAN 0 COUNT N"},
    {"keys", send_keys, nullptr, 1, "KEYS key:*, the whole keyspace"},
    {"debugsleep", send_debugsleep, nullptr, 1000, "DEBUG SLEEP of 1000 (or /N) microseconds"},
    {"lrange", send_lrange, nullptr, 0, "LRANGE of N items; works on any Redis after --load-keys"},
    {"smembers", send_smembers, nullptr, 0, "SMEMBERS of N members; any Redis, after --load-keys"},
    {"hgetall", send_hgetall, nullptr, 0, "HGETALL of N fields; any Redis, after --load-keys"},
    {"eval", send_eval, nullptr, 100000, "EVAL of a Lua loop of 100000 (or /N) turns; any Redis"},
};

}  // namespace

std::string VerbContext::random_key() const { return key_name(prng.next() % shape.keys); }

std::string VerbContext::random_counter() const { return counter_name(prng.next() % shape.keys); }

std::string VerbContext::number(uint64_t n) const { return fmt::format_int(n).str(); }

const Verb* find_verb(std::string_view name) {
  const Verb* const end = std::end(kVerbs);
  const Verb* const found =
      std::find_if(std::begin(kVerbs), end, [&](const Verb& verb) { return verb.name == name; });
  return found != end ? found : nullptr;
}

std::vector<std::pair<std::string_view, std::string_view>> kv_verbs(Protocol protocol) {
  std::vector<std::pair<std::string_view, std::string_view>> verbs;
  for (const Verb& verb : kVerbs) {
    if (verb.sender(protocol) != nullptr) verbs.emplace_back(verb.name, verb.summary);
  }
  return verbs;
}

std::string key_name(uint64_t index) {
  constexpr size_t kDigits = 12;
  const fmt::format_int digits(index);
  std::string name = "key:";
  name.append(kDigits - std::min(kDigits, digits.size()), '0');
  return name.append(digits.data(), digits.size());
}

std::string counter_name(uint64_t index) { return fmt::format("counter:{}", index); }

void append_argument(std::string& out, std::string_view arg) {
  fmt::format_to(std::back_inserter(out), "${}\r\n", arg.size());
  out.append(arg);
  out.append("\r\n");
}

void append_command(std::string& out, std::initializer_list<std::string_view> args) {
  fmt::format_to(std::back_inserter(out), "*{}\r\n", args.size());
  for (std::string_view arg : args) append_argument(out, arg);
}

void append_memcached_set(std::string& out, std::string_view key, std::string_view value) {
  fmt::format_to(std::back_inserter(out), "set {} 0 0 {}\r\n", key, value.size());
  out.append(value);
  out.append("\r\n");
}

}  // namespace rubato::load
