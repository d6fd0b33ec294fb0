// SPDX-License-Identifier: Apache-2.0
//
// `rubato serve kv`: the key-value server on TCP, speaking RESP, and on ports of their own
// memcached's text protocol and Rubato RPC, over TCP and over datagrams.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "cli/common/command_registry.h"
#include "cli/common/value_flags.h"
#include "cli/serve/kv_datagrams.h"
#include "cli/serve/rpc_service.h"
#include "cli/serve/serve_program.h"
#include "cli/serve/tls_flags.h"
#include "datapath/joint.h"
#include "datapath/tcp.h"
#include "datapath/tcp_socket.h"
#include "kv_server/server/application.h"
#include "kv_server/server/memory_rules.h"
#include "kv_server/server/protected_mode.h"
#include "kv_server/text/number.h"
#include "process/kv_services.h"
#include "process/serving.h"
#include "runtime/runtime.h"

namespace rubato::cli {
namespace {

constexpr int64_t kMaxSlowUs = int64_t{3600} * 1'000'000;
constexpr uint32_t kMaxSlowEntries = 1'000'000;

struct KvCommand final : ServeProgram {
  KvCommand() { options().server.port = kv.port; }

  const char* name() const override { return "kv"; }
  void declare(CommandLine& command) override;
  Status check() override;
  Ports ports() const override;
  std::unique_ptr<ServeProgram> another() const override { return std::make_unique<KvCommand>(); }
  int serve(Reloader& reloader) override;
  bool speaks_rpc() const { return rpc_port >= 0 || datagrams.rpc_port >= 0; }

