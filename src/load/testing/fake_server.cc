// SPDX-License-Identifier: Apache-2.0
#include "load/testing/fake_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "base/check.h"

namespace rubato::load {

FakeServer::FakeServer(FakeScript script)
    : script_(std::move(script)),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      stop_event_(::eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  RUBATO_CHECK(::bind(listener_.get(), generic, length) == 0);
  RUBATO_CHECK(::listen(listener_.get(), SOMAXCONN) == 0);
  RUBATO_CHECK(::getsockname(listener_.get(), generic, &length) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

FakeServer::~FakeServer() {
  const uint64_t one = 1;
  RUBATO_CHECK(::write(stop_event_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
}

void FakeServer::serve() {
  while (true) {
    std::vector<pollfd> watched = {{stop_event_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& [fd, connection] : connections_) watched.push_back({fd, POLLIN, 0});
    ::poll(watched.data(), watched.size(), -1);
    if (watched[0].revents != 0) return;
    if (watched[1].revents != 0) accept_one();
    for (size_t i = 2; i < watched.size(); ++i) {
      if (watched[i].revents == 0) continue;
      const auto found = connections_.find(watched[i].fd);
      if (!serve_connection(found->second)) connections_.erase(found);
    }
  }
}

void FakeServer::accept_one() {
  Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int number = fd.get();
  if (fd.open()) connections_[number].channel = Channel(std::move(fd), nullptr);
}

bool FakeServer::serve_connection(Connection& connection) {
  std::array<char, 65536> buffer;
  const ssize_t got = connection.channel.receive(buffer.data(), buffer.size());
  if (got <= 0) return false;
  // A command has the form of a reply that is an array.
  for (size_t at = 0; at < static_cast<size_t>(got);) {
    size_t used = 0;
    const auto status =
        connection.parser.feed(buffer.data() + at, static_cast<size_t>(got) - at, used);
    at += used;
    if (status == ReplyParser::Status::kBroken) return false;
    if (status == ReplyParser::Status::kReply && !answer(connection)) return false;
  }
  return true;
}

bool FakeServer::answer(Connection& connection) {
  const uint64_t index = commands_.fetch_add(1);
  if (index == script_.stall_at) ::usleep(static_cast<useconds_t>(script_.stall.count() / 1000));
  if (index == script_.close_at) return false;
  return send_all(connection.channel, script_.reply(index), Nanos::seconds(5));
}

}  // namespace rubato::load
