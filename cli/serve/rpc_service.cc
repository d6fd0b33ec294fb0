// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/rpc_service.h"

#include "datapath/datagram_exposition.h"
#include "overload/credit_options.h"
#include "rpc/exposition.h"

namespace rubato::cli {

void add_rpc_options(CommandLine& command, RpcServeOptions& options) {
  command.add_choice("--rpc", options.transport, {"tcp", "udp"},
                     "Speak Rubato RPC, whose clients have credits, over tcp or udp: while "
                     "requests wait for longer than --target-delay there are fewer, and from twice "
                     "that on they are rejected");
}

Status check_rpc_options(bool spoken, const char* needs, const ServeOptions& serve) {
  if (spoken) {
    const auto credits = overload::CreditOptions::read(serve.runtime.credits_settings,
                                                       serve.runtime.refusal_rule.target_delay);
    return credits.ok() ? Status(Done{}) : Status(option_error(credits.error()));
  }
  const std::string ends = std::string(" needs ") + needs;
  if (serve.runtime.overload == Overload::kCredits) return Error{"--overload: credits" + ends};
  if (!serve.runtime.credits_settings.empty()) return Error{"--credits-set:" + ends};
  if (serve.server.sessions_per_address > 0) return Error{"--sessions-per-address:" + ends};
  return Done{};
}

Result<rpc::AdmissionOptions> admission_options(ServeOptions& serve) {
  rpc::encode(serve.tcp.over_limit_reply,
              {rpc::Kind::kError, 0, static_cast<uint32_t>(rpc::Fault::kSessions), 0,
               rpc::to_string(rpc::Fault::kSessions)});
  serve.tcp.date_backlog = true;
  const overload::RefusalSettings& refusal_rule = serve.runtime.refusal_rule;
  const auto credits =
      overload::CreditOptions::read(serve.runtime.credits_settings, refusal_rule.target_delay);
  if (!credits.ok()) return Error{credits.error()};
  rpc::AdmissionOptions admission;
  admission.credits = credits.value();
  admission.workers = serve.runtime.workers;
  admission.max_sessions = serve.server.max_connections;
  admission.sessions_per_address = serve.server.sessions_per_address;
  admission.target_delay_long = refusal_rule.target_delay_long;
  return admission;
}

Result<RpcDatapath> open_rpc(const RpcServeOptions& options, const WireOptions& wire,
                             const ServeOptions& serve, Protocol& protocol) {
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
  udp.max_flows = serve.tcp.max_flows;
  udp.idle_timeout = serve.tcp.idle_timeout;
  auto opened_wire = open_wire(wire, serve, serve.tcp.port);
  if (!opened_wire.ok()) return Error{opened_wire.error()};
  auto heard = rpc::UdpDatapath::open(std::move(*opened_wire), udp, protocol);
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
    if (udp == nullptr) return;
    rpc::expose(out, udp->drops());
    expose(out, udp->wire().drops());
  };
}

}  // namespace rubato::cli
