// SPDX-License-Identifier: Apache-2.0
#include "runtime/exporter.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "mechanism/clock/clock.h"

namespace rubato {
namespace {

constexpr int kBacklog = 16;
constexpr Nanos kLookForStop = Nanos::millis(100);
constexpr Nanos kPatience = Nanos::seconds(1);  // with one client
constexpr size_t kRequestBytes = 4096;

int to_poll_ms(Nanos time) { return static_cast<int>(time.count() / 1'000'000); }

std::string response(std::string_view status, std::string_view type, std::string_view body) {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" +
         std::string(body);
}

// One connection and the moment at which it is cut off.
class Client {
 public:
  explicit Client(Fd socket) : socket_(std::move(socket)), end_(now() + kPatience) {}

  // Up to the blank line, the size limit, or the end of its time.
  std::string read_head() {
    std::string head;
    std::array<char, 1024> chunk;
    while (head.size() < kRequestBytes && head.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
      if (got > 0) {
        head.append(chunk.data(), static_cast<size_t>(got));
      } else if (got == 0 || !wait_for(POLLIN)) {
        break;
      }
    }
    return head;
  }

  void send_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (!wait_for(POLLOUT)) {
        return;
      }
    }
  }

 private:
  // After a call that moved nothing. False = broken, or out of time.
  bool wait_for(short events) const {
    if (errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    const Nanos left = end_ - now();
    if (left <= Nanos()) return false;
    pollfd ready{socket_.get(), events, 0};
    return ::poll(&ready, 1, to_poll_ms(left) + 1) > 0 || errno == EINTR;
  }

  Fd socket_;
  Instant end_;
};

}  // namespace

Result<std::unique_ptr<Exporter>> Exporter::start(const std::string& bind, uint16_t port,
                                                  Sources sources) {
  SocketAddress address;
  Result<Fd> listener = listen_alone(bind, port, kBacklog, address);
  if (!listener.ok()) return Error{"metrics port: " + listener.error()};
  return std::unique_ptr<Exporter>(
      new Exporter(std::move(listener).value(), address.port(), std::move(sources)));
}

Exporter::Exporter(Fd listener, uint16_t port, Sources sources)
    : listener_(std::move(listener)), port_(port), sources_(std::move(sources)) {
  thread_ = std::thread([this] { serve(); });
}

Exporter::~Exporter() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void Exporter::serve() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    pollfd ready{listener_.get(), POLLIN, 0};
    if (::poll(&ready, 1, to_poll_ms(kLookForStop)) <= 0) continue;
    Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client.valid()) {
      answer(std::move(client));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The connection stays in the backlog and would be reported again at once.
      std::this_thread::sleep_for(std::chrono::nanoseconds(kLookForStop.count()));
    }
  }
}

void Exporter::answer(Fd socket) const {
  Client client(std::move(socket));
  const std::string head = client.read_head();
  const std::string_view line(head.data(), std::min(head.find("\r\n"), head.size()));
  constexpr std::string_view kText = "text/plain; charset=utf-8";
  const auto asks = [line](std::string_view path) {
    const std::string start = "GET " + std::string(path);
    return line.starts_with(start) && line.size() > start.size() &&
           (line[start.size()] == ' ' || line[start.size()] == '?');
  };
  if (asks("/metrics")) {
    constexpr std::string_view kType =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";
    return client.send_all(response("200 OK", kType, sources_.metrics()));
  }
  if (asks("/healthz")) return client.send_all(response("200 OK", kText, "ok\n"));
  if (asks("/readyz")) {
    return client.send_all(sources_.ready() ? response("200 OK", kText, "ready\n")
                                             : response("503 Service Unavailable", kText,
                                                        "not ready\n"));
  }
  if (asks("/plan")) return client.send_all(response("200 OK", kText, sources_.plan()));
  if (!line.starts_with("GET ")) {
    return client.send_all(response("405 Method Not Allowed", kText, "GET only\n"));
  }
  client.send_all(response("404 Not Found", kText, "try /metrics, /plan, /healthz or /readyz\n"));
}

}  // namespace rubato
