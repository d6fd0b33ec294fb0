// SPDX-License-Identifier: Apache-2.0
//
// TlsSocket: a Socket with TLS by OpenSSL 3, for tasks and requests; what waits for it holds no
// worker. Header only: the program links OpenSSL itself (-lssl -lcrypto), and ignores SIGPIPE.
//
//   SSL_CTX* context = SSL_CTX_new(TLS_client_method());  // with verification as the program likes
//   auto socket = rubato::TlsSocket::connect("example.org", 443, context, 1s);
//   if (!socket) return socket.error();
//   socket->write("GET / HTTP/1.0\r\n\r\n", 1s);
//
// Threads: any task or thread, one at a time. Errors come as one line. After a deadline that has
// passed in a write or in the handshake the connection is of no more use. Each call of OpenSSL is a
// checkpoint, too: a task that is to end gets Cancelled, as from every wait.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <rubato/feedback.hpp>
#include <rubato/socket.hpp>
#include <rubato/status.hpp>
#include <rubato/wait.hpp>

namespace rubato::inline v1 {

class TlsSocket {
 public:
  // Connects and shakes hands; the certificate is to be for `host` if the context verifies.
  static Result<TlsSocket> connect(const std::string& host, uint16_t port, SSL_CTX* context,
                                   Deadline deadline = {}) {
    Result<Socket> socket = Socket::connect(host, port, deadline);
    if (!socket) return Error{socket.error()};
    TlsSocket tls(std::move(*socket), context);
    if (tls.ssl_ == nullptr || !tls.expect(host)) return Error{"TLS: " + reason()};
    return shake_hands(std::move(tls), &SSL_connect, deadline);
  }

  // The server's side of a connection that was accepted.
  static Result<TlsSocket> accept(Socket socket, SSL_CTX* context, Deadline deadline = {}) {
    TlsSocket tls(std::move(socket), context);
    if (tls.ssl_ == nullptr) return Error{"TLS: " + reason()};
    return shake_hands(std::move(tls), &SSL_accept, deadline);
  }

  // At least one byte and at most `size`; 0 = the other end has written its last.
  Result<size_t> read(void* to, size_t size, Deadline deadline = {}) {
    size_t count = 0;
    const auto step = [&] {
      const int got = SSL_read_ex(ssl_.get(), to, size, &count);
      return SSL_get_error(ssl_.get(), got) == SSL_ERROR_ZERO_RETURN ? 1 : got;
    };
    const Status done = run(step, deadline);
    if (!done) return Error{"read: " + done.error()};
    return count;
  }

  // Writes all bytes.
  Status write(std::string_view bytes, Deadline deadline = {}) {
    while (!bytes.empty()) {  // once, unless the context allows partial writes
      size_t count = 0;
      const Status done = run(
          [&] { return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count); }, deadline);
      if (!done) return Error{"write: " + done.error()};
      bytes.remove_prefix(count);
    }
    return Done{};
  }

  // Tells the other end that nothing follows, which waits until there is room for it. Read to the
  // end before the socket goes: if anything comes to a socket that has gone, be it the tickets that
  // a server of TLS 1.3 sends, the kernel may drop what the other end has not read yet.
  void end_writing(Deadline deadline = {}) {
    const auto step = [&] {
      const int sent = SSL_shutdown(ssl_.get());
      return sent == 0 ? 1 : sent;  // 0: the other end may still write
    };
    static_cast<void>(run(step, deadline));
    take_tickets();
  }
  SSL* ssl() const { return ssl_.get(); }

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  TlsSocket(Socket socket, SSL_CTX* context)
      : socket_(std::move(socket)), ssl_(SSL_new(context)) {
    if (ssl_ != nullptr) SSL_set_fd(ssl_.get(), socket_.fd());
  }

  // Names the host to the other end and to the verification; an address is only for the latter.
  bool expect(const std::string& host) {
    X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl_.get());
    if (X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1) return true;
    return SSL_set1_host(ssl_.get(), host.c_str()) == 1 &&
           SSL_set_tlsext_host_name(ssl_.get(), host.c_str()) == 1;
  }

  // Those that have come already, for a caller who does not read; data are left for the next read.
  void take_tickets() {
    char first = 0;
    size_t count = 0;
    ERR_clear_error();
    static_cast<void>(SSL_peek_ex(ssl_.get(), &first, 1, &count));
  }

  static Result<TlsSocket> shake_hands(TlsSocket tls, int (*step)(SSL*), Deadline deadline) {
    const Status done = tls.run([&] { return step(tls.ssl_.get()); }, deadline);
    if (!done) return Error{"TLS: " + done.error()};
    return tls;
  }

  static std::string reason() {
    const unsigned long code = ERR_get_error();
    const char* text = code != 0 ? ERR_reason_error_string(code) : nullptr;
    return text != nullptr ? text : "the connection has failed";
  }

  // Repeats the call until it has been done, waiting as it says. No wait comes between a call and
  // the look at its error, which belongs to the thread.
  template <class Call>
  Status run(Call&& call, Deadline deadline) {
    for (;;) {
      checkpoint();
      ERR_clear_error();
      const int done = call();
      if (done == 1) return Done{};
      short events = 0;
      switch (SSL_get_error(ssl_.get(), done)) {
        case SSL_ERROR_ZERO_RETURN: return Error{"the other end has closed"};
        case SSL_ERROR_WANT_READ: events = POLLIN; break;
        case SSL_ERROR_WANT_WRITE: events = POLLOUT; break;
        default: return Error{reason()};
      }
      if (wait_fd(socket_.fd(), events, deadline) == 0) return Error{"the deadline has passed"};
    }
  }

  Socket socket_;
  std::unique_ptr<SSL, Free> ssl_;  // goes before the socket
};

}  // namespace rubato::inline v1
