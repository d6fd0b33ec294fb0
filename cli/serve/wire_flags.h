// SPDX-License-Identifier: Apache-2.0
//
// Options of servers that receive datagrams, and of a load that sends them: what moves them. Main
// thread, at start.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "cli/common/command_line.h"
#include "cli/serve/serve_flags.h"
#include "datapath/datagram.h"

namespace rubato::cli {

struct WireOptions {
  std::string datapath;     // as given; empty = kernel
  uint32_t udp_batch = 0;  // datagrams per system call; 0 = not given
  std::string dpdk_arguments;  // of DPDK's environment
  Nanos dpdk_nap{-1};          // of idle workers; 0 = they look all the time, -1 = not given
  bool keeps_order = false;    // of each client's datagrams

  // Not of sockets of the kernel, of which there may be any number.
  bool takes_interface() const;
  bool over_xdp() const;
  // Of af_xdp:IFACE; else empty.
  std::string interface() const;
  bool over_dpdk() const;
};

// What servers and loads have of them, and what servers have besides.
void add_datapath_options(CommandLine& command, WireOptions& options);
void add_wire_options(CommandLine& command, WireOptions& options);

// `datagrams`: they are in use, by the option that `needs` names. Fails with one line
// where it does not, or for a datapath that does not exist here.
Status check_wire_options(bool datagrams, const WireOptions& options, const char* needs);
// The same for --keep-order, where `independent`: each datagram is a request.
Status check_order(bool independent, const WireOptions& options, const char* needs);

struct WireAddress {
  std::string bind;     // of this side
  uint16_t port = 0;    // the first; 0 = any free one
  uint16_t ports = 1;   // in a row; 1 where sockets of the kernel move datagrams
  uint32_t queues = 1;  // workers
  Nanos busy_poll = Nanos();  // of AF_XDP, see XdpWireOptions
};

// The wire for that address. Fails with one line.
Result<std::unique_ptr<DatagramWire>> open_wire(const WireOptions& options,
                                                const WireAddress& address);
// For the server's address and workers.
Result<std::unique_ptr<DatagramWire>> open_wire(const WireOptions& options,
                                                const ServeOptions& serve, uint16_t port);

// Gives up the capabilities that opening wires took, before the process has other threads. With
// DPDK none: its drivers undo at the end what they did (net_af_xdp detaches its XDP program). Fails
// with one line where the kernel refuses.
Status give_up_wire_capabilities(const WireOptions& options);

}  // namespace rubato::cli
