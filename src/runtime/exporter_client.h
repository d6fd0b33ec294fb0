// SPDX-License-Identifier: Apache-2.0
//
// ExporterClient: one connection of the exporter: reads one request, then writes one reply, as far
// as the socket lets it, and never waits. Owned and used by the exporter's thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"
#include "datapath/tcp_socket.h"
#include "datapath/tls.h"

namespace rubato {

class ExporterClient {
 public:
  enum class State {
    kReading,  // the request is not whole yet
    kAsked,    // request() waits for its reply()
    kWriting,  // a part of the reply does not fit into the socket yet
    kOver,     // the reply is sent, or the client is gone
  };

  // The client's time is over at `end`, however it spreads its bytes. `peer` is its address.
  // With `tls` the bytes travel in a session of that.
  ExporterClient(Fd socket, std::string peer, Instant end, TlsContext* tls = nullptr);

  const std::string& peer() const { return peer_; }
  int fd() const { return socket_.get(); }
  Instant end() const { return end_; }
  State state() const { return state_; }

  // While reading: takes the bytes that have come. A request is whole at its blank line, at the
  // size limit, or when the client has shut its side down.
  void read();
  // The request: its first line and its headers.
  std::string_view request() const { return bytes_; }
  // It has more bytes than a request may have; those beyond are gone.
  bool too_large() const { return too_large_; }
  // Sends the reply, as far as possible at once; write() sends the rest.
  void reply(std::string bytes);
  void write();

 private:
  Transfer receive(char* to, size_t room);
  Transfer transmit(std::string_view bytes);
  void finish();

  Fd socket_;
  std::string peer_;
  std::unique_ptr<TlsSession> tls_;  // null = the bytes are plain
  Instant end_;
  State state_ = State::kReading;
  std::string bytes_;  // of the request, then of the reply
  size_t sent_ = 0;
  bool too_large_ = false;
};

}  // namespace rubato
