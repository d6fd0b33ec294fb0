// SPDX-License-Identifier: Apache-2.0
//
// HostedServer: one simulated server in a larger world (fleet/world.h), which sends it requests and
// lets it do its events one by one, in the order of time among those of other servers. It is the
// engine of simulate(), with the same policies, machines and costs; only its requests come from
// outside. One owner; each is on its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "sim/setup.h"
#include "sim/simulation.h"
#include "workload/source.h"

namespace rubato::sim {

enum class Fate : uint8_t {
  kServed,
  kRefused,  // explicitly: a full queue, the rule of overload control, or abandoned
  kLost,     // at a full NIC ring: nobody tells the client
};

// The clients of a hosted server.
class ServerClient {
 public:
  virtual ~ServerClient() = default;
  // What became of a request, called in the step in which that is known. `at` is when the reply is
  // with the client, then or later: half a round trip of the cost file after it was sent.
  virtual void answered(uint64_t token, Fate fate, Instant at) = 0;
};

struct SentRequest {
  Offer offer;                            // `at`: when the client sends it
  uint64_t token = 0;                     // the client's name for it
  uint8_t priority = 0;                   // as in Job
  Instant deadline = Instant::never();    // as in Job
  // True from when the server knows that the client waits no longer: then it is refused at its
  // turn, or ends with its slice. Lives until it is answered; null = that never happens.
  const bool* abandoned = nullptr;
};

// Work of a server up to now.
struct ServerTotals {
  Nanos busy;          // of all workers, in requests and overheads
  uint64_t arrived = 0;
  uint64_t inside = 0;  // requests that came and have not left
  uint64_t learning = 0;  // requests that the policy learns from before it has a plan
};

class HostedServer {
 public:
  virtual ~HostedServer() = default;

  // Requires that offer.at is not before the last event, nor before the `at` of the last request.
  virtual void send(const SentRequest& request) = 0;
  // When its first event is due; never() = it has none.
  virtual Instant next() const = 0;
  // Does the first event. Requires one.
  virtual void step() = 0;

  virtual ServerTotals totals() const = 0;
  // How many of the most urgent levels its limiter admits now (overload/load_window.h).
  virtual uint32_t admitted_levels() const = 0;
};

// A server for requests of the types of setup.workload, whose mix and rate tell policies nothing
// more. `requests` and `warmup` of the setup are not used. `client` outlives the server. Fails with
// one line as simulate() does; elastic servers are refused.
Result<std::unique_ptr<HostedServer>> host_server(std::string_view policy, const Settings& settings,
                                                  const Setup& setup, ServerClient& client);

}  // namespace rubato::sim
