// SPDX-License-Identifier: Apache-2.0
//
// UdpWire: the datagram wire of kernel sockets (datapath/datagram.h), one socket per queue on a
// shared port (SO_REUSEPORT). Datagrams are received by recvmmsg and sent by sendmmsg, `batch` at
// once; those that one peer sends in a row come and go as one (UDP GRO and GSO). Which queue gets a
// flow is in a table of the kernel that can be rewritten (datapath/udp_steering.h). What the system
// does not allow is left out, and describe() says so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "datapath/datagram.h"
#include "datapath/udp_steering.h"

namespace rubato {

struct UdpWireOptions {
  static constexpr uint32_t kMostBatch = 64;

  std::string bind = "127.0.0.1";  // address or host name; "*" = all addresses
  uint16_t port = 0;               // 0 = any free one
  uint32_t queues = 1;
  uint32_t batch = 32;   // datagrams per system call, 1 to kMostBatch; 1 = each by its own
  bool offload = true;   // GRO and GSO, where there are
  bool steering = true;  // the table, where it is allowed
};

class UdpWireQueue;

class UdpWire final : public DatagramWire {
 public:
  // Fails when the address does not resolve or is in use, with one line that names it.
  static Result<std::unique_ptr<UdpWire>> open(const UdpWireOptions& options);
  ~UdpWire() override;

  uint32_t queues() const override { return static_cast<uint32_t>(queues_.size()); }
  WireQueue& queue(WorkerId worker) override;
  uint16_t port() const override { return port_; }
  DatagramDrops drops() const override;
  std::string describe() const override;
  bool steer_group(uint32_t group, WorkerId to) override;
  WorkerId queue_of_group(uint32_t group) const override;

 private:
  UdpWire() = default;
  Status start(const UdpWireOptions& options);

  std::vector<std::unique_ptr<UdpWireQueue>> queues_;
  UdpSteering steering_;
  std::string no_steering_;  // why there is none
  size_t smaller_buffer_bytes_ = 0;  // of the receive buffers, where the system allowed no more
  uint32_t batch_ = 1;
  uint16_t port_ = 0;
};

}  // namespace rubato
