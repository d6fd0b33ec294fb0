// SPDX-License-Identifier: Apache-2.0
//
// Flows: the connections of one run, for any protocol: FlowSet for RESP, memcached and HTTP,
// RpcFlows for Rubato RPC, DatagramFlows for requests that are datagrams. They never block after
// open_all(). One owner at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "load/outcome.h"
#include "overload/latency_by_load.h"

namespace rubato::load {

inline constexpr uint32_t kNoFlow = std::numeric_limits<uint32_t>::max();
// Of a connection without a reply in between, with kReconnectPause before each.
inline constexpr uint32_t kMaxReconnects = 10;
inline constexpr Nanos kReconnectPause = Nanos::millis(100);
inline constexpr Nanos kConnectTimeout = Nanos::seconds(3);

// A request on its way.
struct Outstanding {
  Instant due;    // when it was scheduled (closed loop: when it was sent)
  Nanos service;  // nominal, 0 = unknown
  uint32_t type = 0;
  bool measured = false;
  bool setup = false;  // AUTH and the like: not a request of the caller
};

// Gets the events of poll() and send(). Must not call back into the flows.
class FlowEvents {
 public:
  virtual ~FlowEvents() = default;
  virtual void on_reply(const Outstanding& request, Instant at) = 0;
  // `text` is the server's error text.
  virtual void on_failed(const Outstanding& request, Outcome outcome, std::string_view text) = 0;
  virtual void on_lost(const Outstanding& request) = 0;
  virtual void on_closed() = 0;
  // A probe was answered.
  virtual void on_load(const overload::ServerLoad&) {}
};

class Flows {
 public:
  virtual ~Flows() = default;

  // Connects `count` flows. Fails with one line if one of them cannot be connected.
  virtual Status open_all(uint32_t count) = 0;

  // A flow without outstanding requests, or any usable one; kNoFlow if there is none.
  virtual uint32_t pick_idle(Prng& prng) = 0;
  virtual uint32_t pick_any(Prng& prng) = 0;

  // Requires a flow that pick returned since the last poll().
  virtual void send(uint32_t flow, std::string_view bytes, const Outstanding& request) = 0;

  // Asks the server for its load, if its protocol can: on_load brings it, if an answer comes.
  virtual void ask_load() {}

  // What send() has taken leaves, at the latest now.
  virtual void push() {}

  // Takes the bytes that the sockets have, without waiting. Fails when the run cannot go on: the
  // bytes are not of the protocol, the password was refused, or every connection is gone for good.
  virtual Status poll(Instant now) = 0;

  // Sleeps until poll() has something to do, or `limit` has passed.
  virtual void wait(Nanos limit) = 0;

  virtual uint64_t outstanding() const = 0;

  // Datagrams that this side has lost, as far as it knows, which say nothing about the server.
  virtual uint64_t lost_here() const { return 0; }

  // Gives up all outstanding requests (on_lost for each).
  virtual void abandon() = 0;
};

}  // namespace rubato::load
