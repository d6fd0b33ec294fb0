// SPDX-License-Identifier: Apache-2.0
//
// Exporter: a small HTTP server on a thread of its own for /metrics, /plan, /healthz and
// /readyz. It shares nothing with the workers but what its callbacks read, so it answers while they
// are overloaded.
// GET only, one request per connection, one connection at a time. Each has a second for all of its
// request and reply, however it spreads its bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "datapath/tcp_socket.h"

namespace rubato {

class Exporter {
 public:
  struct Sources {
    std::function<std::string()> metrics;  // OpenMetrics text
    std::function<bool()> ready;           // false = draining or not yet serving
    std::function<std::string()> plan;     // what the policy has decided, for people
  };

  // Listens on bind:port (0 = any free port). Callbacks run on the exporter's thread until it is
  // destroyed. Fails with one line when the address cannot be used.
  static Result<std::unique_ptr<Exporter>> start(const std::string& bind, uint16_t port,
                                                 Sources sources);
  ~Exporter();

  uint16_t port() const { return port_; }

 private:
  Exporter(Fd listener, uint16_t port, Sources sources);
  void serve();
  void answer(Fd socket) const;

  Fd listener_;
  uint16_t port_;
  Sources sources_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace rubato
