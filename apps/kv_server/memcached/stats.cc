// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "kv_server/text/number.h"

namespace rubato::kv {
namespace {

// Seconds with six decimals, as memcached shows what getrusage tells.
std::string shown(const timeval& time) {
  char text[32];
  std::snprintf(text, sizeof text, "%ld.%06ld", time.tv_sec, time.tv_usec);
  return text;
}

}  // namespace

void MemcachedStats::run() {
  if (asked_.words.empty()) return general();
  const std::string_view what = asked_.words.front();
  if (what == "reset") {
    server_.reset_statistics();
    return say("RESET");
  }
  if (what == "settings") return settings();
  if (what == "detail") return detail(asked_.words.size() > 1 ? asked_.words[1] : "");
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
  stat("maxconns", server_.config().text_of("maxclients"));
  stat("num_threads", threads());
  stat("item_size_max", kMemcachedItemBytes);
  const bool evicts = server_.config().text_of("maxmemory-policy") != "noeviction";
  stat("evictions", evicts ? "on" : "off");
  stat("cas_enabled", "yes");
  stat("flush_enabled", "yes");
  stat("auth_enabled_sasl", "no");
  stat("auth_enabled_ascii", "no");
  stat("shutdown_command", "no");
  stat("stat_key_prefix", std::string_view(&PrefixCounters::kDelimiter, 1));
  stat("detail_enabled", prefixes().is_on() ? "yes" : "no");
  say("END");
}

void MemcachedStats::detail(std::string_view what) {
  if (what == "dump") return dump();
  if (what != "on" && what != "off") return say("CLIENT_ERROR usage: stats detail on|off|dump");
  prefixes().turn(what == "on");
  say("OK");
}

// No prefix has a name like that of the others.
void MemcachedStats::dump() {
  const PrefixCounters::Snapshot snapshot = prefixes().snapshot();
  for (const auto& [name, counts] : snapshot.prefixes) prefix(name, counts);
  if (snapshot.others != PrefixCounters::Counts()) prefix(":others", snapshot.others);
  say("END");
}

void MemcachedStats::prefix(std::string_view name, const PrefixCounters::Counts& counts) {
  out_.append("PREFIX ");
  out_.append(name);
  const auto append = [&](std::string_view what, uint64_t number) {
    out_.append(what);
    append_number(number);
  };
  append(" get ", counts.gets);
  append(" hit ", counts.hits);
  append(" set ", counts.sets);
  append(" del ", counts.deletes);
  say("");
}

void MemcachedStats::general() {
  const EngineStats stats = server_.engine_counts();
  const DatapathStats traffic = server_.traffic();
  int64_t most_connections = 0;
  parse_integer(server_.config().text_of("maxclients"), most_connections);
  const int64_t now_ms = server_.now_ms();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  stat("pid", static_cast<uint64_t>(getpid()));
  stat("uptime", static_cast<uint64_t>((now_ms - server_.started_ms()) / kMillisPerSecond));
  stat("time", static_cast<uint64_t>(now_ms / kMillisPerSecond));
  stat("version", kMemcachedVersion);
  stat("pointer_size", 8 * sizeof(void*));
  stat("rusage_user", shown(usage.ru_utime));
  stat("rusage_system", shown(usage.ru_stime));
  const auto most = static_cast<uint64_t>(most_connections);
  stat("max_connections", most);
  stat("curr_connections", traffic.flows_open);
  stat("total_connections", traffic.flows_accepted);
  stat("rejected_connections", traffic.flows_refused);
  stat("accepting_conns", uint64_t{traffic.flows_open < most});
  stat("threads", threads());
  stat("bytes_read", traffic.input_bytes);
  stat("bytes_written", traffic.output_bytes);
  by_verb();
  stat("curr_items", stats.keys);
  stat("bytes", stats.used_bytes);
  stat("limit_maxbytes", stats.maxmemory_bytes);
  stat("evictions", stats.evicted);
  stat("get_expired", stats.expired - stats.swept);
  say("END");
}

// Every command of these two either hits or misses.
void MemcachedStats::by_verb() {
  const MemcachedCounters::Values values = server_.memcached().values();
  const auto value = [&](MemcachedCounter counter) { return values[counter.index()]; };
  stat("cmd_get", value("get_hits") + value("get_misses"));
  stat("cmd_touch", value("touch_hits") + value("touch_misses"));
  for (size_t i = 0; i < values.size(); ++i) stat(kMemcachedCounters[i], values[i]);
}

// A worker has a queue of each datapath.
uint64_t MemcachedStats::threads() const {
  const Datapath* const datapath = server_.host().datapath;
  return datapath != nullptr ? datapath->queues() : 0;
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
