// SPDX-License-Identifier: Apache-2.0
//
// The verbs of a key-value mix and the bytes that they send, as RESP commands or in memcached's
// text protocol. Pure; a context has one owner at a time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "load/target.h"

namespace rubato::load {

// The parameters of a key-value mix.
struct KvShape {
  uint64_t keys = 100000;
  uint32_t value_size_bytes = 64;
  uint32_t scan_limit = 1000;  // items of verbs without their own number, such as range and scan
};

// The context in which a verb draws its keys and appends its command.
struct VerbContext {
  const KvShape& shape;
  std::string_view value;
  uint64_t size;  // the verb's number, resolved
  Prng& prng;
  std::string& out;

  std::string random_key() const;
  std::string random_counter() const;
  std::string number(uint64_t n) const;
};

struct Verb {
  using Sender = void (*)(const VerbContext&);

  std::string_view name;
  Sender resp;
  Sender memcached;  // null = memcached has no such command
  uint64_t size;     // default of its number; 0 = KvShape::scan_limit
  std::string_view summary;

  // For a target that keeps values; null = the protocol lacks it.
  Sender sender(Protocol protocol) const {
    return speaks_memcached(protocol) ? memcached : resp;
  }
};

// Null = there is no such verb.
const Verb* find_verb(std::string_view name);

// The verbs that the protocol has, for the help text: name, and the command that it sends.
std::vector<std::pair<std::string_view, std::string_view>> kv_verbs(Protocol protocol);

// Appends `$len\r\narg\r\n`.
void append_argument(std::string& out, std::string_view arg);

// Appends `*N\r\n$len\r\narg...`.
void append_command(std::string& out, std::initializer_list<std::string_view> args);

// Appends `set key 0 0 len\r\nvalue\r\n`.
void append_memcached_set(std::string& out, std::string_view key, std::string_view value);

// The names of keys and counters, as the sources use them and preload() fills them.
std::string key_name(uint64_t index);
std::string counter_name(uint64_t index);
inline constexpr std::string_view kLastKey = "key:999999999999";
inline constexpr std::string_view kListKey = "list:0";
inline constexpr std::string_view kSetKey = "set:0";
inline constexpr std::string_view kHashKey = "hash:0";

}  // namespace rubato::load
