// SPDX-License-Identifier: Apache-2.0
//
// DatagramPort: what moves the datagrams between a run's flows and its target: kernel sockets, or a
// wire (datapath/datagram.h) with a port for each flow, which one thread looks at without a system
// call. Nothing is sent again. One owner at a time; it never blocks after open().
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "load/options.h"
#include "load/socket.h"

namespace rubato::load {

// Gets what receive() finds.
class DatagramEvents {
 public:
  virtual ~DatagramEvents() = default;
  // Of at most 2048 bytes, the rest is cut off; `at`: when it was received.
  virtual void on_datagram(uint32_t flow, std::string_view bytes, Instant at) = 0;
  // The target's host said that nobody listens there.
  virtual void on_unreachable(uint32_t flow) = 0;
};

class DatagramPort {
 public:
  enum class Sent : uint8_t {
    kTaken,        // which does not say that it arrives
    kFull,         // there was no room for it
    kUnreachable,  // as on_unreachable, for one before
  };

  virtual ~DatagramPort() = default;

  // Once, before all others. Fails with one line.
  virtual Status open(uint32_t flows) = 0;
  virtual Sent send(uint32_t flow, std::string_view bytes) = 0;
  // What send() has taken leaves, at the latest now.
  virtual void push() = 0;
  virtual void receive(DatagramEvents& events) = 0;
  // Sleeps until receive() would find something, or `limit` has passed.
  virtual void wait(Nanos limit) = 0;
  // Datagrams that this side has lost, of both directions, as far as it knows.
  virtual uint64_t lost() const = 0;
};

// By LoadOptions::open_wire if there is one, else by a socket for each flow.
std::unique_ptr<DatagramPort> make_datagram_port(Endpoint endpoint, const LoadOptions& options);

}  // namespace rubato::load
