// SPDX-License-Identifier: Apache-2.0
//
// LoopbackDatapath: a datapath without sockets. Clients in the same process connect, submit bytes
// and take replies; the server side is the same StreamFlow that TCP uses, so order, coalescing,
// back-pressure, half-close and draining are the same too. Used by tests and benchmarks.
//
// Faults can be injected, drawn from a seed and counted. The unit is one submit, so for loss and
// reordering within a flow to make sense each submit should be whole requests:
//   loss      a submit vanishes;
//   delay     a submit reaches the server after a uniform time in [delay_min, delay_max];
//   reorder   a submit is held back by another `reorder_by`, so that later ones overtake it.
// Submits of one flow overtake each other only with `reorder_within_flow`. Delays run on
// `LoopbackOptions::now`, which a test may replace by a clock of its own; waits are bounded in real
// time all the same, so after moving such a clock on, wake() the queue. A delayed submit comes out
// when the flow's home queue is polled or waits, and goes to the queue where the flow is then.
//
// Threads: the client half may be called from any thread; the rest as datapath.h says. No thread
// may make a call while the datapath is destroyed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "datapath/flow_index.h"
#include "datapath/time_source.h"

namespace rubato {

// The callback that gets replies as they are sent, on the worker that sends them; must not block.
using LoopbackReply = std::function<void(uint64_t flow, std::string_view bytes)>;

struct LoopbackOptions {
  uint32_t queues = 1;
  uint32_t max_flows = 10000;     // closed ones count until the client forgets them
  FlowLimits limits;
  Nanos idle_timeout;             // zero = none
  size_t wire_bytes = 1024 * 1024;  // in transit per flow and direction
  LoopbackReply on_reply;         // null = replies wait on the wire for take()

  double loss = 0;
  Nanos delay_min;
  Nanos delay_max;
  double reorder = 0;
  Nanos reorder_by = Nanos::micros(100);
  bool reorder_within_flow = false;
  uint64_t seed = 1;
  Instant (*now)() = &datapath_now;
};

struct LoopbackFaults {
  uint64_t lost = 0;
  uint64_t delayed = 0;
  uint64_t reordered = 0;
  uint64_t refused = 0;  // submits that did not fit on the wire
};

class LoopbackQueue;
class LoopbackWire;

class LoopbackDatapath final : public Datapath {
 public:
  LoopbackDatapath(LoopbackOptions options, Protocol& protocol);
  ~LoopbackDatapath() override;

  // The client half. connect returns the flow, or 0 when it is refused (max_flows, draining); flows
  // go to the queues in turn unless the caller names a queue.
  uint64_t connect();
  uint64_t connect(WorkerId queue);
  // False: there is no such flow, the flow is closed, or the wire is full (counted). A lost submit
  // returns true.
  bool submit(uint64_t flow, std::string_view bytes);
  // No more bytes will be submitted; replies still come, then the server closes.
  bool finish_sending(uint64_t flow);
  // Appends the replies that have arrived to `to`; false = the flow is closed and no reply is left.
  bool take(uint64_t flow, std::string& to);
  // Takes replies until there are `size_bytes`, the flow is closed, or `limit` has passed.
  std::string receive(uint64_t flow, size_t size_bytes, Nanos limit = Nanos::seconds(10));
  // True once the server has closed the flow, or the client forgot it.
  bool closed(uint64_t flow) const;
  // The client is gone at once, as by a reset, and the flow's number is no longer known.
  void forget(uint64_t flow);
  LoopbackFaults faults() const;

  uint32_t queues() const override;
  DatapathQueue& queue(WorkerId worker) override;
  void drain() override;
  uint64_t in_flight() const override;
  DatapathStats stats() const override;
  void for_each_flow(const std::function<void(const FlowInfo&)>& visit) override;
  bool close_flow(uint64_t flow) override;
  bool steer(uint64_t flow, WorkerId to) override;
  bool unsteer(uint64_t flow) override;
  bool request_push(uint64_t flow) override;

  // The state that all queues share.
  struct Shared {
    LoopbackOptions options;
    Protocol& protocol;
    DrainFlag<> draining{};
    FlowIndex index{};
  };

 private:
  std::shared_ptr<LoopbackWire> find(uint64_t flow) const;

  Shared shared_;
  std::vector<std::unique_ptr<LoopbackQueue>> queues_;
  mutable std::shared_mutex wires_mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<LoopbackWire>> wires_;  // guarded by wires_mutex_
  std::atomic<uint64_t> next_flow_{1};
  std::atomic<uint64_t> refused_{0};
};

}  // namespace rubato
