// SPDX-License-Identifier: Apache-2.0
//
// AgentPort: tells load balancers the load of a runtime, in HAProxy's agent-check protocol: a
// client that connects gets one line and is closed.
//
//   up ready 64%    take connections, 64 % of the usual share
//   drain           no new connections: it is overloaded beyond help, or about to stop
//
// The weight in the line comes from overload/advertised_weight.h, fed with the runtime's own
// refusals and waits and, where its clients have credits, with those (RuntimeOptions::credits). The
// runtime is told the weight, so that its metrics show it. The port has a thread of its own, which
// wakes twenty times a second, shares nothing with the workers but counters, waits for no client
// and keeps nothing that it reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "datapath/tcp_socket.h"
#include "overload/advertised_weight.h"
#include "runtime/runtime.h"

namespace rubato {

class AgentPort {
 public:
  // Listens on bind:port (0 = any free port), or takes the listener that was handed over (`given`).
  // The runtime must outlive it. Fails with one line when the address cannot be used.
  static Result<std::unique_ptr<AgentPort>> start(const std::string& bind, uint16_t port,
                                                  Runtime& runtime, int given = -1);
  ~AgentPort();

  uint16_t port() const { return port_; }

 private:
  AgentPort(Fd listener, uint16_t port, Runtime& runtime);
  void serve();
  void look();
  overload::ServerHealth health() const;
  Nanos delay() const;
  bool drains() const { return !runtime_.serving() || weight_.drains(); }
  void answer(const Fd& socket) const;
  std::string line() const;

  Fd listener_;
  const uint16_t port_;
  Runtime& runtime_;
  overload::AdvertisedWeight weight_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace rubato
