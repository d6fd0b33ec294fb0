// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/wire_flags.h"

#include <string_view>

#include "cli/common/value_flags.h"
#include "datapath/udp_wire.h"
#include "xdp/wire.h"

namespace rubato::cli {
namespace {

constexpr const char* kKernel = "kernel";
constexpr std::string_view kXdp = "af_xdp:";

}  // namespace

void add_wire_options(CommandLine& command, WireOptions& options) {
  command
      .add_text("--datapath", options.datapath,
                "What receives and sends datagrams: kernel, its sockets; af_xdp:IFACE, the driver "
                "of that interface (docs/DATAPATHS.md)")
      .placeholder("kernel|af_xdp:IFACE")
      .default_text(kKernel);
  add_count(command, "--udp-batch", options.udp_batch, 1, UdpWireOptions::kMostBatch, "datagrams",
            "Datagrams per system call of --datapath kernel; 1 = each by its own, without GRO and "
            "GSO")
      .default_text("32");
}

bool WireOptions::takes_interface() const { return !datapath.empty() && datapath != kKernel; }

Status check_wire_options(bool datagrams, const WireOptions& options, const char* needs) {
  if (!datagrams && options.given()) {
    return Error{std::string(options.udp_batch > 0 ? "--udp-batch" : "--datapath") +
                 ": needs " + needs};
  }
  if (options.datapath.empty() || options.datapath == kKernel) return Done{};
  if (!options.datapath.starts_with(kXdp) || options.datapath == kXdp) {
    return Error{"--datapath: '" + options.datapath + "' is not kernel or af_xdp:IFACE"};
  }
  if (options.udp_batch > 0) return Error{"--udp-batch: is for --datapath kernel"};
  return Done{};
}

Result<std::unique_ptr<DatagramWire>> open_wire(const WireOptions& options,
                                                const ServeOptions& serve, uint16_t port) {
  if (options.datapath.starts_with(kXdp)) {
    return open_xdp_wire({.interface = options.datapath.substr(kXdp.size()),
                          .bind = serve.tcp.bind,
                          .port = port,
                          .queues = serve.tcp.queues});
  }
  UdpWireOptions udp;
  udp.bind = serve.tcp.bind;
  udp.port = port;
  udp.queues = serve.tcp.queues;
  if (options.udp_batch > 0) udp.batch = options.udp_batch;
  auto wire = UdpWire::open(udp);
  if (!wire.ok()) return Error{wire.error()};
  return std::unique_ptr<DatagramWire>(std::move(*wire));
}

}  // namespace rubato::cli
