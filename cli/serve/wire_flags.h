// SPDX-License-Identifier: Apache-2.0
//
// Options of servers that receive datagrams: what moves them. Main thread, at start.
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
};

void add_wire_options(CommandLine& command, WireOptions& options);

// `datagrams`: the server receives them, by the option that `needs` names. Fails with one line
// where it does not, or for a datapath that does not exist here.
Status check_wire_options(bool datagrams, const WireOptions& options, const char* needs);
// The same for --keep-order, where `independent`: each datagram is a request.
Status check_order(bool independent, const WireOptions& options, const char* needs);

// The wire for the server's address and workers; 0 = any free port. Fails with one line.
Result<std::unique_ptr<DatagramWire>> open_wire(const WireOptions& options,
                                                const ServeOptions& serve, uint16_t port);

// Gives up the capabilities that opening wires took, before the process has other threads. With
// DPDK none: its drivers undo at the end what they did (net_af_xdp detaches its XDP program). Fails
// with one line where the kernel refuses.
Status give_up_wire_capabilities(const WireOptions& options);

}  // namespace rubato::cli
