// SPDX-License-Identifier: Apache-2.0
#include "runtime/exporter.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

namespace rubato {
namespace {

constexpr int kBacklog = 16;
constexpr int kLookForStopMs = 100;
constexpr size_t kRequestBytes = 4096;

std::string response(std::string_view status, std::string_view type, std::string_view body) {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" +
         std::string(body);
}

Result<int> listen_on(const std::string& bind_to, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string where = bind_to + ":" + std::to_string(port);
  const int failed = getaddrinfo(bind_to.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) {
    return Error{"metrics port: cannot resolve " + where + ": " + gai_strerror(failed)};
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, kBacklog) == 0;
  const int reason = errno;
  freeaddrinfo(found);
  if (bound) return fd;
  close(fd);
  return Error{"metrics port: cannot listen on " + where + ": " + std::strerror(reason)};
}

uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// Up to the blank line, the limit, or the time-out set on the socket.
std::string read_head(int client) {
  std::string head;
  std::array<char, 1024> chunk;
  while (head.size() < kRequestBytes && head.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = recv(client, chunk.data(), chunk.size(), 0);
    if (got <= 0) break;
    head.append(chunk.data(), static_cast<size_t>(got));
  }
  return head;
}

void send_all(int client, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

}  // namespace

Result<std::unique_ptr<Exporter>> Exporter::start(const std::string& bind, uint16_t port,
                                                  Sources sources) {
  Result<int> listener = listen_on(bind, port);
  if (!listener.ok()) return Error{listener.error()};
  return std::unique_ptr<Exporter>(
      new Exporter(*listener, port_of(*listener), std::move(sources)));
}

Exporter::Exporter(int listener, uint16_t port, Sources sources)
    : listener_(listener), port_(port), sources_(std::move(sources)) {
  thread_ = std::thread([this] { serve(); });
}

Exporter::~Exporter() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.join();
  close(listener_);
}

void Exporter::serve() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    pollfd ready{listener_, POLLIN, 0};
    if (::poll(&ready, 1, kLookForStopMs) <= 0) continue;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    const timeval limit{1, 0};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    answer(client);
    close(client);
  }
}

void Exporter::answer(int client) const {
  const std::string head = read_head(client);
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
    return send_all(client, response("200 OK", kType, sources_.metrics()));
  }
  if (asks("/healthz")) return send_all(client, response("200 OK", kText, "ok\n"));
  if (asks("/readyz")) {
    return send_all(client, sources_.ready() ? response("200 OK", kText, "ready\n")
                                             : response("503 Service Unavailable", kText,
                                                        "not ready\n"));
  }
  if (!line.starts_with("GET ")) {
    return send_all(client, response("405 Method Not Allowed", kText, "GET only\n"));
  }
  send_all(client, response("404 Not Found", kText, "try /metrics, /healthz or /readyz\n"));
}

}  // namespace rubato
