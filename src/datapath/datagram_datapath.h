// SPDX-License-Identifier: Apache-2.0
//
// DatagramDatapath: the datapath of protocols with one request per datagram, over any wire
// (datapath/datagram.h). A request lies in the frame in which it arrived, and its reply is built in
// the same frame; a reply that is longer than a datagram becomes the session's refusal. Requests
// are independent: no order is kept, and a client may have any number underway.
//
// The protocol makes one session per queue. Its frame() gets a datagram at a time, from the poller
// of that queue; what it does not take as one whole request is dropped and counted. refuse() and
// answer() are called on any worker, for several requests at once, so what a request needs is in
// its RequestData. concurrency(), complete() and on_push() are not called.
//
// Job::flow names the peer, and the steering group by its last bits: steer() moves the group, so
// every flow of it. `flows_steered` counts moves of groups.
//
// Threads: as datapath.h says. The Protocol must outlive the datapath.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "datapath/datagram.h"
#include "datapath/datapath.h"
#include "datapath/drain_flag.h"

namespace rubato {

class DatagramQueue;

class DatagramDatapath final : public Datapath {
 public:
  // Takes over the wire. Fails with one line where the system has no eventfds.
  static Result<std::unique_ptr<DatagramDatapath>> open(std::unique_ptr<DatagramWire> wire,
                                                        Protocol& protocol);
  ~DatagramDatapath() override;

  DatagramWire& wire() { return *shared_.wire; }
  const DatagramWire& wire() const { return *shared_.wire; }
  // Datagrams that were no request.
  uint64_t malformed() const;

  uint32_t queues() const override;
  DatapathQueue& queue(WorkerId worker) override;
  void drain() override;
  uint64_t in_flight() const override;
  DatapathStats stats() const override;
  void for_each_flow(const std::function<void(const FlowInfo&)>&) override {}
  bool close_flow(uint64_t) override { return false; }
  bool steer(uint64_t flow, WorkerId to) override;
  bool unsteer(uint64_t flow) override;

  // The number of a peer's flow; never 0.
  static uint64_t flow_of(const DatagramPeer& peer);

  // The state that all queues share.
  struct Shared {
    std::unique_ptr<DatagramWire> wire;
    DrainFlag<> draining;
    // No request's client is known to be gone.
    const std::atomic<ClientState> client{ClientState::kOpen};
  };

 private:
  DatagramDatapath() = default;

  Shared shared_;
  std::vector<std::unique_ptr<DatagramQueue>> queues_;
  std::atomic<uint64_t> steered_{0};
  std::atomic<uint64_t> unsteered_{0};
};

}  // namespace rubato
