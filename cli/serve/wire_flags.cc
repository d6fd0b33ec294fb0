// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/wire_flags.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

#include "cli/common/value_flags.h"
#include "datapath/udp_wire.h"
#include "dpdk/load.h"
#include "process/capabilities.h"
#include "xdp/wire.h"

namespace rubato::cli {
namespace {

constexpr const char* kKernel = "kernel";
constexpr std::string_view kXdp = "af_xdp:";
constexpr std::string_view kDpdk = "dpdk:";

// The first option that is given and is not for this datapath; empty = none.
std::string out_of_place(const WireOptions& options, bool datagrams, bool kernel, bool dpdk) {
  if (!datagrams && !options.datapath.empty()) return "--datapath";
  if (!kernel && options.udp_batch > 0) return "--udp-batch";
  if (!dpdk && !options.dpdk_arguments.empty()) return "--dpdk-args";
  if (!dpdk && options.dpdk_nap >= Nanos()) return "--dpdk-nap";
  return "";
}

// With these the EAL prints something and may end the program. getopt_long(3) takes any beginning
// of a name that no other name has.
bool asks_for_text(std::string_view word) {
  if (word.starts_with("--h")) return std::string_view("--help").starts_with(word);
  return word.starts_with("-h") || word.starts_with("-v");
}

Status check_dpdk_arguments(const std::string& arguments) {
  std::istringstream words(arguments);
  for (std::string word; words >> word;) {
    if (!asks_for_text(word)) continue;
    return Error{"--dpdk-args: '" + word + "' starts no environment (EAL); `dpdk-testpmd --help` "
                 "lists its arguments"};
  }
  return Done{};
}

}  // namespace

void add_datapath_options(CommandLine& command, WireOptions& options) {
  command
      .add_text("--datapath", options.datapath,
                "What receives and sends datagrams: kernel, its sockets, the default; "
                "af_xdp:IFACE, the driver of that interface; dpdk:PORT, a port of DPDK by number "
                "or name (docs/DATAPATHS.md)")
      .placeholder("kernel|af_xdp:IFACE|dpdk:PORT")
      .default_text("");
  command
      .add_text("--dpdk-args", options.dpdk_arguments,
                "Arguments of DPDK's environment (EAL) for --datapath dpdk, as in "
                "--dpdk-args='--no-huge -m 256 --vdev=net_tap0'")
      .placeholder("ARGS");
}

void add_wire_options(CommandLine& command, WireOptions& options) {
  add_datapath_options(command, options);
  add_count(command, "--udp-batch", options.udp_batch, 1, UdpWireOptions::kMostBatch, "datagrams",
            "Datagrams per system call of --datapath kernel, 32 unless given; 1 = each by its own, "
            "without GRO and GSO")
      .default_text("");
  add_micros(command, "--dpdk-nap", options.dpdk_nap,
             "How long an idle worker of --datapath dpdk sleeps between its looks; 0, the default, "
             "= not at all, so that its CPU is always busy",
             "");
  command.add_flag("--keep-order", options.keeps_order,
                   "Run the datagrams of each client one after the other, as they came, and send "
                   "each reply before the next one runs; else they are independent");
}

Status check_order(bool independent, const WireOptions& options, const char* needs) {
  if (independent || !options.keeps_order) return Done{};
  return Error{std::string("--keep-order: needs ") + needs};
}

bool WireOptions::takes_interface() const { return !datapath.empty() && datapath != kKernel; }

bool WireOptions::over_xdp() const { return datapath.starts_with(kXdp); }

bool WireOptions::over_dpdk() const { return datapath.starts_with(kDpdk); }

std::string WireOptions::interface() const {
  return over_xdp() ? datapath.substr(kXdp.size()) : "";
}

Status check_wire_options(bool datagrams, const WireOptions& options, const char* needs) {
  const std::string& datapath = options.datapath;
  const bool kernel = datapath.empty() || datapath == kKernel;
  const bool dpdk = datapath.starts_with(kDpdk) && datapath != kDpdk;
  const bool xdp = datapath.starts_with(kXdp) && datapath != kXdp;
  const std::string wrong =
      out_of_place(options, datagrams, datagrams && kernel, datagrams && dpdk);
  if (!wrong.empty() && !datagrams) return Error{wrong + ": needs " + needs};
  if (!kernel && !dpdk && !xdp) {
    return Error{"--datapath: '" + datapath + "' is not kernel, af_xdp:IFACE or dpdk:PORT"};
  }
  if (wrong.empty()) return check_dpdk_arguments(options.dpdk_arguments);
  return Error{wrong + ": is for --datapath " + (wrong == "--udp-batch" ? kKernel : "dpdk:PORT")};
}

Result<std::unique_ptr<DatagramWire>> open_wire(const WireOptions& options,
                                                const WireAddress& address) {
  if (options.over_xdp()) {
    return open_xdp_wire({.interface = options.interface(),
                          .bind = address.bind,
                          .port = address.port,
                          .queues = address.queues,
                          .ports = address.ports,
                          .busy_poll = address.busy_poll});
  }
  if (options.over_dpdk()) {
    return open_dpdk_wire({.port = options.datapath.substr(kDpdk.size()),
                           .arguments = options.dpdk_arguments,
                           .bind = address.bind,
                           .udp_port = address.port,
                           .udp_ports = address.ports,
                           .queues = address.queues,
                           .nap = std::max(options.dpdk_nap, Nanos())});
  }
  UdpWireOptions udp;
  udp.bind = address.bind;
  udp.port = address.port;
  udp.queues = address.queues;
  if (options.udp_batch > 0) udp.batch = options.udp_batch;
  auto wire = UdpWire::open(udp);
  if (!wire.ok()) return Error{wire.error()};
  return std::unique_ptr<DatagramWire>(std::move(*wire));
}

Result<std::unique_ptr<DatagramWire>> open_wire(const WireOptions& options,
                                                const ServeOptions& serve, uint16_t port) {
  return open_wire(options, {.bind = serve.tcp.bind,
                             .port = port,
                             .queues = serve.tcp.queues,
                             .busy_poll = serve.server.busy_poll});
}

Status give_up_wire_capabilities(const WireOptions& options) {
  if (options.over_dpdk()) return Done{};
  return give_up_datapath_capabilities();
}

}  // namespace rubato::cli
