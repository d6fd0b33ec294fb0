// SPDX-License-Identifier: Apache-2.0
//
// OpenSslSession: a TlsSession by OpenSSL. OpenSSL reads and writes the socket by a BIO of ours,
// which raises no SIGPIPE, tells when the kernel received the bytes, and asks an emptied socket no
// second time.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <memory>
#include <string>

#include "datapath/tls.h"

namespace rubato {

template <auto free_function>
struct OpenSslFree {
  template <class T>
  void operator()(T* object) const {
    free_function(object);
  }
};
using SslPtr = std::unique_ptr<SSL, OpenSslFree<SSL_free>>;

// Written by all sessions of a server; each counter is relaxed, since it guards nothing.
struct TlsCounters {
  std::atomic<uint64_t> handshakes{0};
  std::atomic<uint64_t> failed{0};
  std::atomic<const char*> last_failure{""};
};

class OpenSslSession final : public TlsSession {
 public:
  // The memory of an idle connection, about; buffers of a record come and go.
  static constexpr size_t kBytes = size_t{20} * 1024;

  enum class End : uint8_t { kServer, kClient };

  // Null if there is no memory. `counters` outlives the session.
  static std::unique_ptr<OpenSslSession> open(SSL_CTX& context, int socket, MemoryAccount* account,
                                              TlsCounters& counters, End end = End::kServer);
  // Before the first byte, at the client's end: the server must have a certificate for that name
  // or address, if `verify`, and is told the name. False: there is no memory.
  bool expect(const std::string& name, bool verify);
  // A session that ends without a handshake counts as failed.
  ~OpenSslSession() override;

  Transfer receive(char* to, size_t room, bool exact, Instant& when) override;
  Transfer transmit(std::string_view bytes) override;
  bool established() const override { return established_; }
  bool over() const override { return over_; }
  const char* failure() const override { return failure_; }
  void say_goodbye() override;

 private:
  // The socket, for the BIO.
  struct Wire {
    int socket = -1;
    bool emptied = false;      // the last read took all that had come
    bool ended = false;        // there is nothing after it
    Instant* dated = nullptr;  // where the kernel's time goes; null = nobody asks
  };

  OpenSslSession(MemoryShare memory, TlsCounters& counters)
      : memory_(std::move(memory)), counters_(counters) {}
  bool attach(SSL_CTX& context, int socket, End end);
  const char* reason_of_failure() const;
  void begin(Instant* dated);
  void note_handshake();
  Transfer::State failed_with(int result);

  static BIO_METHOD* wire_method();
  static int read_wire(BIO* bio, char* to, int room);
  static int write_wire(BIO* bio, const char* bytes, int size);
  static long control_wire(BIO* bio, int command, long number, void* pointer);

  MemoryShare memory_;
  TlsCounters& counters_;
  Wire wire_;
  SslPtr ssl_;
  size_t unfinished_bytes_ = 0;  // of a write that OpenSSL wants repeated with no fewer bytes
  bool established_ = false;
  bool over_ = false;
  bool broken_ = false;  // OpenSSL may not be called any more
  const char* failure_ = "";
};

}  // namespace rubato
