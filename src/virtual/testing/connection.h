// SPDX-License-Identifier: Apache-2.0
//
// Connection: a client's end of a TCP connection to a port of the world, as programs use sockets:
// calls wait. For tests, one thread.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace rubato::virt::testing {

inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

class Connection {
 public:
  explicit Connection(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const sockaddr_in address = loopback(port);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Connection() { ::close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }

  // Reads nothing meanwhile. False = the connection is gone.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
      if (sent < 0 && errno != EINTR) return false;
    }
    return true;
  }

  // The text of the next RESP reply; nothing = the connection ended before.
  std::optional<std::string> reply() {
    size_t end = 0;
    while (!whole_reply(0, end)) {
      if (!receive()) return std::nullopt;
    }
    return take_first(end);
  }

  // The next line, with its end; the next `size` bytes.
  std::optional<std::string> line() {
    size_t end = 0;
    while ((end = unread_.find("\r\n")) == std::string::npos) {
      if (!receive()) return std::nullopt;
    }
    return take_first(end + 2);
  }
  std::optional<std::string> bytes(size_t size) {
    while (unread_.size() < size) {
      if (!receive()) return std::nullopt;
    }
    return take_first(size);
  }

  // The bytes that have come, at least one; false = the connection ended.
  bool receive() {
    char chunk[4096];
    ssize_t got = 0;
    do {
      got = ::recv(fd_, chunk, sizeof chunk, 0);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) return false;
    unread_.append(chunk, static_cast<size_t>(got));
    return true;
  }
  std::string take() { return std::exchange(unread_, {}); }

  // Closing is a reset from now on.
  void reset_at_close() {
    const linger at_once{1, 0};
    RUBATO_CHECK(::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  }

 private:
  std::string take_first(size_t size) {
    std::string text = unread_.substr(0, size);
    unread_.erase(0, size);
    return text;
  }

  // Sets `end` to where the reply at `begin` ends.
  bool whole_reply(size_t begin, size_t& end) const {
    const size_t line = unread_.find("\r\n", begin);
    if (line == std::string::npos) return false;
    end = line + 2;
    const char kind = unread_[begin];
    if (kind != '$' && kind != '*') return true;
    const long count = std::stol(unread_.substr(begin + 1, line - begin - 1));
    if (count < 0) return true;
    if (kind == '$') {
      end += static_cast<size_t>(count) + 2;
      return end <= unread_.size();
    }
    for (long i = 0; i < count; ++i) {
      if (end >= unread_.size() || !whole_reply(end, end)) return false;
    }
    return true;
  }

  const int fd_;
  bool connected_ = false;
  std::string unread_;
};

}  // namespace rubato::virt::testing
