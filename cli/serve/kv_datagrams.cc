// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/kv_datagrams.h"

#include <fmt/format.h>

#include <utility>

#include "datapath/datagram_exposition.h"
#include "rpc/exposition.h"

namespace rubato::cli {
namespace {

constexpr uint32_t kMostPort = 65535;
// Connections do not come so far.
constexpr uint64_t kFirstUdpFlow = uint64_t{1} << 40;

}  // namespace

void add_kv_datagram_options(CommandLine& command, KvDatagramOptions& options) {
  command
      .add_integer("--memcached-udp-port", options.memcached_port, 0, kMostPort,
                   "UDP port that speaks memcached's text protocol (docs/DATAPATHS.md), for "
                   "networks where nobody forges addresses; 0 = any free one; none by default")
      .default_text("");
  command
      .add_integer("--rpc-udp-port", options.rpc_port, 0, kMostPort,
                   "UDP port that speaks Rubato RPC, as --rpc-port does over TCP; 0 = any free "
                   "one; none by default")
      .default_text("");
  add_wire_options(command, options.wire);
}

Status check_kv_datagrams(const KvDatagramOptions& options, const ServeOptions& serve) {
  Status good = check_wire_options(options.any(), options.wire,
                                   "--memcached-udp-port or --rpc-udp-port");
  if (good.ok()) {
    good = check_order(options.memcached_port >= 0, options.wire, "--memcached-udp-port");
  }
  if (!good.ok()) return good;
  if (options.any() && !serve.handover.empty()) {
    return Error{"--handover: is for TCP, not for --memcached-udp-port or --rpc-udp-port"};
  }
  if (options.memcached_port < 0 || options.rpc_port < 0) return Done{};
  if (options.memcached_port > 0 && options.memcached_port == options.rpc_port) {
    return Error{fmt::format("--rpc-udp-port: takes another port than --memcached-udp-port, {}",
                             options.rpc_port)};
  }
  if (options.wire.takes_interface()) {
    return Error{"--datapath: an interface has one UDP port, --memcached-udp-port or "
                 "--rpc-udp-port"};
  }
  return Done{};
}

Result<std::unique_ptr<KvDatagrams>> KvDatagrams::open(const KvDatagramOptions& options,
                                                       const ServeOptions& serve) {
  std::unique_ptr<KvDatagrams> opened(new KvDatagrams());
  opened->keeps_order_ = options.wire.keeps_order;
  const auto open_port = [&](int port, std::unique_ptr<DatagramWire>& to) -> Status {
    if (port < 0) return Done{};
    auto wire = open_wire(options.wire, serve, static_cast<uint16_t>(port));
    if (!wire.ok()) return Error{wire.error()};
    to = std::move(*wire);
    return Done{};
  };
  Status status = open_port(options.memcached_port, opened->memcached_wire_);
  if (status.ok()) status = open_port(options.rpc_port, opened->rpc_wire_);
  if (!status.ok()) return Error{status.error()};
  return opened;
}

Status KvDatagrams::attach(const ServeOptions& serve, kv::Server& server,
                           rpc::AdmissionController* admission) {
  Status status = Done{};
  if (memcached_wire_ != nullptr) status = attach_memcached(server);
  if (status.ok() && rpc_wire_ != nullptr) status = attach_rpc(serve, server, *admission);
  return status;
}

Status KvDatagrams::attach_memcached(kv::Server& server) {
  memcached_port_ = std::make_unique<kv::MemcachedDatagramPort>(server, keeps_order_);
  auto datapath =
      DatagramDatapath::open(std::move(memcached_wire_), *memcached_port_, *memcached_port_);
  if (!datapath.ok()) return Error{datapath.error()};
  memcached_ = std::move(*datapath);
  return Done{};
}

Status KvDatagrams::attach_rpc(const ServeOptions& serve, kv::Server& server,
                               rpc::AdmissionController& admission) {
  rpc::UdpOptions udp;
  udp.max_flows = serve.tcp.max_flows;
  udp.idle_timeout = serve.tcp.idle_timeout;
  udp.first_flow = kFirstUdpFlow;
  udp.limits = serve.tcp.limits;
  rpc_port_ = std::make_unique<kv::RpcDatagramPort>(server, admission);
  auto datapath = rpc::UdpDatapath::open(std::move(rpc_wire_), udp, *rpc_port_);
  if (!datapath.ok()) return Error{datapath.error()};
  rpc_ = std::move(*datapath);
  return Done{};
}

std::vector<Datapath*> KvDatagrams::datapaths() const {
  std::vector<Datapath*> all;
  if (memcached_ != nullptr) all.push_back(memcached_.get());
  if (rpc_ != nullptr) all.push_back(rpc_.get());
  return all;
}

void KvDatagrams::expose(OpenMetrics& out) const {
  DatagramDrops wires;
  if (memcached_ != nullptr) wires += memcached_->wire().drops();
  if (rpc_ != nullptr) wires += rpc_->wire().drops();
  rubato::expose(out, wires, memcached_ != nullptr ? memcached_->drops()
                                                   : DatagramDatapath::Drops{});
  if (rpc_ != nullptr) rpc::expose(out, rpc_->drops());
}

void KvDatagrams::look_at_link() {
  if (memcached_ != nullptr) memcached_->wire().look_at_link();
  if (rpc_ != nullptr) rpc_->wire().look_at_link();
}

std::string KvDatagrams::announcement(const std::string& bind) const {
  const auto line = [&](const char* protocol, const DatagramWire& wire) {
    return fmt::format("\n{} over {} on {}:{}", protocol, wire.describe(), bind, wire.port());
  };
  std::string text;
  if (memcached_ != nullptr) text += line("memcached's text protocol", memcached_->wire());
  if (rpc_ != nullptr) text += line("Rubato RPC", rpc_->wire());
  return text;
}

}  // namespace rubato::cli
