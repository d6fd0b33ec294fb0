// SPDX-License-Identifier: Apache-2.0
//
// LoadOptions: all options of a run. A plain value; the code that fills it (the command line)
// checks the bounds, which are named here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "load/target.h"
#include "overload/balancer.h"

namespace rubato {
class DatagramWire;
class TlsConnector;
}

namespace rubato::load {

// The connection that a request of an open-loop run goes on.
//   kIdle    a connection without an outstanding request, chosen at random; if there is none the
//            request waits here, and its wait counts. A stream protocol answers in order, so a GET
//            behind a scan on its own connection would wait whatever the server's scheduler does.
//   kRandom  any connection, chosen at random: requests pipeline
enum class Pick : uint8_t { kIdle, kRandom };

inline constexpr uint32_t kMaxFlows = 60000;
inline constexpr double kMaxRate = 1e7;
inline constexpr double kMaxDurationSeconds = 86400;

struct Endpoint;

// Opens a wire for datagrams to the endpoint, with one queue and so many ports in a row, from its
// port() on. Fails with one line.
using OpenWire =
    std::function<Result<std::unique_ptr<DatagramWire>>(const Endpoint& to, uint32_t ports)>;

struct LoadOptions {
  Target target;
  std::vector<Target> more_targets;  // of the same protocol, which share the requests
  overload::Balancing balancing = overload::Balancing::kRandom;  // among them
  double rate = 1000;  // requests per second, open loop
  Nanos duration = Nanos::seconds(10);
  std::optional<Nanos> warmup;              // default: the first tenth of the duration
  Nanos reply_timeout = Nanos::seconds(5);  // for the last replies, after the last request
  uint32_t flows = 64;
  uint64_t seed = 1;
  Pick pick = Pick::kIdle;
  uint32_t closed_clients = 0;  // > 0: closed loop with that many clients instead
  Nanos closed_gap;  // closed loop: no request sooner after the one before it; zero = at once
  std::string password;  // RESP only
  TlsConnector* tls = nullptr;  // outlives the run; null = connections without TLS
  uint32_t rpc_queue = 16;                 // rpc: requests that a session queues for credit
  Nanos rpc_expire = Nanos::millis(10);    // rpc: queued requests expire after this; zero = never
  std::vector<uint8_t> priorities;  // rpc: of each type, as its requests tell; empty = they do not
  bool timeline = false;  // keep figures per 100 ms
  bool ccdf = false;      // write the latency distributions
  bool nap = false;       // sleep until a request is due or a reply comes, instead of polling
  bool progress = false;  // a line per second on stderr
  uint32_t watched_server = 0;  // process id of a server here whose stalls are noticed, 0 = none

  OpenWire open_wire = nullptr;  // what moves datagrams; null = sockets of the kernel

  // Called once, when all connections stand, before the first request; an error ends the run.
  std::function<Status()> before_first = nullptr;

  // The first and the others.
  std::vector<Target> targets() const {
    std::vector<Target> all{target};
    all.insert(all.end(), more_targets.begin(), more_targets.end());
    return all;
  }
  Nanos warmup_length() const { return warmup.value_or(duration / 10); }
};

}  // namespace rubato::load
