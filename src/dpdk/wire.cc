// SPDX-License-Identifier: Apache-2.0
#include "dpdk/wire.h"

#include <rte_version.h>

#include <string>
#include <vector>

#include "base/limits.h"
#include "datapath/datagram_address.h"
#include "datapath/tcp_socket.h"
#include "dpdk/eal.h"
#include "dpdk/queue.h"

namespace rubato::dpdk {
namespace {

class DpdkWire final : public DatagramWire {
 public:
  explicit DpdkWire(uint32_t workers) : steering_(workers) {}

  Status start(const DpdkWireOptions& options, const HostAddress& host);

  uint32_t queues() const override { return static_cast<uint32_t>(queues_.size()); }
  WireQueue& queue(WorkerId worker) override { return *queues_[worker.value]; }
  uint16_t port() const override { return port_.host().port; }
  DatagramDrops drops() const override;
  std::string describe() const override;
  bool steer_group(uint32_t group, WorkerId to) override {
    return group < kSteeringGroups && to.value < queues() && steering_.move(group, to.value);
  }
  WorkerId queue_of_group(uint32_t group) const override {
    return WorkerId{steering_.worker_of(group)};
  }

 private:
  Port port_;
  Steering steering_;
  Receiver receiver_{port_, steering_};
  std::vector<std::unique_ptr<DpdkQueue>> queues_;
};

Status DpdkWire::start(const DpdkWireOptions& options, const HostAddress& host) {
  if (Status started = port_.start(options, host); !started.ok()) return started;
  if (port_.reta_entries() > 0) steering_.start_card(port_.id(), port_.reta_entries());
  if (Status started = receiver_.start(options.queues); !started.ok()) return started;
  for (uint32_t worker = 0; worker < options.queues; ++worker) {
    queues_.push_back(std::make_unique<DpdkQueue>(port_, receiver_, options, worker));
  }
  return Done{};
}

DatagramDrops DpdkWire::drops() const {
  DatagramDrops drops;
  receiver_.add_to(drops);
  for (const auto& queue : queues_) drops.unsent += queue->lost();
  // (Not rx_nombuf: that counts a driver's attempts to allocate, and what waits meanwhile is not
  // lost.)
  rte_eth_stats counts{};
  if (rte_eth_stats_get(port_.id(), &counts) != 0) return drops;
  drops.ring_full += counts.imissed;
  drops.malformed += counts.ierrors;
  return drops;
}

std::string DpdkWire::describe() const {
  std::string text = std::string(rte_version()) + " on " + port_.name() + ", " +
                     std::to_string(port_.receive_queues()) + " receive queue(s)";
  if (queues() > 1) {
    text += steering_.by_card() ? ", steered by the card's table" : ", steered in software";
  }
  if (port_.computes_checksums()) text += ", UDP checksums by the driver";
  return text;
}

}  // namespace

Result<std::unique_ptr<DatagramWire>> open_wire(const DpdkWireOptions& options) {
  if (options.queues == 0 || options.queues > limits::kMaxWorkers) {
    return Error{"queues must be 1 to " + std::to_string(limits::kMaxWorkers)};
  }
  if (options.udp_port == 0) return Error{"dpdk: takes a port, as it has none to choose from"};
  const Result<SocketAddress> address = resolve(options.bind, options.udp_port);
  if (!address.ok()) return Error{address.error()};
  if (!is_of_one_host(address.value().storage)) {
    return Error{"dpdk: takes --bind with the address that the port is to have, not " +
                 options.bind};
  }
  if (Status started = start_eal(options.arguments); !started.ok()) return Error{started.error()};
  auto wire = std::make_unique<DpdkWire>(options.queues);
  HostAddress host = host_of(address.value());
  host.ports = options.udp_ports;
  const Status started = wire->start(options, host);
  if (!started.ok()) return Error{started.error()};
  return std::unique_ptr<DatagramWire>(std::move(wire));
}

}  // namespace rubato::dpdk
