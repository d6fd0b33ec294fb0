// SPDX-License-Identifier: Apache-2.0
//
// KvOptions: the set-up of `rubato serve kv`. A plain value, filled by the command line before the
// application is made; CONFIG SET changes some of these later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kv_server/engine/engine.h"
#include "kv_server/resp/refusal.h"

namespace rubato {
class TlsContext;
}

namespace rubato::kv {

inline constexpr uint64_t kDefaultMaxReplyBytes = uint64_t{1} << 30;
inline constexpr uint64_t kDefaultQueryBufferBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMinQueryBufferBytes = uint64_t{1} << 20;
// What the memtables and the cache of the rocksdb engine need.
inline constexpr uint64_t kMinRocksMemoryBytes = uint64_t{32} << 20;
inline constexpr uint32_t kDefaultMaxClients = 10'000;

// The protocol of a connection.
enum class Speaks : uint8_t { kResp, kMemcached, kRpc };

// Who may use a command.
enum class Allowed : uint8_t { kNobody, kLocal, kAll };

// By the classes of clients that Redis has. All clients here are `normal`; the others are kept for
// those who read them back.
struct OutputLimits {
  OutputLimit normal{kDefaultMaxReplyBytes, 0, {}};
  OutputLimit replica{256 << 20, 64 << 20, Nanos::seconds(60)};
  OutputLimit pubsub{32 << 20, 8 << 20, Nanos::seconds(60)};
};

struct KvOptions {
  std::string engine = "memory";  // "memory" or "rocksdb"
  std::string dir = "rubato-data";  // rocksdb only
  Durability durability = Durability::kSync;
  bool recover = false;             // rocksdb only, see EngineOptions
  uint64_t maxmemory_bytes = 0;  // 0 = unlimited
  Eviction eviction = Eviction::kNone;
  OutputLimits output_limits;
  uint64_t query_buffer_bytes = kDefaultQueryBufferBytes;  // of a client's unserved requests
  MemoryAccount* memory = nullptr;  // of engine and connections; null = nobody keeps one
  std::string requirepass;       // empty = none
  Allowed debug_command = Allowed::kLocal;
  bool protected_mode = true;    // see server/protected_mode.h
  std::string bind = "127.0.0.1";
  uint16_t port = 6379;
  uint32_t maxclients = kDefaultMaxClients;
  uint32_t table_files = 512;                // that the rocksdb engine keeps open
  uint32_t timeout_s = 0;                    // idle clients are closed after it, 0 = never
  int64_t slowlog_log_slower_than_us = 10'000;  // negative = off
  uint32_t slowlog_max_len = 128;
  uint64_t max_reply_bytes = kDefaultMaxReplyBytes;  // of one list reply (KEYS, RANGE)
  std::string config_file;  // shown by INFO
  OverloadReply overload_reply = OverloadReply::kOverloaded;
  const TlsContext* tls = nullptr;  // of ports with TLS, shown by INFO; null = there are none
  std::vector<Speaks> ports{Speaks::kResp};  // the protocol of each of the datapath's ports

  bool memcached_udp = false;  // a port beside those

  // True if a port speaks memcached's protocol, whose clients have no passwords.
  bool has_memcached_port() const;
};

// The engine that the options ask for; fails with one line that names what does not fit.
// `checkpoint` is called by iterating methods once per item. Also tunes the allocator of the
// process, once and for all, so that giving much memory back is done in small steps.
Result<std::unique_ptr<Engine>> open_engine(const KvOptions& options, bool (*checkpoint)());

}  // namespace rubato::kv
