// SPDX-License-Identifier: Apache-2.0
//
// MemcachedOperation: what the commands of memcached's protocol share on their way through the
// engine. Lives for one request.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "kv_server/memcached/item.h"
#include "kv_server/memcached/parser.h"
#include "kv_server/server/server.h"

namespace rubato::kv {

// The version of memcached whose text protocol this is; clients choose their commands by it.
inline constexpr const char* kMemcachedVersion = "1.6.18";

class MemcachedOperation {
 public:
  MemcachedOperation(Server& server, const MemcachedRequest& asked, ReplyBuffer& out)
      : server_(server), engine_(server.engine()), asked_(asked), out_(out) {}

  void say(std::string_view line) {
    out_.append(line);
    out_.append("\r\n");
  }

 protected:
  static constexpr int64_t kMillisPerSecond = 1000;
  static constexpr std::string_view kTooLarge = "SERVER_ERROR object too large for cache";
  // A greater time is a Unix time (protocol.txt, "Expiration times").
  static constexpr int64_t kLongestRelativeS = 60L * 60 * 24 * 30;

  std::string_view key() const { return asked_.keys.front(); }

  // A negative time means an expiry in the past.
  int64_t expires_at_ms(int64_t s) const {
    if (s == 0) return kNoExpiry;
    if (s < 0) return 1;
    if (s > INT64_MAX / kMillisPerSecond) return kNoExpiry;
    if (s > kLongestRelativeS) return s * kMillisPerSecond;
    return server_.now_ms() + s * kMillisPerSecond;
  }

  // True if the storage did not fail; else the error has been answered.
  bool good(Outcome outcome) {
    if (outcome == Outcome::kOutOfMemory) {
      say("SERVER_ERROR out of memory storing object");
    } else if (outcome == Outcome::kFailed) {
      say("SERVER_ERROR " + engine_.error());
    } else {
      return true;
    }
    return false;
  }

  PrefixCounters& prefixes() { return server_.memcached().prefixes(); }
  void count(MemcachedCounter counter) { server_.memcached().add(counter); }
  void count_get(bool hit) {
    count(hit ? MemcachedCounter("get_hits") : MemcachedCounter("get_misses"));
  }
  void count_touch(bool hit) {
    count(hit ? MemcachedCounter("touch_hits") : MemcachedCounter("touch_misses"));
  }
  void count_delete(bool hit) {
    count(hit ? MemcachedCounter("delete_hits") : MemcachedCounter("delete_misses"));
  }
  void count_step(bool up, bool hit) {
    if (up) {
      count(hit ? MemcachedCounter("incr_hits") : MemcachedCounter("incr_misses"));
    } else {
      count(hit ? MemcachedCounter("decr_hits") : MemcachedCounter("decr_misses"));
    }
  }
  // Of a command that stores: what became of it, and its answer if the storage did not fail.
  void count_store(Outcome outcome, std::string_view answer) {
    if (outcome == Outcome::kOutOfMemory) return count("store_no_memory");
    if (answer == kTooLarge) return count("store_too_large");
    count("cmd_set");
    if (outcome == Outcome::kDone) count("total_items");
  }
  // Of cas, and of ms that is one: EXISTS, NOT_FOUND or STORED, or what ms says instead.
  void count_cas(std::string_view answer) {
    if (answer.starts_with("EX")) return count("cas_badval");
    count(answer.starts_with('N') ? MemcachedCounter("cas_misses") : MemcachedCounter("cas_hits"));
  }

  // An item that is too large was not stored; an old one of its key must not be taken for it.
  void refuse_too_large(std::string_view key, bool replaces) {
    count("store_too_large");
    if (replaces && !good(engine_.erase(key))) return;
    say(kTooLarge);
  }

  void append_number(uint64_t value) {
    char text[20];
    const auto [end, problem] = std::to_chars(text, text + sizeof text, value);
    out_.append({text, static_cast<size_t>(end - text)});
  }

  Server& server_;
  Engine& engine_;
  const MemcachedRequest& asked_;
  ReplyBuffer& out_;
  std::string data_;
  std::string room_;
};

// A decimal number of 64 bits and nothing else.
inline bool read_counter(std::string_view text, uint64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  return problem == std::errc() && stop == end;
}

}  // namespace rubato::kv
