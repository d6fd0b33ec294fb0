// SPDX-License-Identifier: Apache-2.0
//
// TLS as connections see it: TlsSession, one end of TLS on one connected socket; TlsContext, which
// makes those of a server; TlsConnector, which makes those of a client. src/tls implements them;
// nothing here knows the library that does the work, so programs without TLS do not link it.
//
// A session belongs to its connection and has one user at a time: the connection's owner. It does
// not own the socket, which must outlive its use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/memory_account.h"
#include "datapath/stream_flow.h"

namespace rubato {

class TlsSession {
 public:
  virtual ~TlsSession() = default;

  // As StreamFlow's methods of the same names, on the bytes inside; both go on with the handshake.
  // receive moves as many bytes as have come and fit: fewer bytes than `room` leave none behind, so
  // the next event is a new one. `exact` asks for the kernel's time of the last byte.
  virtual Transfer receive(char* to, size_t room, bool exact, Instant& when) = 0;
  virtual Transfer transmit(std::string_view bytes) = 0;

  // The handshake is done.
  virtual bool established() const = 0;
  // No byte will come any more; the next receive says why.
  virtual bool over() const = 0;
  // Why the connection broke, in OpenSSL's words; empty = it has not.
  virtual const char* failure() const = 0;
  // Tells the peer that no byte will follow, as far as the socket takes that at once.
  virtual void say_goodbye() = 0;
};

struct TlsStats {
  uint64_t handshakes = 0;  // that were completed
  uint64_t failed = 0;      // connections that ended without
  const char* last_failure = "";
};

class TlsContext {
 public:
  virtual ~TlsContext() = default;

  // A session on a connected, non-blocking socket; its memory is charged to `account`, which may be
  // null. Null: there is no memory. Any thread.
  virtual std::unique_ptr<TlsSession> accept(int socket, MemoryAccount* account) = 0;
  // Any thread.
  virtual TlsStats stats() const = 0;
};

class TlsConnector {
 public:
  virtual ~TlsConnector() = default;

  // A session with the server at the other end of a connected, non-blocking socket, or of one that
  // is about to be. Null: there is no memory. Any thread.
  virtual std::unique_ptr<TlsSession> connect(int socket) = 0;
};

}  // namespace rubato
