// SPDX-License-Identifier: Apache-2.0
//
// The meta commands of memcached's text protocol: mg, ms, md, ma, me (protocol.txt of memcached
// 1.6, "Meta Commands"). Whether and when an item was read, flags h and l of mg, only an engine
// knows that keeps it.
#pragma once

#include <optional>

#include "kv_server/memcached/operation.h"

namespace rubato::kv {

class MetaOperation : private MemcachedOperation {
 public:
  using MemcachedOperation::MemcachedOperation;

  // One of the five; its flags are those that the parser lets through.
  void run();

 private:
  // What a request's flags say, by their letters.
  struct Flags {
    bool base64 = false;
    bool quiet = false;
    bool value = false;
    bool unused = false;  // u: mg is no use of the item
    bool asks_use = false;  // h or l
    bool touches = false;
    bool creates = false;  // N
    bool invalidates = false;
    std::optional<int64_t> recache_s;
    std::optional<uint64_t> version;
    uint32_t client = 0;
    uint64_t delta = 1;
    uint64_t initial = 0;
    int64_t exptime = 0;
    int64_t creates_exptime = 0;
    char mode = 0;
  };
  // What flags ask to be told about.
  struct Shown {
    uint32_t client = 0;
    size_t bytes = 0;
    uint64_t version = 0;
    int64_t expires_at_ms = kNoExpiry;
    bool won = false;  // this client is to fetch the item anew
    ItemState state;   // as it was before that
    // As it was before the request.
    int64_t idle_ms = 0;
    bool read = false;
  };

  bool read_flags();
  bool read_flag(char letter, std::string_view token);
  void get();
  void describe();
  void set();
  void erase();
  void step();
  char set_mode() const;
  bool counts_down() const;
  Change got(const Current& current, Shown& shown);
  Change stored(const Current& current, std::string_view& answer);
  Change put(std::string_view value, int64_t expires_at_ms, uint64_t& version) const;
  Change erased(const Current& current, std::string_view& answer);
  Change counted(const Current& current, std::string_view& answer);
  static Shown shown_of(const MemcachedItem& item, const Current& current);
  uint64_t seconds_left(const Shown& shown) const;
  static uint64_t idle_seconds(const Shown& shown);
  // A line with the flags that the client wants back.
  void answer(std::string_view code, const Shown* shown = nullptr);
  void append_state(const Shown& shown);
  void append_flag(char letter, std::string_view token, const Shown& shown);
  void answer_value(const Shown& shown, std::string_view data);

  std::string_view key_;
  std::string key_room_;
  uint64_t version_ = 0;  // of what was written
  Flags flags_;
};

}  // namespace rubato::kv
