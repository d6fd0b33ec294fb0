// SPDX-License-Identifier: Apache-2.0
#include "cli/top/fetch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "load/channel.h"
#include "load/socket.h"
#include "mechanism/clock/clock.h"

namespace rubato::cli {
namespace {

using load::Channel;
using load::Target;

constexpr size_t kMostBytes = 64 << 20;
constexpr Nanos kPatience = Nanos::seconds(2);

Error trouble(const load::Endpoint& from, const std::string& what) {
  return {from.text + " " + what};
}

// Until the other side closes.
Result<std::string> receive_all(Channel& channel, const load::Endpoint& from, Instant limit) {
  std::string reply;
  std::array<char, 65536> piece;
  while (reply.size() <= kMostBytes) {
    const Nanos left = limit - now();
    const bool ready = channel.holds_more() || load::wait_readable(channel.fd(), left);
    if (left <= Nanos() || !ready) return trouble(from, "does not answer in time");
    const ssize_t got = channel.receive(piece.data(), piece.size());
    if (got == 0) return reply;
    if (got < 0 && errno != EAGAIN && errno != EINTR) return trouble(from, std::strerror(errno));
    if (got > 0) reply.append(piece.data(), static_cast<size_t>(got));
  }
  return trouble(from, "tells more than 64 MiB");
}

// The length that the head tells, or none.
size_t length_in(std::string_view head) {
  constexpr std::string_view kName = "\r\nContent-Length: ";
  const size_t at = head.find(kName);
  size_t length = std::string::npos;
  if (at == std::string_view::npos) return length;
  std::from_chars(head.data() + at + kName.size(), head.data() + head.size(), length);
  return length;
}

Result<std::string> body_of(const std::string& reply, const load::Endpoint& from) {
  const size_t end = reply.find("\r\n\r\n");
  if (!reply.starts_with("HTTP/1.1 200") || end == std::string::npos) {
    return trouble(from, reply.starts_with("HTTP/1.1 404")
                             ? "has no /state: its Rubato is older, or it is another server"
                             : "is no metrics port of a Rubato server, or one with TLS (--tls)");
  }
  std::string body = reply.substr(end + 4);
  if (body.size() != length_in(std::string_view(reply).substr(0, end))) {
    return trouble(from, "closed the connection before its answer was complete");
  }
  return body;
}

// The whole reply to one request. `headers` end with a new line each.
Result<std::string> ask(const MetricsPort& server, const load::Endpoint& to,
                        const std::string& what, const std::string& headers, Nanos timeout) {
  const Instant limit = now() + timeout;
  Result<Channel> channel = load::connect_channel(to, server.tls.get(), timeout);
  if (!channel) return Error{channel.error()};
  const std::string request = what + " HTTP/1.1\r\nHost: " + to.text +
                              "\r\nConnection: close\r\n" + headers + "\r\n";
  if (!load::send_all(*channel, request, timeout)) return trouble(to, "takes no request");
  return receive_all(*channel, to, limit);
}

std::string url_encoded(const std::string& text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                       (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '_' || byte == '.';
    if (plain) {
      encoded += c;
    } else {
      encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return encoded;
}

}  // namespace

// Servers tell their port as http://HOST:PORT/metrics.
Result<Target> parse_metrics_port(const std::string& text) {
  std::string_view host = text;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!host.starts_with(scheme)) continue;
    host.remove_prefix(scheme.size());
    host = host.substr(0, host.find('/'));
  }
  const bool alone = host.find(':') == std::string_view::npos;
  Result<Target> target =
      load::parse_target(std::string(alone ? "resp://127.0.0.1:" : "resp://").append(host));
  if (target) return target;
  return Error{"takes HOST:PORT with a port of 1 to 65535, not '" + text + "'"};
}

Result<std::string> fetch_state(const MetricsPort& server, Nanos timeout) {
  const Result<load::Endpoint> to = load::resolve(server.target);
  if (!to) return Error{to.error()};
  const Result<std::string> reply = ask(server, to.value(), "GET /state", "", timeout);
  return reply ? body_of(reply.value(), to.value()) : reply;
}

Status set_option(const MetricsPort& server, const std::string& token, const std::string& name,
                  const std::string& value, Nanos timeout) {
  const Result<load::Endpoint> to = load::resolve(server.target);
  if (!to) return Error{to.error()};
  const Result<std::string> reply =
      ask(server, to.value(), "POST /set?" + url_encoded(name) + "=" + url_encoded(value),
          "Authorization: Bearer " + token + "\r\n", timeout);
  if (!reply) return Error{reply.error()};
  const std::string& text = reply.value();
  if (text.starts_with("HTTP/1.1 200")) return Done{};
  const size_t body = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 40") || body == std::string::npos) {
    return trouble(to.value(), "is no metrics port that sets options");
  }
  const size_t begin = body + 4;
  return trouble(to.value(), "refuses: " + text.substr(begin, text.find('\n', begin) - begin));
}

Watch::Watch(MetricsPort server, Nanos interval)
    : server_(std::move(server)), interval_(interval), thread_([this] { ask_on(); }) {}

Watch::~Watch() {
  stop();
  thread_.join();
}

void Watch::stop() {
  const std::scoped_lock lock(mutex_);
  ending_ = true;
  end_.notify_all();
}

bool Watch::take(Result<std::string>& answer) {
  const std::scoped_lock lock(mutex_);
  if (!std::exchange(has_answer_, false)) return false;
  answer = std::move(answer_);
  return true;
}

void Watch::ask_on() {
  auto next = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    Result<std::string> answer = fetch_state(server_, kPatience);
    lock.lock();
    answer_ = std::move(answer);
    has_answer_ = true;
    next = std::max(next + std::chrono::nanoseconds(interval_.count()),
                    std::chrono::steady_clock::now());
    end_.wait_until(lock, next, [this] { return ending_; });
  }
}

}  // namespace rubato::cli
