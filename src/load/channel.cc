// SPDX-License-Identifier: Apache-2.0
#include "load/channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace rubato::load {
namespace {

ssize_t fails_with(int code) {
  errno = code;
  return -1;
}

// The result of a call by the rules of recv and send.
ssize_t as_of_socket(const Transfer& transfer) {
  switch (transfer.state) {
    case Transfer::State::kMoved: return static_cast<ssize_t>(transfer.bytes);
    case Transfer::State::kEnd: return 0;
    case Transfer::State::kWait: return fails_with(EAGAIN);
    case Transfer::State::kBroken: break;
  }
  return fails_with(ECONNRESET);
}

}  // namespace

Channel::Channel(Fd socket, TlsConnector* tls) : socket_(std::move(socket)) {
  if (tls == nullptr || !socket_.open()) return;
  tls_ = tls->connect(socket_.get());
  if (tls_ != nullptr) return;
  socket_.reset();
  errno = ENOMEM;
}

void Channel::close() {
  tls_.reset();
  socket_.reset();
  holds_more_ = false;
}

Result<bool> Channel::stands() {
  if (const int code = connect_error(fd()); code != 0) return Error{std::strerror(code)};
  if (tls_ == nullptr || tls_->established()) return true;
  const Transfer::State state = tls_->transmit({}).state;
  if (state != Transfer::State::kBroken) return tls_->established();
  return Error{std::string("TLS: ") + tls_->failure()};
}

ssize_t Channel::receive(char* to, size_t room) {
  if (tls_ == nullptr) return ::recv(fd(), to, room, 0);
  Instant unused;
  const Transfer got = tls_->receive(to, room, false, unused);
  holds_more_ = got.state == Transfer::State::kMoved && got.bytes == room;
  return as_of_socket(got);
}

ssize_t Channel::send(std::string_view bytes) {
  if (tls_ == nullptr) return ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return as_of_socket(tls_->transmit(bytes));
}

Result<Channel> connect_channel(const Endpoint& endpoint, TlsConnector* tls, Nanos timeout) {
  Result<Fd> socket = connect_now(endpoint, timeout);
  if (!socket) return Error{socket.error()};
  const std::string name = "cannot connect to " + endpoint.text + ": ";
  Channel channel(std::move(*socket), tls);
  if (!channel.open()) return Error{name + std::strerror(errno)};
  for (;;) {
    Result<bool> stands = channel.stands();
    if (!stands) return Error{name + stands.error()};
    if (*stands) return channel;
    if (!wait_readable(channel.fd(), timeout)) {
      return Error{name + "TLS: no answer to the handshake: does the port speak it?"};
    }
  }
}

bool send_all(Channel& channel, std::string_view bytes, Nanos timeout) {
  while (!bytes.empty()) {
    const ssize_t sent = channel.send(bytes);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_writable(channel.fd(), timeout)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace rubato::load