  kv::KvOptions kv;
  MemoryAccount memory;  // of the engine and the connections
  std::string durability = "sync";
  std::string overload_reply = "overloaded";
  std::string protected_mode = "yes";
  std::string debug_command = "local";
  int memcached_port = -1;  // none
  int rpc_port = -1;        // none
  KvDatagramOptions datagrams;
  TlsOptions tls;
  std::unique_ptr<TlsServer> tls_server;  // null = no port has TLS
};

constexpr const char* kTooManyResp = "-ERR max number of clients reached\r\n";

void add_port(KvCommand& command, int port, kv::Speaks speaks, std::string over_limit_reply,
              bool tls = false) {
  if (port < 0) return;
  command.options().tcp.more_ports.push_back(
      {static_cast<uint16_t>(port), std::move(over_limit_reply), tls});
  command.kv.ports.push_back(speaks);
}

// As with Redis, a port of 0 is none if there is one with TLS, which is then the first.
void add_tls_port(KvCommand& command) {
  TcpOptions& tcp = command.options().tcp;
  tcp.tls_context = command.tls_server.get();
  if (!command.tls.has_port()) return;
  if (command.options().server.port != 0) {
    return add_port(command, command.tls.port, kv::Speaks::kResp, kTooManyResp, true);
  }
  tcp.port = static_cast<uint16_t>(command.tls.port);
  tcp.tls = true;
}

const char* name_of(kv::Speaks speaks) {
  switch (speaks) {
    case kv::Speaks::kResp: return "RESP";
    case kv::Speaks::kMemcached: return "memcached's text protocol";
    case kv::Speaks::kRpc: return "Rubato RPC";
  }
  return "";
}

// Copies the options that both the datapath and the application need.
void share_options(KvCommand& command) {
  ServeOptions& options = command.options();
  kv::KvOptions& kv = command.kv;
  kv.durability = command.durability == "sync" ? kv::Durability::kSync : kv::Durability::kAsync;
  kv.overload_reply = command.overload_reply == "overloaded" ? kv::OverloadReply::kOverloaded
                                                             : kv::OverloadReply::kThrottled;
  kv.protected_mode = command.protected_mode == "yes";
  kv.debug_command = command.debug_command == "yes"     ? kv::Allowed::kAll
                     : command.debug_command == "local" ? kv::Allowed::kLocal
                                                        : kv::Allowed::kNobody;
  kv.bind = options.server.bind;
  kv.port = static_cast<uint16_t>(options.server.port);
  kv.maxclients = options.server.max_connections;
  kv.timeout_s = static_cast<uint32_t>(options.server.idle_timeout.seconds());
  kv.config_file = options.config_file;
  kv.tls = command.tls_server.get();
  options.tcp.over_limit_reply = kTooManyResp;
  add_tls_port(command);
  add_port(command, command.memcached_port, kv::Speaks::kMemcached,
           "SERVER_ERROR max number of clients reached\r\n");
  kv.memcached_udp = command.datagrams.memcached_port >= 0;
  options.tcp.limits.output_bytes = kv.max_reply_bytes;
  options.tcp.limits.memory = kv.memory = options.serving.memory = &command.memory;
  options.runtime.slow_threshold = kv.slowlog_log_slower_than_us < 0
                                       ? Nanos::max()
                                       : Nanos::micros(kv.slowlog_log_slower_than_us);
  options.serving.types = kv::KvApplication::request_types();
  options.serving.type_name = [](uint32_t type) { return kv::KvApplication::type_name(type); };
  options.serving.recording.is_control = kv::KvApplication::is_control;
}

bool asks_all_for_certificates(const KvCommand& command) {
  const TcpOptions& tcp = command.options().tcp;
  return command.tls.auth_clients == "yes" && tcp.tls &&
         std::all_of(tcp.more_ports.begin(), tcp.more_ports.end(),
                     [](const TcpPort& port) { return port.tls; });
}

// Any client that reaches an open server may read and write everything, and stop it.
void warn_of_open_door(const KvCommand& command) {
  if (command.kv.protected_mode || !command.kv.requirepass.empty()) return;
  if (asks_all_for_certificates(command)) return;
  const Result<SocketAddress> address = resolve(command.options().server.bind, 1);
  if (!address.ok() || kv::is_loopback(to_text(address.value()))) return;
  log_line(LogLevel::kWarning, LogEvent::kStart,
           "everybody who reaches " + command.options().server.bind +
               " may read, write and shut down this server: --protected-mode is no and there is no "
               "--requirepass");
}

// Beside the kernel's stack, datagrams come from other machines, and protected mode serves none.
void warn_of_closed_door(const KvCommand& command, const kv::Config& config) {
  const std::string& datapath = command.datagrams.wire.datapath;
  if (!command.datagrams.wire.takes_interface() || !config.is_protected()) return;
  log_line(LogLevel::kWarning, LogEvent::kStart,
           "protected mode serves no client of --datapath " + datapath +
               " but this machine; --protected-mode no serves them all");
}

void tell_what_is_kept(KvCommand& command) {
  if (command.kv.engine != "memory") return;
  ServingOptions& serving = command.options().serving;
  serving.start_note = "the memory engine keeps nothing: its data is gone when the server stops";
  serving.stop_note = "the memory engine kept nothing, its data is gone";
}

std::string announcement(const KvCommand& command, const TcpDatapath& datapath,
                         const KvDatagrams& datagrams) {
  const char* durability = command.kv.engine == "memory"  ? "none: data is in memory only"
                           : command.durability == "sync" ? "sync: no acknowledged write is lost"
                                                          : "async: a power cut can lose writes";
  const ServeOptions& options = command.options();
  std::string text = fmt::format(
      "rubato serve kv: policy {}, {} worker(s), {}, engine {} (durability {}), {}on {}:{}",
      options.runtime.policy, options.runtime.workers, preemption_text(options),
      command.kv.engine, durability, options.tcp.tls ? "with TLS " : "", options.server.bind,
      datapath.port());
  for (size_t i = 1; i < command.kv.ports.size(); ++i) {
    text += fmt::format("\n{}{} on {}:{}", name_of(command.kv.ports[i]),
                        options.tcp.more_ports[i - 1].tls ? " with TLS" : "", options.server.bind,
                        datapath.ports()[i]);
  }
  return text + datagrams.announcement(options.server.bind);
}

ServeProgram::Ports KvCommand::ports() const {
  const int plain = static_cast<int>(options().server.port);
  return {{"--port", plain == 0 && tls.has_port() ? -1 : plain},
          {"--memcached-port", memcached_port},
          {"--rpc-port", rpc_port},
          {"--tls-port", tls.port}};
}

Status check_ports(const KvCommand& command) {
  const ServeProgram::Ports ports = command.ports();
  for (size_t i = 0; i < ports.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (ports[i].second <= 0 || ports[i].second != ports[j].second) continue;
      return Error{fmt::format("{}: takes another port than {}, {}", ports[i].first,
                               ports[j].first, ports[j].second)};
    }
  }
  return Done{};
}

// What does not go together, whatever the files hold.
Status check_tls(const KvCommand& command) {
  constexpr size_t kLeastStack = size_t{256} << 10;  // of a handshake, with much to spare
  const TlsOptions& tls = command.tls;
  const ServeOptions& options = command.options();
  if (tls.on_rpc() && command.rpc_port < 0) return Error{"--tls-rpc: needs --rpc-port"};
  if (tls.on_metrics() && options.server.metrics_port < 0) {
    return Error{"--tls-metrics: needs --metrics-port"};
  }
  if (!tls.wanted() && !tls.files.cert_file.empty()) {
    return Error{"--tls-cert-file: needs --tls-port, --tls-rpc yes or --tls-metrics yes"};
  }
  if (tls.wanted() && options.runtime.stack_bytes < kLeastStack) {
    return Error{"--stack: takes at least 256KiB with TLS, whose handshakes run on it"};
  }
  return Done{};
}

Status KvCommand::check() {
  const KvCommand& command = *this;
  if (command.kv.recover && command.kv.engine != "rocksdb") {
    return Error{"--recover: is for --engine rocksdb, as nothing else is kept on disk"};
  }
  const bool memcached = command.memcached_port >= 0 || datagrams.memcached_port >= 0;
  if (memcached && !command.kv.requirepass.empty()) {
    return Error{fmt::format("{}: cannot be had with --requirepass, as memcached's text protocol "
                             "has no passwords",
                             command.memcached_port >= 0 ? "--memcached-port"
                                                         : "--memcached-udp-port")};
  }
  if (Status apart = check_ports(command); !apart.ok()) return apart;
  if (Status safe = check_tls(command); !safe.ok()) return safe;
  auto opened = open_tls(tls);
  if (!opened.ok()) return Error{opened.error()};
  tls_server = std::move(*opened);
  if (Status good = check_kv_datagrams(datagrams, options()); !good.ok()) return good;
  return check_rpc_options(command.speaks_rpc(), "--rpc-port or --rpc-udp-port", options());
}

// The admission of a server that also speaks RPC. Its connections count towards the common limit.
Result<std::unique_ptr<rpc::AdmissionController>> open_admission(KvCommand& command) {
  if (!command.speaks_rpc()) return std::unique_ptr<rpc::AdmissionController>();
  auto options = admission_options(command.options());
  if (!options.ok()) return Error{options.error()};
  options->max_sessions = std::numeric_limits<uint32_t>::max();
  add_port(command, command.rpc_port, kv::Speaks::kRpc,
           std::exchange(command.options().tcp.over_limit_reply, {}), command.tls.on_rpc());
  return std::make_unique<rpc::AdmissionController>(*options);
}

// A quarter of the files that this process may have open, within what RocksDB takes and uses.
uint32_t table_files(uint64_t files) {
  constexpr uint64_t kFewest = 20;
  constexpr uint64_t kMost = 512;
  return static_cast<uint32_t>(std::clamp(files / 4, kFewest, kMost));
}

// Opens the engine, and sets aside the files that it will need when it is at work.
Result<std::unique_ptr<kv::Engine>> open_engine(KvCommand& command) {
  command.kv.table_files = table_files(raise_descriptor_limit());
  const uint64_t before = open_descriptors();
  auto engine = kv::open_engine(command.kv, [] { return checkpoint(); });
  if (!engine.ok() || command.kv.engine != "rocksdb") return engine;
  const uint64_t held = open_descriptors() - before;
  const uint64_t most = command.kv.table_files + kv::kStoreFilesBesideTables;
  command.options().serving.connections.kept = most - std::min(held, most);
  return engine;
}

void limit_connections(KvCommand& command, TcpDatapath& datapath, kv::Server& server) {
  ConnectionLimit& connections = command.options().serving.connections;
  connections.wanted = command.options().server.max_connections;
  connections.report = [&command, &datapath, &server](uint32_t most) {
    datapath.set_max_flows(std::min(most, command.options().server.max_connections));
    server.config().limit_clients(most);
  };
}

// A parameter of CONFIG SET, and its value for an option.
void apply_by_config(Reloader& reloader, kv::Config& config, const char* option,
                     std::string_view parameter, std::string (*value_of)(const KvCommand& loaded)) {
  reloader.can_apply(option, [=, &config](const ServeProgram& loaded) -> Status {
    const std::string value = value_of(static_cast<const KvCommand&>(loaded));
    const std::array<std::string_view, 2> pair{parameter, value};
    const std::string refused = config.set(pair);
    return refused.empty() ? Status(Done{}) : Error{refused};
  });
}

// The options that a running server can change.
void apply_live(Reloader& reloader, kv::Server& server) {
  using Loaded = const KvCommand&;
  const auto by_config = [&](const char* option, const char* parameter, auto value_of) {
    apply_by_config(reloader, server.config(), option, parameter, value_of);
  };
  by_config("maxmemory", "maxmemory",
            [](Loaded loaded) { return std::to_string(loaded.kv.maxmemory_bytes); });
  by_config("maxmemory-policy", "maxmemory-policy",
            [](Loaded loaded) { return std::string(kv::to_string(loaded.kv.eviction)); });
  by_config("client-output-buffer-limit", "client-output-buffer-limit",
            [](Loaded loaded) { return kv::to_string(loaded.kv.output_limits); });
  by_config("client-query-buffer-limit", "client-query-buffer-limit",
            [](Loaded loaded) { return std::to_string(loaded.kv.query_buffer_bytes); });
  by_config("requirepass", "requirepass", [](Loaded loaded) { return loaded.kv.requirepass; });
  by_config("protected-mode", "protected-mode",
            [](Loaded loaded) { return loaded.protected_mode; });
  by_config("slowlog-log-slower-than", "slowlog-log-slower-than", [](Loaded loaded) {
    return std::to_string(loaded.kv.slowlog_log_slower_than_us);
  });
  by_config("slowlog-max-len", "slowlog-max-len",
            [](Loaded loaded) { return std::to_string(loaded.kv.slowlog_max_len); });
  by_config("max-connections", "maxclients",
            [](Loaded loaded) { return std::to_string(loaded.options().server.max_connections); });
  by_config("idle-timeout", "timeout", [](Loaded loaded) {
    return std::to_string(std::llround(loaded.options().server.idle_timeout.seconds()));
  });
  reloader.can_apply("log-slow", [&server](const ServeProgram& loaded) -> Status {
    server.set_log_slow(loaded.options().log.slow_threshold());
    return Done{};
  });
}

void serve_tls(KvCommand& command, Reloader& reloader) {
  TlsServer& server = *command.tls_server;
  ServingOptions& serving = command.options().serving;
  reload_tls(reloader, server, [](const ServeProgram& loaded) -> const TlsOptions& {
    return static_cast<const KvCommand&>(loaded).tls;
  });
  if (command.tls.on_metrics()) serving.metrics_tls = &server;
  serving.more_metrics = [&server, others = serving.more_metrics](OpenMetrics& out) {
    if (others) others(out);
    expose(out, server.stats());
  };
}

void attend_datagrams(ServingOptions& serving, KvDatagrams& datagrams) {
  serving.each_second = [&datagrams] { datagrams.look_at_link(); };
  serving.more_metrics = [&datagrams, others = serving.more_metrics](OpenMetrics& out) {
    if (others) others(out);
    datagrams.expose(out);
  };
}

int KvCommand::serve(Reloader& reloader) {
  KvCommand& command = *this;
  auto best_effort = prepare_best_effort(options().cores);
  if (!best_effort.ok()) {
    return refuse(*this, kBadArguments, option_error(best_effort.error()).message);
  }
  options().serving.best_effort = best_effort->get();
  const auto opened = open_admission(command);
  if (!opened.ok()) return refuse(*this, kBadArguments, option_error(opened.error()).message);
  rpc::AdmissionController* const admission = opened.value().get();
  share_options(command);
  // Before the engine, which has threads.
  auto wires = KvDatagrams::open(datagrams, options());
  if (!wires.ok()) return refuse(*this, kFailed, wires.error());
  if (datagrams.any()) {
    if (Status given = give_up_wire_capabilities(datagrams.wire); !given.ok()) {
      return refuse(*this, kFailed, given.error());
    }
  }
  auto engine = open_engine(command);
  if (!engine.ok()) return refuse(*this, kFailed, engine.error());
  kv::KvApplication application(**engine, kv, admission);
  auto datapath = TcpDatapath::open(options().tcp, application);
  if (!datapath.ok()) return refuse(*this, kFailed, datapath.error());
  const std::unique_ptr<KvDatagrams> udp = std::move(*wires);
  if (Status attached = udp->attach(options(), application.server(), admission);
      !attached.ok()) {
    return refuse(*this, kFailed, attached.error());
  }
  auto joint = JointDatapath::open(**datapath, udp->datapaths());
  if (!joint.ok()) return refuse(*this, kFailed, joint.error());
  // Alone, TCP has a proxy poller for parked cores.
  Datapath& all = datagrams.any() ? static_cast<Datapath&>(**joint) : **datapath;
  const AdmissionInService in_service(admission, all, options());
  if (datagrams.any()) attend_datagrams(options().serving, *udp);
  auto runtime = Runtime::create(options().runtime, all, application);
  if (!runtime.ok()) return refuse(*this, kBadArguments, option_error(runtime.error()).message);
  RequestFeed requests((*runtime)->request_rings());
  const auto recorders = start_recorders(options(), **runtime, requests, reloader);
  if (!recorders.ok()) return refuse(*this, kFailed, recorders.error());
  kv::KvServices services(**runtime, **datapath, udp->rpc(), all, application, best_effort->get(),
                          admission, options().serving.recorders);
  application.server().set_log_slow(options().log.slow_threshold());
  apply_live(reloader, application.server());
  reload_scheduler(reloader, **runtime);
  if (tls_server != nullptr) serve_tls(command, reloader);
  const auto otlp = open_otlp(*this, options().serving, requests);
  if (!otlp.ok()) return refuse(*this, kFailed, otlp.error());
  options().serving.announcement = announcement(command, **datapath, *udp);
  options().serving.trouble = [&store = **engine] {
    const std::string why = store.refusing();
    return why.empty() ? why : "writes fail: " + why;
  };
  tell_what_is_kept(command);
  warn_of_copies(options(), **datapath);
  warn_of_open_door(command);
  warn_of_closed_door(command, application.server().config());
  limit_connections(command, **datapath, application.server());
  auto served = serve_until_signal(**runtime, all, options().serving);
  return served.ok() ? *served : refuse(*this, kFailed, served.error());
}

// The units are those of CONFIG SET maxmemory.
Status read_bytes(const std::string& text, uint64_t low, const char* least, uint64_t& bytes) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  uint64_t read = 0;
  if (!kv::parse_memory(text, read) || read > kMost || read < low) {
    return Error{std::string("takes bytes, as 512mb or 1gb, ") + least + "; not '" + text + "'"};
  }
  bytes = read;
  return Done{};
}

