// SPDX-License-Identifier: Apache-2.0
//
// DatagramDatapath: the datapath of protocols with one request per datagram, over any wire
// (datapath/datagram.h). A request lies in the frame in which it arrived, and its reply is built in
// the same frame. A longer reply leaves in several datagrams if the rules of the protocol number
// them, else it becomes the session's refusal; where that does not fit either, nothing leaves, and
// this is counted. Requests are independent unless the rules keep the order of flows, and a client
// may have any number underway.
//
// The protocol makes one session per queue. Its frame() gets a datagram at a time, from the poller
// of that queue; what it does not take as one whole request is dropped and counted. refuse() and
// answer() are called on any worker, for several requests at once, so what a request needs is in
// its RequestData. concurrency(), complete() and on_push() are not called.
//
// Job::flow names the peer, and the steering group by its last bits: steer() moves the group, so
// every flow of it. `flows_steered` counts moves of groups.
//
// Threads: as datapath.h says. The Protocol and the rules must outlive the datapath.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "datapath/datagram.h"
#include "datapath/datapath.h"
#include "datapath/drain_flag.h"
#include "datapath/flow_order.h"

namespace rubato {

class DatagramQueue;

// What a protocol with a request per datagram may decide beyond its sessions. Any thread; pure but
// for serves().
class DatagramRules {
 public:
  virtual ~DatagramRules() = default;

  // False: the datagram is dropped and counted, and nothing answers it.
  virtual bool serves(const DatagramPeer&) const { return true; }

  // True: requests of a flow are in service one after the other, as they came, and each reply
  // leaves before the next begins (datapath/flow_order.h). Asked once.
  virtual bool keeps_order() const { return false; }

  // Bytes in front of each datagram of a reply; the request's reply buffer holds what is behind
  // them. Zero: a reply is one datagram.
  virtual size_t header_bytes() const { return 0; }
  // Writes them, of datagram `number` of `count`, from 0; `request` is the request's payload.
  virtual void put_header(std::string_view request, uint32_t number, uint32_t count,
                          char* to) const {
    static_cast<void>(request), static_cast<void>(number), static_cast<void>(count);
    static_cast<void>(to);
  }
  // Bytes of one datagram of a reply at most, with the header.
  virtual size_t most_datagram_bytes() const { return kMaxDatagramPayload; }
  // Bytes of a reply at most, where it may have several datagrams, and whose memory they take; null
  // = nobody counts it.
  virtual size_t most_reply_bytes() const { return 0; }
  virtual MemoryAccount* memory() const { return nullptr; }
};

class DatagramDatapath final : public Datapath {
 public:
  // Takes over the wire. Fails with one line where the system has no eventfds.
  static Result<std::unique_ptr<DatagramDatapath>> open(
      std::unique_ptr<DatagramWire> wire, Protocol& protocol,
      const DatagramRules& rules = default_rules());
  ~DatagramDatapath() override;

  DatagramWire& wire() { return *shared_.wire; }
  const DatagramWire& wire() const { return *shared_.wire; }
  // Datagrams that came to nothing here, and replies that did not leave.
  struct Drops {
    uint64_t no_request = 0;  // not of the protocol
    uint64_t not_served = 0;  // by the rules
    uint64_t too_long = 0;    // replies that did not fit, nor did their refusals
    uint64_t flow_full = 0;   // refused, as too many of their flow waited (flow_order.h)
  };
  Drops drops() const;

  uint32_t queues() const override;
  DatapathQueue& queue(WorkerId worker) override;
  void drain() override;
  uint64_t in_flight() const override;
  DatapathStats stats() const override;
  void for_each_flow(const std::function<void(const FlowInfo&)>&) override {}
  bool close_flow(uint64_t) override { return false; }
  bool steer(uint64_t flow, WorkerId to) override;
  bool unsteer(uint64_t flow) override;

  // The number of a peer's flow: no datapath of connections has one so great, and workers can tell
  // each other of it by hints (policy/flow_migration.h).
  static uint64_t flow_of(const DatagramPeer& peer);

  // The state that all queues share.
  struct Shared {
    explicit Shared(const DatagramRules& rules_in) : rules(rules_in) {}
    const DatagramRules& rules;
    std::unique_ptr<DatagramWire> wire;
    std::unique_ptr<FlowOrder> order;  // null = none is kept
    DrainFlag<> draining;
    // No request's client is known to be gone.
    const std::atomic<ClientState> client{ClientState::kOpen};
  };

 private:
  explicit DatagramDatapath(const DatagramRules& rules);
  static const DatagramRules& default_rules();

  Shared shared_;
  std::vector<std::unique_ptr<DatagramQueue>> queues_;
  std::atomic<uint64_t> steered_{0};
  std::atomic<uint64_t> unsteered_{0};
};

}  // namespace rubato
