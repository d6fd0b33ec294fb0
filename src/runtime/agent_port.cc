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
constexpr int kAnswersPerTurn = 64;  // then the thread looks at the load again, if due

int to_poll_ms(Nanos time) {
  return static_cast<int>(std::max<int64_t>(time.count(), 0) / 1000000);
}

}  // namespace

Result<std::unique_ptr<AgentPort>> AgentPort::start(const std::string& bind, uint16_t port,
                                                    Runtime& runtime, int given) {
  SocketAddress address = local_address(given);
  Result<Fd> listener = given >= 0 ? share_listener(given, false)
                                   : listen_alone(bind, port, kBacklog, address);
  if (!listener.ok()) return Error{"agent port: " + listener.error()};
  return std::unique_ptr<AgentPort>(
      new AgentPort(std::move(listener).value(), address.port(), runtime));
}

AgentPort::AgentPort(Fd listener, uint16_t port, Runtime& runtime)
    : listener_(std::move(listener)),
      port_(port),
      runtime_(runtime),
      weight_(runtime.settings().refusal_rule().target_delay) {
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
    // A client that cannot be accepted stays in the backlog and would be reported again at once.
    if (answers == 0) {
      std::this_thread::sleep_for(
          std::chrono::nanoseconds(overload::AdvertisedWeight::kLookEvery.count()));
    }
  }
}

void AgentPort::look() {
  weight_.look(health());
  runtime_.advertise(drains() ? 0 : weight_.percent());
}

// The delay of short requests; where long ones have a target of their own, also theirs, as the same
// part of that target.
Nanos AgentPort::delay() const {
  const Nanos of_short = runtime_.queue_delay(JobClass::kShort);
  const overload::RefusalSettings settings = runtime_.settings().refusal_rule();
  if (!settings.tells_long()) return of_short;
  const double part = static_cast<double>(settings.target_delay.count()) /
                      static_cast<double>(settings.target_delay_long.count());
  const Nanos of_long = runtime_.queue_delay(JobClass::kLong);
  const double scaled = static_cast<double>(of_long.count()) * part;
  return std::max(of_short, Nanos(static_cast<int64_t>(scaled)));
}

// Refusals of a client that sends more than its credit are not counted: they say nothing of the
// server.
overload::ServerHealth AgentPort::health() const {
  const RuntimeStats stats = runtime_.stats();
  overload::ServerHealth health{.served = stats.requests,
                                .refused = stats.refused,
                                .delay = delay()};
  if (runtime_.options().credits == nullptr) return health;
  const CreditReport credits = runtime_.options().credits->report();
  for (const uint64_t uncredited : credits.refusals[static_cast<size_t>(Refusal::kShare)]) {
    health.refused -= std::min(uncredited, health.refused);
  }
  health.delay = std::max(health.delay, credits.delay);
  health.sessions = credits.sessions;
  health.drained = credits.drained;
  return health;
}

std::string AgentPort::line() const {
  if (drains()) return "drain\n";
  return "up ready " + std::to_string(weight_.percent()) + "%\n";
}

// The bytes that the client has sent are dropped, as unread bytes would turn the close into a
// reset, which can overtake the line.
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
