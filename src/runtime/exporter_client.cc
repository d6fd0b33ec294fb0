// SPDX-License-Identifier: Apache-2.0
#include "runtime/exporter_client.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace rubato {
namespace {

constexpr size_t kRequestBytes = 4096;

// True if a call that moved no byte may be repeated.
bool may_go_on(int problem) {
  return problem == EAGAIN || problem == EWOULDBLOCK || problem == EINTR;
}

}  // namespace

void ExporterClient::read() {
  std::array<char, 1024> chunk;
  while (state_ == State::kReading) {
    const ssize_t got = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
    if (got < 0) {
      if (!may_go_on(errno)) state_ = State::kOver;
      return;
    }
    bytes_.append(chunk.data(), static_cast<size_t>(got));
    if (got == 0) {
      state_ = bytes_.empty() ? State::kOver : State::kAsked;
    } else if (bytes_.size() >= kRequestBytes || bytes_.find("\r\n\r\n") != std::string::npos) {
      state_ = State::kAsked;
    }
  }
}

void ExporterClient::reply(std::string bytes) {
  bytes_ = std::move(bytes);
  state_ = State::kWriting;
  write();
}

void ExporterClient::write() {
  while (sent_ < bytes_.size()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes_.data() + sent_, bytes_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0) {
      if (!may_go_on(errno)) state_ = State::kOver;
      return;
    }
    sent_ += static_cast<size_t>(sent);
  }
  state_ = State::kOver;
}

}  // namespace rubato