void add_memory_options(CommandLine& command, kv::KvOptions& kv) {
  command
      .add_parsed("--maxmemory", "BYTES",
                  [&kv](const std::string& text) {
                    return read_bytes(text, 0, "or 0 for no limit", kv.maxmemory_bytes);
                  },
                  "Memory at most of data and clients (1gb, 512mb, ...); 0 = no limit. memory "
                  "engine: writes beyond fail; rocksdb, 32mb at least: caches fit themselves to "
                  "it")
      .default_text("0");
  command
      .add_parsed("--maxmemory-policy", "NAME",
                  [&kv](const std::string& text) {
                    const Result<kv::Eviction> eviction = kv::parse_eviction(text);
                    if (!eviction.ok()) return Status(Error{eviction.error()});
                    kv.eviction = eviction.value();
                    return Status(Done{});
                  },
                  "What a write does at --maxmemory: noeviction = it fails; allkeys-lru = it "
                  "removes keys that were not used for long; volatile-ttl = it removes the keys "
                  "that expire first")
      .default_text("noeviction");
  command
      .add_parsed("--client-output-buffer-limit", "LIMITS",
                  [&kv](const std::string& text) {
                    const auto limits = kv::parse_output_limits(text);
                    if (!limits.ok()) return Status(Error{limits.error()});
                    kv.output_limits = limits.value();
                    return Status(Done{});
                  },
                  "'normal HARD SOFT SECONDS': a client is closed that leaves HARD bytes of "
                  "replies unread, or SOFT bytes for so long; 0 = no limit")
      .default_text("normal 1gb 0 0");
  command
      .add_parsed("--client-query-buffer-limit", "BYTES",
                  [&kv](const std::string& text) {
                    return read_bytes(text, kv::kMinQueryBufferBytes, "1mb at least",
                                      kv.query_buffer_bytes);
                  },
                  "A client is closed that has sent so many bytes of a request which is not whole")
      .default_text("1gb");
}

