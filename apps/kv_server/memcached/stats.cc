// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/stats.h"

#include <unistd.h>

namespace rubato::kv {

void MemcachedStats::run() {
  if (asked_.words.empty()) return general();
  const std::string_view what = asked_.words.front();
  if (what == "reset") {
    server_.reset_statistics();
    return say("RESET");
  }
  if (what == "settings") return settings();
  // There are no slabs, and no lists of items by age.
  if (what == "slabs") {
    stat("active_slabs", uint64_t{0});
    stat("total_malloced", engine_.stats().used_bytes);
  } else if (what != "items" && what != "sizes" && what != "conns") {
    return say("ERROR");
  }
  say("END");
}

void MemcachedStats::settings() {
  stat("maxbytes", engine_.stats().maxmemory_bytes);
  stat("item_size_max", kMemcachedItemBytes);
  const bool evicts = server_.config().text_of("maxmemory-policy") != "noeviction";
  stat("evictions", evicts ? "on" : "off");
  stat("cas_enabled", "yes");
  stat("flush_enabled", "yes");
  say("END");
}

void MemcachedStats::general() {
  const EngineStats stats = server_.engine_counts();
  const DatapathStats traffic = server_.traffic();
  const int64_t now_ms = server_.now_ms();
  stat("pid", static_cast<uint64_t>(getpid()));
  stat("uptime", static_cast<uint64_t>((now_ms - server_.started_ms()) / kMillisPerSecond));
  stat("time", static_cast<uint64_t>(now_ms / kMillisPerSecond));
  stat("version", kMemcachedVersion);
  stat("curr_connections", traffic.flows_open);
  stat("total_connections", traffic.flows_accepted);
  stat("bytes_read", traffic.input_bytes);
  stat("bytes_written", traffic.output_bytes);
  stat("cmd_get", stats.hits + stats.misses);
  stat("curr_items", stats.keys);
  stat("bytes", stats.used_bytes);
  stat("limit_maxbytes", stats.maxmemory_bytes);
  stat("evictions", stats.evicted);
  stat("get_hits", stats.hits);
  stat("get_misses", stats.misses);
  say("END");
}

void MemcachedStats::stat(std::string_view name, std::string_view value) {
  out_.append("STAT ");
  out_.append(name);
  out_.append(" ");
  say(value);
}

void MemcachedStats::stat(std::string_view name, uint64_t value) {
  out_.append("STAT ");
  out_.append(name);
  out_.append(" ");
  append_number(value);
  say("");
}

}  // namespace rubato::kv
