// SPDX-License-Identifier: Apache-2.0
#include "kv_server/server/info.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <vector>

#include "datapath/tls.h"
#include "kv_server/commands/table.h"
#include "kv_server/text/number.h"
#include "kv_server/text/words.h"
#include "mechanism/cpu/process_memory.h"

namespace rubato::kv {
namespace {

constexpr int64_t kMillisPerSecond = 1000;
constexpr int64_t kSecondsPerDay = 86'400;
constexpr double kNanosPerMicro = 1e3;

// Collects lines of one INFO reply.
class Text {
 public:
  void section(std::string_view title) {
    if (!out_.empty()) out_ += "\r\n";
    out_ += "# ";
    out_ += title;
    out_ += "\r\n";
  }
  void line(std::string_view name, std::string_view value) {
    out_ += name;
    out_ += ':';
    out_ += value;
    out_ += "\r\n";
  }
  void line(std::string_view name, const char* value) { line(name, std::string_view(value)); }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void line(std::string_view name, Number value) {
    line(name, std::to_string(value));
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string human_bytes(uint64_t bytes) {
  constexpr double kStep = 1024;
  const char* units[] = {"B", "K", "M", "G", "T"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= kStep && unit + 1 < std::size(units)) value /= kStep, ++unit;
  return unit == 0 ? std::to_string(bytes) + "B" : fixed(value, 2) + units[unit];
}

void server_section(Server& server, Text& text) {
  utsname machine{};
  uname(&machine);
  const int64_t now_ms = server.now_ms();
  const int64_t uptime_s = (now_ms - server.started_ms()) / kMillisPerSecond;
  text.section("Server");
  text.line("redis_version", kRedisVersion);
  text.line("redis_mode", "standalone");
  text.line("server_name", "rubato");
  text.line("os", std::string(machine.sysname) + " " + machine.release + " " + machine.machine);
  text.line("arch_bits", "64");
  text.line("multiplexing_api", "epoll");
  text.line("process_id", getpid());
  text.line("run_id", server.run_id());
  text.line("tcp_port", server.options().port);
  text.line("server_time_usec", now_ms * kMillisPerSecond);
  text.line("uptime_in_seconds", uptime_s);
  text.line("uptime_in_days", uptime_s / kSecondsPerDay);
  text.line("hz", "10");
  text.line("config_file", server.options().config_file);
  text.line("engine", server.engine().name());
}

void clients_section(Server& server, Text& text) {
  text.section("Clients");
  text.line("connected_clients", server.traffic().flows_open);
  text.line("maxclients", server.config().text_of("maxclients"));
  text.line("blocked_clients", "0");
}

void memory_section(Server& server, Text& text) {
  const EngineStats stats = server.engine().stats();
  const uint64_t resident = resident_bytes();
  text.section("Memory");
  const MemoryAccount* const account = server.options().memory;
  const uint64_t buffers = account != nullptr ? account->buffers() : 0;
  const uint64_t stacks = account != nullptr ? account->stacks() : 0;
  const uint64_t used = stats.used_bytes + buffers + stacks;
  text.line("used_memory", used);
  text.line("used_memory_human", human_bytes(used));
  text.line("used_memory_rss", resident);
  text.line("used_memory_rss_human", human_bytes(resident));
  text.line("used_memory_startup", server.startup_bytes());
  text.line("used_memory_dataset", stats.used_bytes);
  text.line("maxmemory", stats.maxmemory_bytes);
  text.line("maxmemory_human", human_bytes(stats.maxmemory_bytes));
  text.line("maxmemory_policy", server.config().text_of("maxmemory-policy"));
  text.line("mem_clients_normal", buffers);
  text.line("mem_request_stacks", stacks);
  text.line("buffers_refused", account != nullptr ? account->refused() : 0);
  text.line("mem_allocator", "libc");
}

void persistence_section(Server& server, Text& text) {
  const bool persistent = server.options().engine == "rocksdb";
  text.section("Persistence");
  text.line("loading", "0");
  text.line("aof_enabled", persistent ? "1" : "0");
  text.line("rdb_changes_since_last_save", "0");
  text.line("rdb_bgsave_in_progress", "0");
  text.line("rdb_last_bgsave_status", "ok");
  text.line("aof_rewrite_in_progress", "0");
  text.line("aof_last_write_status", server.engine().refusing().empty() ? "ok" : "err");
  const bool sync = server.options().durability == Durability::kSync;
  text.line("durability", !persistent ? "none" : sync ? "sync" : "async");
  text.line("data_after_stop", persistent ? "kept" : "lost");
  if (!persistent) return;
  text.line("store_descriptors_kept", server.options().table_files + kStoreFilesBesideTables);
}

void stats_section(Server& server, Text& text) {
  const EngineStats engine = server.engine_counts();
  const DatapathStats net = server.traffic();
  text.section("Stats");
  text.line("total_connections_received", net.flows_accepted);
  text.line("total_commands_processed", net.requests);
  text.line("total_net_input_bytes", net.input_bytes);
  text.line("total_net_output_bytes", net.output_bytes);
  text.line("rejected_connections", net.flows_refused);
  text.line("timed_out_connections", net.flows_timed_out);
  text.line("client_output_buffer_limit_disconnections", net.flows_overflowed);
  text.line("client_query_buffer_limit_disconnections", net.flows_input_limit);
  if (const TlsContext* const tls = server.options().tls; tls != nullptr) {
    const TlsStats stats = tls->stats();
    text.line("tls_handshakes", stats.handshakes);
    text.line("tls_handshakes_failed", stats.failed);
    text.line("tls_last_failure", stats.last_failure);
  }
  text.line("flows_steered", net.flows_steered);
  text.line("flows_unsteered", net.flows_unsteered);
  text.line("flows_migrated", net.flows_migrated);
  text.line("zerocopy_sends", net.zerocopy_sends);
  text.line("zerocopy_copied", net.zerocopy_copied);
  text.line("zerocopy_refused", net.zerocopy_refused);
  text.line("expired_keys", engine.expired);
  text.line("evicted_keys", engine.evicted);
  text.line("keyspace_hits", engine.hits);
  text.line("keyspace_misses", engine.misses);
  text.line("total_error_replies", server.errors().total());
}

void replication_section(Server&, Text& text) {
  text.section("Replication");
  text.line("role", "master");
  text.line("connected_slaves", "0");
}

void cpu_section(Server&, Text& text) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return fixed(static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6, 6);
  };
  text.section("CPU");
  text.line("used_cpu_sys", seconds(usage.ru_stime));
  text.line("used_cpu_user", seconds(usage.ru_utime));
}

void commandstats_section(Server& server, Text& text) {
  LatencySource* latency = server.host().latency;
  const CommandTable& table = command_table();
  text.section("Commandstats");
  for (uint32_t type = 1; type < table.size(); ++type) {
    const uint64_t requests = latency == nullptr ? 0 : latency->total_time(type).count();
    const uint64_t calls = server.calls().calls(type, requests);
    const uint64_t refused = server.calls().refused(type);
    const uint64_t failed = server.calls().failed(type);
    if (calls == 0 && refused == 0 && failed == 0) continue;
    const Nanos service = (latency == nullptr ? Nanos() : latency->service_time(type)) +
                          server.calls().queued_service(type);
    const double us = static_cast<double>(service.count()) / kNanosPerMicro;
    text.line("cmdstat_" + table.full_name(type),
              "calls=" + std::to_string(calls) + ",usec=" + fixed(us, 0) + ",usec_per_call=" +
                  fixed(calls == 0 ? 0 : us / static_cast<double>(calls), 2) +
                  ",rejected_calls=" + std::to_string(refused) +
                  ",failed_calls=" + std::to_string(failed));
  }
}

void errorstats_section(Server& server, Text& text) {
  text.section("Errorstats");
  for (const auto& [code, count] : server.errors().snapshot()) {
    text.line("errorstat_" + code, "count=" + std::to_string(count));
  }
}

std::vector<double> percentiles_of(const std::string& words) {
  std::vector<double> out;
  size_t at = 0;
  while (at < words.size()) {
    const size_t end = std::min(words.find(' ', at), words.size());
    double percentile = 0;
    const bool good = parse_double(std::string_view(words).substr(at, end - at), percentile);
    if (good && percentile >= 0 && percentile <= 100) out.push_back(percentile);
    at = end + 1;
  }
  return out;
}

void latencystats_section(Server& server, Text& text) {
  LatencySource* latency = server.host().latency;
  text.section("Latencystats");
  if (latency == nullptr || !server.config().latency_tracking()) return;
  const std::vector<double> percentiles = percentiles_of(server.config().percentiles());
  const CommandTable& table = command_table();
  for (uint32_t type = 1; type < table.size(); ++type) {
    const Histogram times = latency->total_time(type);
    if (times.empty()) continue;
    std::string values;
    for (const double percentile : percentiles) {
      if (!values.empty()) values += ',';
      const auto ns = static_cast<double>(times.percentile(percentile).count());
      values += "p" + shown_percentile(percentile) + "=" + fixed(ns / kNanosPerMicro, 3);
    }
    text.line("latency_percentiles_usec_" + table.full_name(type), values);
  }
}

void cluster_section(Server&, Text& text) {
  text.section("Cluster");
  text.line("cluster_enabled", "0");
}

void keyspace_section(Server& server, Text& text) {
  const EngineStats stats = server.engine().stats();
  text.section("Keyspace");
  if (stats.keys == 0) return;
  text.line("db0", "keys=" + std::to_string(stats.keys) +
                       ",expires=" + std::to_string(stats.volatile_keys) + ",avg_ttl=0");
}

void lines_of(const ServerControl::Lines& lines, Text& text) {
  for (const auto& [name, value] : lines) text.line(name, value);
}

void overload_section(Server& server, Text& text) {
  text.section("Overload");
  if (ServerControl* host = server.host().control) lines_of(host->overload_info(), text);
}

void scheduler_section(Server& server, Text& text) {
  text.section("Scheduler");
  if (ServerControl* host = server.host().control) lines_of(host->scheduler_info(), text);
}

struct InfoSection {
  std::string_view name;
  bool by_default;
  void (*write)(Server&, Text&);
};

constexpr InfoSection kSections[] = {
    {"server", true, server_section},
    {"clients", true, clients_section},
    {"memory", true, memory_section},
    {"persistence", true, persistence_section},
    {"stats", true, stats_section},
    {"replication", true, replication_section},
    {"cpu", true, cpu_section},
    {"commandstats", false, commandstats_section},
    {"errorstats", true, errorstats_section},
    {"latencystats", false, latencystats_section},
    {"cluster", true, cluster_section},
    {"keyspace", true, keyspace_section},
    {"overload", true, overload_section},
    {"scheduler", true, scheduler_section},
};

bool is_wanted(const InfoSection& section, std::span<const std::string_view> names) {
  if (names.empty()) return section.by_default;
  for (const std::string_view name : names) {
    if (same_word(name, section.name) || same_word(name, "all") ||
        same_word(name, "everything") || (same_word(name, "default") && section.by_default)) {
      return true;
    }
  }
  return false;
}

}  // namespace

uint64_t resident_bytes() {
  return process_memory().resident_bytes;
}

std::string info_text(Server& server, std::span<const std::string_view> sections) {
  Text text;
  for (const InfoSection& section : kSections) {
    if (is_wanted(section, sections)) section.write(server, text);
  }
  return text.take();
}

}  // namespace rubato::kv