void add_kv_options(CommandLine& command, KvCommand& kv) {
  command.add_choice("--engine", kv.kv.engine, {"rocksdb", "memory"},
                     "Where data lives: rocksdb (on disk) or memory");
  command.add_text("--dir", kv.kv.dir, "Data folder of the rocksdb engine");
  command.add_choice("--durability", kv.durability, {"sync", "async"},
                     "rocksdb: sync = a write is on disk before it is acknowledged; async = it is "
                     "with the kernel, which survives a crash of the server but not of the "
                     "machine");
  command.add_flag("--recover", kv.kv.recover,
                   "rocksdb: go on although the log is damaged, without what cannot be read, and "
                   "say on standard error what that loses; else the server does not start then");
  add_memory_options(command, kv.kv);
  command.add_text("--requirepass", kv.kv.requirepass, "Password that clients must give (AUTH)");
  command.add_choice("--protected-mode", kv.protected_mode, {"yes", "no"},
                     "yes = while no password is set, clients of other machines are refused; no = "
                     "they are served like any other");
  command.add_choice("--enable-debug-command", kv.debug_command, {"no", "local", "yes"},
                     "Who may use DEBUG: nobody, clients of this machine, or all");
  command
      .add_integer("--memcached-port", kv.memcached_port, 0, 65535,
                   "Port that speaks memcached's text protocol; 0 = any free one; none by default")
      .default_text("");
  command
      .add_integer("--rpc-port", kv.rpc_port, 0, 65535,
                   "Port that speaks Rubato RPC, whose clients have credits, with RESP commands "
                   "for bodies: while their requests wait for longer than --target-delay there are "
                   "fewer, and from twice that on they are rejected; 0 = any free one; none by "
                   "default")
      .default_text("");
  add_kv_datagram_options(command, kv.datagrams);
  add_tls_options(command, kv.tls);
  command.add_choice("--overload-reply", kv.overload_reply, {"overloaded", "throttled"},
                     "Code of a refusal: overloaded (-OVERLOADED) or throttled (-THROTTLED)");
  command.add_integer("--slowlog-log-slower-than", kv.kv.slowlog_log_slower_than_us, -1,
                      kMaxSlowUs,
                      "SLOWLOG takes requests whose wait + service is at least so many us; "
                      "-1 = off");
  command.add_integer("--slowlog-max-len", kv.kv.slowlog_max_len, 0, kMaxSlowEntries,
                      "Entries that SLOWLOG keeps");
}

void KvCommand::declare(CommandLine& command) {
  add_serve_options(command, options());
  add_kv_options(command, *this);
}

void add_kv(CommandLine& command) {
  auto kv = std::make_shared<KvCommand>();
  kv->declare(command);
  command.action([command, kv]() mutable { return run_program(command, *kv); });
}

const Command kKv({"serve", "kv", "Serve keys and values over RESP (Redis clients)", add_kv});

}  // namespace
}  // namespace rubato::cli
