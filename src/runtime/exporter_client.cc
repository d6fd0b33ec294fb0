// SPDX-License-Identifier: Apache-2.0
#include "runtime/exporter_client.h"

#include <array>
#include <cerrno>
#include <utility>

namespace rubato {
namespace {

constexpr size_t kRequestBytes = 4096;
constexpr int kMostChunks = 64;  // of a request that is too large: the reply is sent then

// The result of a call on the socket.
Transfer outcome(ssize_t moved) {
  if (moved > 0) return {Transfer::State::kMoved, static_cast<size_t>(moved)};
  if (moved == 0) return {Transfer::State::kEnd, 0};
  const bool later = errno == EAGAIN || errno == EWOULDBLOCK;
  return {later ? Transfer::State::kWait : Transfer::State::kBroken, 0};
}

}  // namespace

ExporterClient::ExporterClient(Fd socket, std::string peer, Instant end, TlsContext* tls)
    : socket_(std::move(socket)), peer_(std::move(peer)), end_(end) {
  if (tls == nullptr) return;
  tls_ = tls->accept(socket_.get(), nullptr);
  if (tls_ == nullptr) state_ = State::kOver;
}

Transfer ExporterClient::receive(char* to, size_t room) {
  Instant when;
  if (tls_ != nullptr) return tls_->receive(to, room, false, when);
  return outcome(receive_bytes(socket_.get(), to, room));
}

Transfer ExporterClient::transmit(std::string_view bytes) {
  return tls_ != nullptr ? tls_->transmit(bytes) : outcome(send_bytes(socket_.get(), bytes));
}

void ExporterClient::read() {
  std::array<char, 1024> chunk;
  while (state_ == State::kReading) {
    const Transfer got = receive(chunk.data(), chunk.size());
    if (got.state == Transfer::State::kWait) return;
    if (got.state == Transfer::State::kBroken) return finish();
    bytes_.append(chunk.data(), got.bytes);
    if (got.state == Transfer::State::kEnd) {
      state_ = bytes_.empty() ? State::kOver : State::kAsked;
    } else if (bytes_.find("\r\n\r\n") != std::string::npos) {
      state_ = State::kAsked;
    } else if (bytes_.size() >= kRequestBytes) {
      // Bytes that are not read would make the system reset the connection, with the reply.
      for (int i = 0; i < kMostChunks; ++i) {
        if (receive(chunk.data(), chunk.size()).bytes == 0) break;
      }
      too_large_ = true;
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
    const Transfer sent = transmit(std::string_view(bytes_).substr(sent_));
    if (sent.state == Transfer::State::kWait) return;
    if (sent.state != Transfer::State::kMoved) break;
    sent_ += sent.bytes;
  }
  finish();
}

void ExporterClient::finish() {
  if (tls_ != nullptr) tls_->say_goodbye();
  state_ = State::kOver;
}

}  // namespace rubato
