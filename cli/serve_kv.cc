// SPDX-License-Identifier: Apache-2.0
//
// `rubato serve kv`: the key-value server on TCP, speaking RESP.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <memory>

#include "cli/command.h"
#include "cli/options.h"
#include "datapath/tcp.h"
#include "host/kv_host.h"
#include "host/serving.h"
#include "kv_server/server/application.h"
#include "kv_server/text/number.h"
#include "runtime/runtime.h"
#include "serve_options.h"

namespace rubato::cli {
namespace {

constexpr int64_t kMaxSlowUs = int64_t{3600} * 1'000'000;
constexpr uint32_t kMaxSlowEntries = 1'000'000;

struct KvCommand {
  ServeOptions options;
  kv::KvOptions kv;
  std::string durability = "sync";
  std::string overload_reply = "overloaded";
  int memcached_port = -1;  // none
};

int refuse(int status, const std::string& message) {
  std::fprintf(stderr, "rubato serve kv: %s\n", message.c_str());
  return status;
}

// One source for what both the datapath and the application must know.
void share_options(KvCommand& command) {
  ServeOptions& options = command.options;
  kv::KvOptions& kv = command.kv;
  kv.durability = command.durability == "sync" ? kv::Durability::kSync : kv::Durability::kAsync;
  kv.overload_reply = command.overload_reply == "overloaded" ? kv::OverloadReply::kOverloaded
                                                             : kv::OverloadReply::kThrottled;
  kv.bind = options.tcp.bind;
  kv.port = options.tcp.port;
  kv.maxclients = options.tcp.max_flows;
  kv.timeout_s = options.timeout_s;
  kv.config_file = options.config_file;
  options.tcp.over_limit_reply = "-ERR max number of clients reached\r\n";
  if (command.memcached_port >= 0) {
    options.tcp.more_ports.push_back({static_cast<uint16_t>(command.memcached_port),
                                      "SERVER_ERROR max number of clients reached\r\n"});
    kv.ports.push_back(kv::Speaks::kMemcached);
  }
  options.tcp.limits.output_bytes = kv.max_reply_bytes;
  options.runtime.slow_threshold = kv.slowlog_log_slower_than_us < 0
                                       ? Nanos::max()
                                       : Nanos::micros(kv.slowlog_log_slower_than_us);
  options.serving.types = kv::KvApplication::request_types();
  options.serving.type_name = [](uint32_t type) { return kv::KvApplication::type_name(type); };
  options.serving.recording.is_control = kv::KvApplication::is_control;
}

std::string announcement(const KvCommand& command, const TcpDatapath& datapath) {
  const char* durability = command.kv.engine == "memory"  ? "none: data is in memory only"
                           : command.durability == "sync" ? "sync: no acknowledged write is lost"
                                                          : "async: a power cut can lose writes";
  const ServeOptions& options = command.options;
  std::string text = fmt::format(
      "rubato serve kv: policy {}, {} worker(s), {}, engine {} (durability {}), on {}:{}",
      options.runtime.policy, options.runtime.workers, preemption_text(options),
      command.kv.engine, durability, options.tcp.bind, datapath.port());
  if (command.memcached_port >= 0) {
    text += fmt::format("\nmemcached's text protocol on {}:{}", options.tcp.bind,
                        datapath.ports().back());
  }
  return text;
}

Status check_memcached(const KvCommand& command) {
  if (command.memcached_port < 0) return Done{};
  if (!command.kv.requirepass.empty()) {
    return Error{"--memcached-port: cannot be had with --requirepass, as memcached's text protocol "
                 "has no passwords"};
  }
  if (command.memcached_port != 0 && command.memcached_port == command.options.tcp.port) {
    return Error{fmt::format("--memcached-port: takes another port than --port, {}",
                             command.memcached_port)};
  }
  return Done{};
}

int run(CLI::App& app, KvCommand& command) {
  Status finished = finish_serve_options(app, command.options);
  if (finished.ok()) finished = check_memcached(command);
  if (!finished.ok()) return refuse(kBadArguments, finished.error());
  auto best_effort = prepare_best_effort(app, command.options.cores);
  if (!best_effort.ok()) return refuse(kBadArguments, option_error(best_effort.error()).message);
  command.options.serving.best_effort = best_effort->get();
  share_options(command);
  auto engine = kv::open_engine(command.kv, [] { checkpoint(); });
  if (!engine.ok()) return refuse(kFailed, engine.error());
  kv::KvApplication application(**engine, command.kv);
  auto datapath = TcpDatapath::open(command.options.tcp, application);
  if (!datapath.ok()) return refuse(kFailed, datapath.error());
  auto runtime = Runtime::create(command.options.runtime, **datapath, application);
  if (!runtime.ok()) return refuse(kBadArguments, option_error(runtime.error()).message);
  kv::KvHost host(**runtime, **datapath, application, best_effort->get());
  command.options.serving.announcement = announcement(command, **datapath);
  command.options.serving.connections = command.options.tcp.max_flows;
  auto served = serve_until_signal(**runtime, **datapath, command.options.serving);
  return served.ok() ? *served : refuse(kFailed, served.error());
}

// The units are those of CONFIG SET maxmemory.
Status read_maxmemory(const std::string& text, kv::KvOptions& kv) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  uint64_t bytes = 0;
  if (!kv::parse_memory(text, bytes) || bytes > kMost) {
    return Error{"takes bytes, as 512mb or 1gb, or 0 for no limit; not '" + text + "'"};
  }
  kv.maxmemory_bytes = bytes;
  return Done{};
}

void add_kv_options(CLI::App& app, KvCommand& command) {
  app.add_option("--engine", command.kv.engine, "Where data lives: rocksdb (on disk) or memory")
      ->check(CLI::IsMember({"rocksdb", "memory"}))
      ->capture_default_str();
  app.add_option("--dir", command.kv.dir, "Data folder of the rocksdb engine")
      ->capture_default_str();
  app.add_option("--durability", command.durability,
                 "rocksdb: sync = a write is on disk before it is acknowledged; async = it is with "
                 "the kernel, which survives a crash of the server but not of the machine")
      ->check(CLI::IsMember({"sync", "async"}))
      ->capture_default_str();
  add_parsed(app, "--maxmemory", "BYTES",
             [&kv = command.kv](const std::string& text) { return read_maxmemory(text, kv); },
             "memory engine: bytes at most (1gb, 512mb, ...); writes beyond fail; 0 = no limit")
      ->default_str("0");
  app.add_option("--requirepass", command.kv.requirepass, "Password that clients must give (AUTH)");
  app.add_option("--memcached-port", command.memcached_port,
                 "Port that speaks memcached's text protocol; 0 = any free one; none by default")
      ->check(CLI::Range(0, 65535));
  app.add_option("--overload-reply", command.overload_reply,
                 "Code of a refusal: overloaded (-OVERLOADED) or throttled (-THROTTLED)")
      ->check(CLI::IsMember({"overloaded", "throttled"}))
      ->capture_default_str();
  app.add_option("--slowlog-log-slower-than", command.kv.slowlog_log_slower_than_us,
                 "SLOWLOG takes requests whose wait + service is at least so many us; -1 = off")
      ->check(CLI::Range(int64_t{-1}, kMaxSlowUs))
      ->capture_default_str();
  app.add_option("--slowlog-max-len", command.kv.slowlog_max_len, "Entries that SLOWLOG keeps")
      ->check(CLI::Range(0u, kMaxSlowEntries))
      ->capture_default_str();
}

void add_kv(CLI::App& parent, int& status) {
  CLI::App* app = parent.add_subcommand("kv", "Key-value server that speaks RESP (Redis clients)");
  auto command = std::make_shared<KvCommand>();
  command->options.tcp.port = command->kv.port;
  add_serve_options(*app, command->options);
  add_kv_options(*app, *command);
  app->callback([app, command, &status] { status = run(*app, *command); });
}

const Command kKv("serve", "kv", add_kv);

}  // namespace
}  // namespace rubato::cli
