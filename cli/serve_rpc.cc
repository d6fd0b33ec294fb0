// SPDX-License-Identifier: Apache-2.0
#include "serve_rpc.h"

#include <CLI/CLI.hpp>

namespace rubato::cli {

void add_rpc_options(CLI::App& command, RpcServeOptions& options) {
  command.add_option("--rpc", options.transport,
                     "Speak Rubato RPC, whose clients have credits, over tcp or udp")
      ->check(CLI::IsMember({"tcp", "udp"}));
  command.add_option("--rpc-target-delay-us", options.target_delay_us,
                     "--rpc: while requests wait for longer there are fewer credits, and from "
                     "twice that on they are rejected")
      ->check(CLI::Range(1.0, 1e7))
      ->capture_default_str();
}

Status finish_rpc_options(const CLI::App& command, const RpcServeOptions& options) {
  if (!options.spoken() && command.get_option("--rpc-target-delay-us")->count() > 0) {
    return Error{"--rpc-target-delay-us: needs --rpc tcp or udp"};
  }
  return Done{};
}

rpc::DeskOptions desk_options(const RpcServeOptions& options, ServeOptions& serve) {
  rpc::encode(serve.tcp.over_limit_reply,
              {rpc::Kind::kError, 0, static_cast<uint32_t>(rpc::Fault::kSessions), 0,
               rpc::to_string(rpc::Fault::kSessions)});
  rpc::DeskOptions desk;
  desk.credits.target_delay = Nanos::from_micros(options.target_delay_us);
  desk.credits.drop_delay = desk.credits.target_delay * 2;  // CoreSync IV-A
  desk.workers = serve.runtime.workers;
  desk.max_sessions = serve.tcp.max_flows;
  return desk;
}

Result<RpcDatapath> open_rpc(const RpcServeOptions& options, const ServeOptions& serve,
                             Protocol& protocol) {
  RpcDatapath opened;
  if (!options.over_udp()) {
    auto tcp = TcpDatapath::open(serve.tcp, protocol);
    if (!tcp.ok()) return Error{tcp.error()};
    opened.port = (*tcp)->port();
    opened.datapath = std::move(*tcp);
    return opened;
  }
  rpc::UdpOptions udp;
  udp.bind = serve.tcp.bind;
  udp.port = serve.tcp.port;
  udp.queues = serve.tcp.queues;
  udp.max_flows = serve.tcp.max_flows;
  if (serve.tcp.idle_timeout > Nanos()) udp.idle_timeout = serve.tcp.idle_timeout;
  auto heard = rpc::UdpDatapath::open(udp, protocol);
  if (!heard.ok()) return Error{heard.error()};
  opened.udp = heard.value().get();
  opened.port = (*heard)->port();
  opened.datapath = std::move(*heard);
  return opened;
}

}  // namespace rubato::cli
