// SPDX-License-Identifier: Apache-2.0
//
// The datagram wire of a DPDK port (datapath/datagram.h): the port, and all that comes in by it, is
// the server's. Requests lie in the mbufs that they arrived in. Each worker has a receive and a
// transmit queue as far as the port has them; dpdk/receiver.h and dpdk/queue.h say what is shared
// otherwise. No queue can sleep.
#pragma once

#include <memory>

#include "base/result.h"
#include "datapath/datagram.h"
#include "dpdk/plugin.h"

namespace rubato::dpdk {

// Starts the EAL if it does not run yet, and the port. Fails with one line.
Result<std::unique_ptr<DatagramWire>> open_wire(const DpdkWireOptions& options);

}  // namespace rubato::dpdk
