// SPDX-License-Identifier: Apache-2.0
//
// UdpDatapath: Rubato RPC over UDP, on any datagram wire (datapath/datagram.h), which gives all
// datagrams of one client's port to one queue. A session, that is an address with a port and a
// session number, is a flow: a StreamFlow whose wire is datagrams of one whole frame each. Its
// requests are served side by side, and everything else is as for a connection. Malformed frames
// never reach a flow.
//
// Each datagram of a client begins with a token that the server gives to whoever says hello without
// it: a hash of the client's address, port and session number under a key of this datapath. So no
// session is opened, and none gets a frame, under a forged address.
//
// No frame is sent again, duplicates are not noticed, and each answer leaves in one datagram. A
// flow ends by goodbye, or when no frame has come for idle_timeout. Flows are not steered: a
// session belongs to the queue that opened it.
//
// Threads: as datapath.h says. The Protocol must outlive the datapath.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/siphash.h"
#include "datapath/datagram.h"
#include "datapath/flow_index.h"
#include "datapath/stream_flow.h"

namespace rubato::rpc {

inline constexpr Nanos kDefaultIdleTimeout = Nanos::seconds(30);

struct UdpOptions {
  uint32_t max_flows = 10000;
  Nanos idle_timeout;  // zero = kDefaultIdleTimeout: nothing else ends a silent session
  uint64_t first_flow = 1;  // the numbers of its flows begin here
  FlowLimits limits;
};

// Counts of dropped datagrams.
struct UdpDrops {
  uint64_t malformed = 0;   // not a frame of a client
  uint64_t no_session = 0;
  uint64_t no_token = 0;    // not the token of its session; a hello was answered with it
  uint64_t full = 0;        // too many unserved datagrams of one session
};

class UdpQueue;

class UdpDatapath final : public Datapath {
 public:
  // Takes over the wire. Fails with one line where the system has no eventfds.
  static Result<std::unique_ptr<UdpDatapath>> open(std::unique_ptr<DatagramWire> wire,
                                                   const UdpOptions& options, Protocol& protocol);
  ~UdpDatapath() override;

  DatagramWire& wire() { return *shared_.wire; }
  const DatagramWire& wire() const { return *shared_.wire; }
  uint16_t port() const { return shared_.wire->port(); }
  UdpDrops drops() const;

  uint32_t queues() const override;
  DatapathQueue& queue(WorkerId worker) override;
  void drain() override;
  uint64_t in_flight() const override;
  DatapathStats stats() const override;
  void for_each_flow(const std::function<void(const FlowInfo&)>& visit) override;
  bool close_flow(uint64_t flow) override;
  bool request_push(uint64_t flow) override;

  // Change the limit on sessions and the idle timeout, as UdpOptions has them, also while the
  // server runs. Any thread.
  void set_max_flows(uint32_t flows) {
    shared_.max_flows.store(flows, std::memory_order_relaxed);
  }
  void set_idle_timeout(Nanos timeout) { shared_.set_idle_timeout(timeout); }

  // The state that all queues share.
  struct Shared {
    Shared(std::unique_ptr<DatagramWire> wire_in, const UdpOptions& options_in,
           Protocol& protocol_in);
    Nanos idle_timeout() const {
      return Nanos(idle_timeout_ns.load(std::memory_order_relaxed));
    }
    void set_idle_timeout(Nanos timeout) {
      if (timeout == Nanos()) timeout = kDefaultIdleTimeout;
      idle_timeout_ns.store(timeout.count(), std::memory_order_relaxed);
    }

    const std::unique_ptr<DatagramWire> wire;
    const FlowLimits limits;
    Protocol& protocol;
    std::atomic<uint32_t> max_flows;
    std::atomic<int64_t> idle_timeout_ns;
    std::atomic<uint64_t> next_flow;
    std::atomic<uint32_t> open_flows{0};
    DrainFlag<> draining;
    const SipHash token_of;
    FlowIndex index;
  };

 private:
  UdpDatapath(std::unique_ptr<DatagramWire> wire, const UdpOptions& options, Protocol& protocol);

  Shared shared_;
  std::vector<std::unique_ptr<UdpQueue>> queues_;
};

}  // namespace rubato::rpc
