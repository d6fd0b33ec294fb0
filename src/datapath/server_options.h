// SPDX-License-Identifier: Apache-2.0
//
// ServerOptions: the options of a server for its ports, its clients and their bytes, beside those
// of its scheduler (sched/options.h), and written once in the same way. A plain value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/option_info.h"
#include "base/time.h"

namespace rubato {

enum class Transport : uint8_t { kTcp, kLoopback };

inline constexpr std::array kTransportChoices{
    OptionChoice{"tcp", "kernel sockets"},
    OptionChoice{"loopback", "in this process, for tests"},
};
constexpr std::span<const OptionChoice> choices_of(Transport) { return kTransportChoices; }

struct ServerOptions {
  static constexpr const char* kName = "the server";
  using Config = ServerOptions;

  Transport transport = Transport::kTcp;
  std::string bind = "127.0.0.1";
  uint32_t port = 0;
  uint32_t max_connections = 10000;
  Nanos idle_timeout;
  bool incoming_cpu = false;
  Nanos busy_poll;
  size_t zerocopy_above = 0;
  size_t max_request_bytes = size_t{16} << 20;
  size_t max_reply_bytes = size_t{256} << 20;
  std::string metrics_bind = "127.0.0.1";
  int32_t metrics_port = -1;
  bool handle_signals = false;
  Nanos rpc_target_delay = Nanos::millis(1);
  uint32_t sessions_per_address = 0;
  std::string agent_bind = "127.0.0.1";
  int32_t agent_port = -1;
  std::string trace_file;
  uint32_t trace_events = 100'000;
  std::string record_file;
  size_t record_limit_bytes = size_t{1} << 30;
  std::string profile_file;
  Nanos profile_for;

  template <class V>
  static void visit(ServerOptions& o, V&& v);

 private:
  static constexpr OptionHosts kLive = kServe | kLibrary;
  static constexpr double kGiB = 1 << 30;

  template <class V>
  static void visit_connections(ServerOptions& o, V& v);
  // Those of what is recorded.
  template <class V>
  static void visit_files(ServerOptions& o, V& v);
};

template <class V>
void ServerOptions::visit_connections(ServerOptions& o, V& v) {
  v(OptionInfo{"max_connections", "", 1, 1e6,
               "connections at most, fewer where the system allows no more; what comes beyond is "
               "closed and counted",
               kLive},
    o.max_connections);
  v(OptionInfo{"idle_timeout", "s", 0, 2147483648.0,
               "connections are closed that have been idle for so long; 0 = never", kLive},
    o.idle_timeout);
  v(OptionInfo{"incoming_cpu", "", 0, 1,
               "a connection goes to the worker on whose CPU its first packet was received, where "
               "there is one, and not to any (SO_INCOMING_CPU); needs `pin`",
               kServe},
    o.incoming_cpu);
  v(OptionInfo{"busy_poll", "us", 0, 1000,
               "how long a worker that would sleep looks at the card's queue instead of waiting "
               "for its interrupt, over TCP (Linux 6.9) and AF_XDP (SO_BUSY_POLL, CAP_NET_ADMIN); "
               "0 = as net.core.busy_poll says",
               kServe},
    o.busy_poll);
  v(OptionInfo{"zerocopy_above", "B", 0, kGiB,
               "the kernel sends replies over TCP of so many bytes or more from where they are, "
               "without a copy, where the card can (MSG_ZEROCOPY, 16KiB is a good value; not with "
               "TLS); 0 = it copies",
               kServe},
    o.zerocopy_above);
}

template <class V>
void ServerOptions::visit(ServerOptions& o, V&& v) {
  constexpr double kMostPort = 65535;
  v(OptionInfo{"transport", "", 0, 0, "where requests come from", kLibrary}, o.transport);
  v(OptionInfo{"bind", "", 0, 0, "address or host name to listen on; * = all addresses", kLive},
    o.bind);
  v(OptionInfo{"port", "", 0, kMostPort, "TCP port; 0 = any free one", kLive}, o.port);
  visit_connections(o, v);
  v(OptionInfo{"max_request", "B", 1, kGiB,
               "a larger request is refused, and its connection closed", kLibrary},
    o.max_request_bytes);
  v(OptionInfo{"max_reply", "B", 1, kGiB,
               "replies that wait to be read by one client; with more its connection is closed",
               kLibrary},
    o.max_reply_bytes);
  v(OptionInfo{"metrics_bind", "", 0, 0, "address of the metrics port", kLive}, o.metrics_bind);
  v(OptionInfo{"metrics_port", "", -1, kMostPort,
               "port of /metrics, /state, /plan, /healthz and /readyz; 0 = any free one", kLive},
    o.metrics_port);
  v(OptionInfo{"handle_signals", "", 0, 1,
               "SIGTERM and SIGINT stop the server, a second one at once; those that would end the "
               "process but have no handler, SIGHUP, SIGUSR1, SIGUSR2 and SIGPIPE, do no harm",
               kLibrary},
    o.handle_signals);
  v(OptionInfo{"rpc_target_delay", "ms", 0.001, 6e4,
               "in place of target_delay, with RPC framing: while requests wait for longer there "
               "are fewer credits, from twice that on they are refused",
               kLibrary},
    o.rpc_target_delay);
  v(OptionInfo{"agent_bind", "", 0, 0, "address of the agent port", kLive}, o.agent_bind);
  v(OptionInfo{"agent_port", "", -1, kMostPort,
               "port that tells load balancers the server's weight, by HAProxy's agent-check; 0 = "
               "any free one",
               kLive},
    o.agent_port);
  v(OptionInfo{"sessions_per_address", "", 0, 1e6,
               "RPC sessions at most from one client address; 0 = as many as max_connections",
               kLive},
    o.sessions_per_address);
  visit_files(o, v);
}

template <class V>
void ServerOptions::visit_files(ServerOptions& o, V& v) {
  constexpr double kMiB = 1 << 20;
  v(OptionInfo{"trace_file", "", 0, 0,
               "file of a trace of what the workers do, for Perfetto, from the start; empty = none",
               kLibrary},
    o.trace_file);
  v(OptionInfo{"trace_events", "", 1, 1e9, "events at which a trace ends, at some 90 bytes each",
               kLibrary},
    o.trace_events);
  v(OptionInfo{"record_file", "", 0, 0,
               "file of every request, for `rubato sim --workload trace:FILE`, from the start; "
               "empty = none",
               kLibrary},
    o.record_file);
  v(OptionInfo{"record_limit", "B", kMiB, 1024 * kGiB,
               "size at which a recording ends, at some 10 bytes a request", kLibrary},
    o.record_limit_bytes);
  v(OptionInfo{"profile_file", "", 0, 0,
               "file of a profile of the requests, for `rubato sim --workload profile:FILE`, every "
               "10 s and at the end; empty = none",
               kLibrary},
    o.profile_file);
  v(OptionInfo{"profile_for", "s", 0, 1e6,
               "how long the profile counts, from the first request on; 0 = until the end",
               kLibrary},
    o.profile_for);
}

}  // namespace rubato
