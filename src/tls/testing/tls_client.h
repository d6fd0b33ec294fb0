// SPDX-License-Identifier: Apache-2.0
//
// TlsClient: the client's end of TLS over a non-blocking socket, of which a test decides how many
// bytes move when. One thread.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "datapath/tcp_socket.h"
#include "tls/openssl_session.h"
#include "tls/testing/certificates.h"

namespace rubato::testing {

class TlsClient {
 public:
  // `shows`: the client's certificate, null = none.
  explicit TlsClient(Fd socket, const Credential* shows = nullptr, int version = 0)
      : socket_(std::move(socket)), context_(SSL_CTX_new(TLS_client_method())) {
    if (version != 0) SSL_CTX_set_max_proto_version(context_.get(), version);
    if (shows != nullptr) {
      SSL_CTX_use_certificate(context_.get(), shows->certificate.get());
      SSL_CTX_use_PrivateKey(context_.get(), shows->key.get());
    }
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_.get());
    SSL_do_handshake(ssl_.get());
  }

  bool established() const { return SSL_is_init_finished(ssl_.get()) == 1; }
  // The server's certificate; 0 = it has shown none.
  long serial_of_server() const {
    const CertificatePtr shown(SSL_get1_peer_certificate(ssl_.get()));
    return shown != nullptr ? ASN1_INTEGER_get(X509_get0_serialNumber(shown.get())) : 0;
  }
  const std::string& received() const { return received_; }
  // The server has said goodbye, or has refused the client.
  bool over() const { return over_; }
  int fd() const { return socket_.get(); }

  // Seals the bytes; push() sends them.
  void write(std::string_view bytes) {
    size_t taken = 0;
    ASSERT_EQ(SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &taken), 1);
    ASSERT_EQ(taken, bytes.size());
  }
  void say_goodbye() { SSL_shutdown(ssl_.get()); }
  // Sends at most `most` of the sealed bytes. False: there were none.
  bool push(size_t most = SIZE_MAX) {
    std::vector<char> bytes(std::min(most, BIO_ctrl_pending(SSL_get_wbio(ssl_.get()))));
    if (bytes.empty()) return false;
    EXPECT_EQ(BIO_read(SSL_get_wbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size())),
              static_cast<int>(bytes.size()));
    return send_bytes(socket_.get(), {bytes.data(), bytes.size()}) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Takes at most `most` bytes from the socket. False: there were none.
  bool pull(size_t most = size_t{64} * 1024) {
    std::vector<char> bytes(most);
    const ssize_t got = receive_bytes(socket_.get(), bytes.data(), most);
    over_ |= got == 0;
    if (got <= 0) return false;
    BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), static_cast<int>(got));
    open_bytes();
    return true;
  }

 private:
  void open_bytes() {
    char bytes[4096];
    size_t got = 0;
    ERR_clear_error();
    int result = 0;
    while ((result = SSL_read_ex(ssl_.get(), bytes, sizeof bytes, &got)) == 1) {
      received_.append(bytes, got);
    }
    over_ |= SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ;
  }

  Fd socket_;
  std::unique_ptr<SSL_CTX, OpenSslFree<SSL_CTX_free>> context_;
  SslPtr ssl_;
  std::string received_;
  bool over_ = false;
};

}  // namespace rubato::testing
