// SPDX-License-Identifier: Apache-2.0
#include "tls/openssl_session.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "datapath/tcp_socket.h"

namespace rubato {
namespace {

bool is_to_wait(int problem) { return problem == EAGAIN || problem == EWOULDBLOCK; }

}  // namespace

// Of the error that OpenSSL met first; its texts live as long as the process. What is wrong with
// the server's certificate is for the client.
const char* OpenSslSession::reason_of_failure() const {
  const long verified = SSL_get_verify_result(ssl_.get());
  if (SSL_is_server(ssl_.get()) == 0 && verified != X509_V_OK) {
    return X509_verify_cert_error_string(verified);
  }
  const char* const reason = ERR_reason_error_string(ERR_peek_error());
  if (reason != nullptr) return reason;
  return SSL_is_server(ssl_.get()) == 0 ? "the server went away" : "the client went away";
}

int OpenSslSession::read_wire(BIO* bio, char* to, int room) {
  auto& wire = *static_cast<Wire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (wire.emptied) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const auto size = static_cast<size_t>(room);
  const ssize_t got = wire.dated != nullptr ? receive_dated(wire.socket, to, size, *wire.dated)
                                            : receive_bytes(wire.socket, to, size);
  wire.emptied = got > 0 && got < room;
  wire.ended = got == 0;
  if (got < 0 && is_to_wait(errno)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

int OpenSslSession::write_wire(BIO* bio, const char* bytes, int size) {
  const auto& wire = *static_cast<const Wire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send_bytes(wire.socket, {bytes, static_cast<size_t>(size)});
  if (sent < 0 && is_to_wait(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

// The handshake flushes what it has written, which is on its way already.
long OpenSslSession::control_wire(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return static_cast<const Wire*>(BIO_get_data(bio))->ended ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* OpenSslSession::wire_method() {
  using Owner = std::unique_ptr<BIO_METHOD, OpenSslFree<BIO_meth_free>>;
  static const Owner method = [] {
    Owner made(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket"));
    if (made == nullptr) return made;
    BIO_meth_set_read(made.get(), read_wire);
    BIO_meth_set_write(made.get(), write_wire);
    BIO_meth_set_ctrl(made.get(), control_wire);
    return made;
  }();
  return method.get();
}

std::unique_ptr<OpenSslSession> OpenSslSession::open(SSL_CTX& context, int socket,
                                                     MemoryAccount* account,
                                                     TlsCounters& counters, End end) {
  MemoryShare memory(account);
  if (!memory.resize(kBytes)) return nullptr;
  std::unique_ptr<OpenSslSession> session(new OpenSslSession(std::move(memory), counters));
  return session->attach(context, socket, end) ? std::move(session) : nullptr;
}

bool OpenSslSession::attach(SSL_CTX& context, int socket, End end) {
  wire_.socket = socket;
  ssl_.reset(SSL_new(&context));
  BIO* const bio = ssl_ != nullptr ? BIO_new(wire_method()) : nullptr;
  if (bio == nullptr) return false;
  BIO_set_data(bio, &wire_);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  if (end == End::kServer) {
    SSL_set_accept_state(ssl_.get());
  } else {
    SSL_set_connect_state(ssl_.get());
  }
  return true;
}

// Names of servers are told to them, addresses are not (RFC 6066, section 3).
bool OpenSslSession::expect(const std::string& name, bool verify) {
  SSL* const ssl = ssl_.get();
  X509_VERIFY_PARAM* const checks = SSL_get0_param(ssl);
  in6_addr unused{};
  const bool is_address = ::inet_pton(AF_INET, name.c_str(), &unused) == 1 ||
                          ::inet_pton(AF_INET6, name.c_str(), &unused) == 1;
  if (is_address) return !verify || X509_VERIFY_PARAM_set1_ip_asc(checks, name.c_str()) == 1;
  return SSL_set_tlsext_host_name(ssl, name.c_str()) == 1 &&
         (!verify || X509_VERIFY_PARAM_set1_host(checks, name.c_str(), 0) == 1);
}

OpenSslSession::~OpenSslSession() {
  if (!established_) counters_.failed.fetch_add(1, std::memory_order_relaxed);
}

// OpenSSL judges a call by the thread's queue of errors, which must be empty before.
void OpenSslSession::begin(Instant* dated) {
  ERR_clear_error();
  wire_.emptied = false;
  wire_.dated = dated;
}

void OpenSslSession::note_handshake() {
  if (established_ || SSL_is_init_finished(ssl_.get()) == 0) return;
  established_ = true;
  counters_.handshakes.fetch_add(1, std::memory_order_relaxed);
}

// What becomes of a connection on which OpenSSL could not go on.
Transfer::State OpenSslSession::failed_with(int result) {
  note_handshake();
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return Transfer::State::kWait;
  over_ = true;
  if (error == SSL_ERROR_ZERO_RETURN && established_) return Transfer::State::kEnd;
  broken_ = true;
  failure_ = reason_of_failure();
  if (!established_) counters_.last_failure.store(failure_, std::memory_order_relaxed);
  return Transfer::State::kBroken;
}

Transfer OpenSslSession::receive(char* to, size_t room, bool exact, Instant& when) {
  if (broken_) return {Transfer::State::kBroken, 0};
  begin(exact ? &when : nullptr);
  size_t got = 0;
  auto state = Transfer::State::kMoved;
  while (got < room && state == Transfer::State::kMoved) {
    size_t more = 0;
    const int result = SSL_read_ex(ssl_.get(), to + got, room - got, &more);
    got += more;
    if (result != 1) state = failed_with(result);
  }
  note_handshake();
  return {got > 0 ? Transfer::State::kMoved : state, got};
}

Transfer OpenSslSession::transmit(std::string_view bytes) {
  if (broken_) return {Transfer::State::kBroken, 0};
  if (bytes.size() < unfinished_bytes_) return {Transfer::State::kWait, 0};
  begin(nullptr);
  size_t sent = 0;
  const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent);
  const auto state = result == 1 ? Transfer::State::kMoved : failed_with(result);
  note_handshake();
  const bool waits = state == Transfer::State::kWait;
  unfinished_bytes_ = waits ? std::min<size_t>(bytes.size(), SSL3_RT_MAX_PLAIN_LENGTH) : 0;
  return {state == Transfer::State::kEnd ? Transfer::State::kBroken : state, sent};
}

void OpenSslSession::say_goodbye() {
  if (broken_ || !established_) return;
  begin(nullptr);
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

}  // namespace rubato
