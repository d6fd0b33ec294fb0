// SPDX-License-Identifier: Apache-2.0
//
// XdpWire: the datagram wire of AF_XDP sockets (datapath/datagram.h), for one interface and one UDP
// port, or several in a row. An XDP program (filter.bpf.c) takes the datagrams to them out of the
// driver's queues and gives each to the socket of a worker, by a table that steer_group() rewrites;
// the kernel keeps everything else. Each worker has a socket on each hardware queue, since a socket
// gets only frames of its own queue. xdp/frames.h says who owns a frame. A kernel socket reserves
// each port, and sends to peers whose Ethernet address is not known; what it gets, such as
// fragments, is counted and not served.
//
// The driver copies frames unless it can do without (zero copy); describe() says which. It takes
// CAP_NET_RAW for sockets, CAP_BPF and CAP_NET_ADMIN for the program, all at the start only.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "datapath/datagram.h"

namespace rubato {

struct XdpWireOptions {
  std::string interface;
  std::string bind;    // an address of the interface
  uint16_t port = 0;   // the first; 0 = any free one
  uint32_t queues = 1;  // workers
  uint16_t ports = 1;  // from the first one on, 1 or more
  // A worker that would sleep looks so long at the card first; zero = not. Takes CAP_NET_ADMIN, and
  // a driver that runs the XDP program itself.
  Nanos busy_poll = Nanos();
};

// Fails with one line: where this build has no AF_XDP, or for what the system does not allow.
Result<std::unique_ptr<DatagramWire>> open_xdp_wire(const XdpWireOptions& options);

// A build with AF_XDP.
bool has_xdp();

}  // namespace rubato
