// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent_port.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "mechanism/clock/clock.h"

namespace rubato {
namespace {

constexpr int kBacklog = 16;
constexpr int kAnswersPerTurn = 64;  // then it looks again, if it is due

int to_poll_ms(Nanos time) {
  return static_cast<int>(std::max<int64_t>(time.count(), 0) / 1000000);
}

}  // namespace

Result<std::unique_ptr<AgentPort>> AgentPort::start(const std::string& bind, uint16_t port,
                                                    const Runtime& runtime) {
  SocketAddress address;
  Result<Fd> listener = listen_alone(bind, port, kBacklog, address);
  if (!listener.ok()) return Error{"agent port: " + listener.error()};
  return std::unique_ptr<AgentPort>(
      new AgentPort(std::move(listener).value(), address.port(), runtime));
}

AgentPort::AgentPort(Fd listener, uint16_t port, const Runtime& runtime)
    : listener_(std::move(listener)),
      port_(port),
      runtime_(runtime),
      weight_(runtime.options().shedding.target_delay) {
  thread_ = std::thread([this] { serve(); });
}

AgentPort::~AgentPort() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void AgentPort::serve() {
  Instant next_look = now();
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (now() >= next_look) {
      look();
      next_look = now() + overload::AdvertisedWeight::kLookEvery;
    }
    pollfd ready{listener_.get(), POLLIN, 0};
    if (::poll(&ready, 1, to_poll_ms(next_look - now()) + 1) <= 0) continue;
    int answers = 0;
    for (; answers < kAnswersPerTurn; ++answers) {
      const Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!client.valid()) break;
      answer(client);
    }
    // Who cannot be accepted stays in the backlog and would be reported again at once.
    if (answers == 0) {
      std::this_thread::sleep_for(
          std::chrono::nanoseconds(overload::AdvertisedWeight::kLookEvery.count()));
    }
  }
}

void AgentPort::look() {
  const RuntimeStats stats = runtime_.stats();
  weight_.look({.served = stats.requests,
                .refused = stats.refused,
                .delay = runtime_.queue_delay(JobClass::kShort)});
}

std::string AgentPort::line() const {
  if (!runtime_.serving() || weight_.drains()) return "drain\n";
  return "up ready " + std::to_string(weight_.percent()) + "%\n";
}

// What the client has sent is dropped, as unread bytes would turn the close into a reset, which can
// overtake the line.
void AgentPort::answer(const Fd& socket) const {
  char unused[1024];
  const ssize_t dropped = ::recv(socket.get(), unused, sizeof unused, MSG_DONTWAIT);
  const std::string text = line();
  const ssize_t sent = ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  static_cast<void>(dropped);
  static_cast<void>(sent);  // a client that is gone already has missed it
  ::shutdown(socket.get(), SHUT_WR);
}

}  // namespace rubato
