// SPDX-License-Identifier: Apache-2.0
#include "serve_rpc.h"

#include <CLI/CLI.hpp>

#include "cli/options.h"
#include "rpc/exposition.h"

namespace rubato::cli {

void add_rpc_options(CLI::App& command, RpcServeOptions& options) {
  command.add_option("--rpc", options.transport,
                     "Speak Rubato RPC, whose clients have credits, over tcp or udp: while "
                     "requests wait for longer than --target-delay there are fewer, and from twice "
                     "that on they are rejected")
      ->check(CLI::IsMember({"tcp", "udp"}));
}

void add_session_options(CLI::App& command, ServeOptions& options) {
  command.add_option("--sessions-per-address", options.sessions_per_address,
                     "RPC sessions at most from one client address; 0 = as many as --maxclients")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
}

Status finish_rpc_options(const RpcServeOptions& options, const ServeOptions& serve) {
  if (options.spoken() && serve.runtime.shed) {
    return Error{"--overload: --rpc controls overload by itself, with --target-delay"};
  }
  if (!options.spoken() && serve.sessions_per_address > 0) {
    return Error{"--sessions-per-address: needs --rpc tcp or udp"};
  }
  return Done{};
}

rpc::AdmissionOptions admission_options(ServeOptions& serve) {
  rpc::encode(serve.tcp.over_limit_reply,
              {rpc::Kind::kError, 0, static_cast<uint32_t>(rpc::Fault::kSessions), 0,
               rpc::to_string(rpc::Fault::kSessions)});
  serve.tcp.date_backlog = true;
  rpc::AdmissionOptions admission;
  admission.credits.target_delay = serve.target_delay;
  admission.credits.drop_delay = admission.credits.target_delay * 2;  // CoreSync IV-A
  admission.workers = serve.runtime.workers;
  admission.max_sessions = serve.tcp.max_flows;
  admission.sessions_per_address = serve.sessions_per_address;
  admission.target_delay_long = serve.target_delay_long;
  return admission;
}

Result<RpcDatapath> open_rpc(const RpcServeOptions& options, const ServeOptions& serve,
                             Protocol& protocol) {
  RpcDatapath opened;
  if (!options.over_udp()) {
    auto tcp = TcpDatapath::open(serve.tcp, protocol);
    if (!tcp.ok()) return Error{tcp.error()};
    opened.port = (*tcp)->port();
    opened.tcp = tcp->get();
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

AdmissionInService::AdmissionInService(rpc::AdmissionController* admission, Datapath& datapath,
                                       ServeOptions& options, const rpc::UdpDatapath* udp) {
  if (admission == nullptr) return;
  attached_.emplace(*admission, datapath);
  options.runtime.credits = admission;
  options.serving.more_metrics = [admission, udp](OpenMetrics& out) {
    rpc::expose(out, *admission);
    if (udp != nullptr) rpc::expose(out, udp->drops());
  };
}

}  // namespace rubato::cli
