// SPDX-License-Identifier: Apache-2.0
//
// Channel: a connection to the server, plain or with TLS. Owns its socket, which never blocks; the
// connector of TLS outlives it. One owner at a time.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "datapath/tls.h"
#include "load/socket.h"

namespace rubato::load {

class Channel {
 public:
  Channel() = default;
  // On a socket that is connected or connects; with TLS if `tls` is not null.
  Channel(Fd socket, TlsConnector* tls);

  bool open() const { return socket_.open(); }
  int fd() const { return socket_.get(); }
  void close();

  // Once the socket is ready: connected, and the handshake done. False: not yet. Fails with the
  // reason if it will never be.
  Result<bool> stands();

  // As recv and send on a non-blocking socket that raises no SIGPIPE, with errno.
  ssize_t receive(char* to, size_t room);
  ssize_t send(std::string_view bytes);
  // The last receive() has left bytes that the socket does not tell of any more.
  bool holds_more() const { return holds_more_; }
  // Why TLS has broken; empty = it has not.
  std::string_view failure() const { return tls_ != nullptr ? tls_->failure() : ""; }

 private:
  Fd socket_;
  std::unique_ptr<TlsSession> tls_;
  bool holds_more_ = false;
};

// A channel that stands. Fails with one line that names the endpoint and the reason.
Result<Channel> connect_channel(const Endpoint& endpoint, TlsConnector* tls, Nanos timeout);

// Sends all of `bytes`, waiting for room. False if the peer went away or took no byte for
// `timeout`.
bool send_all(Channel& channel, std::string_view bytes, Nanos timeout);

}  // namespace rubato::load
