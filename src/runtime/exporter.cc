// SPDX-License-Identifier: Apache-2.0
#include "runtime/exporter.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/secret.h"
#include "mechanism/clock/clock.h"

namespace rubato {
namespace {

constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr std::string_view kSet = "POST /set";
constexpr int kBacklog = 128;
constexpr Nanos kLastRequests = Nanos::millis(100);
constexpr Nanos kLookForStop = Nanos::millis(100);
constexpr Nanos kLookForSet = Nanos::millis(5);  // while an option is being set

using State = ExporterClient::State;

int to_poll_ms(Nanos time) { return static_cast<int>(time.count() / 1'000'000); }

std::string response(std::string_view status, std::string_view type, std::string_view body) {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" +
         std::string(body);
}

std::string_view first_line(std::string_view head) { return head.substr(0, head.find("\r\n")); }

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// What follows the name (in lower case) and the colon; empty = there is no such header.
std::string_view header_of(std::string_view head, const std::string& name) {
  const size_t at = in_lower_case(head).find("\r\n" + name + ":");
  if (at == std::string::npos) return {};
  std::string_view value = first_line(head.substr(at + name.size() + 3));
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

// A browser names the site whose page asks; other programs do not. A page of another site cannot
// know the token, nor send it without a leave that is never given here; this is for one that does.
bool is_of_another_site(std::string_view head) {
  const std::string_view origin = header_of(head, "origin");
  if (origin.empty()) return false;
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ||
         in_lower_case(origin.substr(scheme + 3)) != in_lower_case(header_of(head, "host"));
}

// Whoever accepts anything else gets the older format, which all understand.
bool accepts_open_metrics(std::string_view head) {
  const std::string value = in_lower_case(header_of(head, "accept"));
  return value.find("application/openmetrics-text") != std::string::npos;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Without %XX; nothing = it is malformed.
std::optional<std::string> url_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

bool is_set(std::string_view head) {
  const std::string_view line = first_line(head);
  return line.starts_with(kSet) && line.size() > kSet.size() &&
         (line[kSet.size()] == ' ' || line[kSet.size()] == '?');
}

// Of a request that is_set. Fails with one line.
Result<std::pair<std::string, std::string>> name_and_value(std::string_view head) {
  std::string_view query = first_line(head).substr(kSet.size());
  query = query.substr(0, query.find(' '));
  const std::string_view length = header_of(head, "content-length");
  if (query.empty() || (!length.empty() && length != "0")) {
    return Error{"takes POST /set?NAME=VALUE, without a body"};
  }
  query.remove_prefix(1);
  if (query.find_first_of("&+") != std::string_view::npos) {
    return Error{"takes one NAME=VALUE, in which a space is %20, & is %26 and + is %2B"};
  }
  const size_t equals = query.find('=');
  auto name = url_decoded(query.substr(0, equals));
  auto value = url_decoded(equals < query.size() ? query.substr(equals + 1) : "%");
  if (!name || !value) return Error{"takes NAME=VALUE"};
  return std::pair(std::move(*name), std::move(*value));
}

bool out_of_resources(int problem) {
  return problem == EMFILE || problem == ENFILE || problem == ENOBUFS || problem == ENOMEM;
}

}  // namespace

void expose(OpenMetrics& out, const ExporterStats& stats) {
  out.family("rubato_metrics_connections_closed", "counter",
             "Connections of the metrics port that were closed before their reply.");
  out.counter(stats.displaced, OpenMetrics::label("reason", "displaced"));
  out.counter(stats.late, OpenMetrics::label("reason", "late"));
  out.family("rubato_metrics_sets_denied", "counter",
             "Requests to the metrics port that were to set an option, without the token or from "
             "another site's page.");
  out.counter(stats.denied);
}

Result<std::unique_ptr<Exporter>> Exporter::start(const std::string& bind, uint16_t port,
                                                  Sources sources, Limits limits,
                                                  TlsContext* tls, int given) {
  SocketAddress address = local_address(given);
  Result<Fd> listener = given >= 0 ? share_listener(given, false)
                                   : listen_alone(bind, port, kBacklog, address);
  if (!listener.ok()) return Error{"metrics port: " + listener.error()};
  return std::unique_ptr<Exporter>(
      new Exporter(std::move(listener).value(), address.port(), std::move(sources), limits, tls));
}

Exporter::Exporter(Fd listener, uint16_t port, Sources sources, Limits limits, TlsContext* tls)
    : listener_(std::move(listener)),
      port_(port),
      sources_(std::move(sources)),
      limits_(limits),
      tls_(tls) {
  thread_ = std::thread([this] { serve(); });
}

Exporter::~Exporter() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void Exporter::serve() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    wait();
    close_finished();
    accept_all();
  }
  // Who comes now may be another server's, which has the same listener. Who came is answered.
  accepting_ = false;
  const Instant limit = now() + kLastRequests;
  while (!clients_.empty() && now() < limit) {
    wait();
    close_finished();
  }
}

// Waits until some client can go on, and lets it go on.
void Exporter::wait() {
  std::vector<pollfd> ready;
  ready.reserve(clients_.size() + 1);
  Nanos patience = setting_.valid() ? kLookForSet : kLookForStop;
  for (const ExporterClient& client : clients_) {
    const bool writing = client.state() == State::kWriting;
    const bool waiting = client.state() == State::kAsked;  // for what is being set
    ready.push_back({waiting ? -1 : client.fd(),
                     static_cast<short>(writing ? POLLOUT : POLLIN), 0});
    if (!waiting) patience = std::min(patience, client.end() - now());
  }
  // A client that cannot be accepted stays in the backlog and would be reported again at once.
  ready.push_back({accepting_ ? listener_.get() : -1, POLLIN, 0});
  const int some = ::poll(ready.data(), ready.size(), to_poll_ms(std::max(patience, Nanos())) + 1);
  for (size_t i = 0; i < clients_.size(); ++i) {
    go_on(clients_[i], some > 0 && ready[i].revents != 0);
  }
}

void Exporter::go_on(ExporterClient& client, bool ready) {
  if (ready && client.state() == State::kWriting) client.write();
  if (ready && client.state() == State::kReading) client.read();
  if (client.state() != State::kAsked) return;
  if (client.too_large()) {
    client.reply(response("431 Request Header Fields Too Large", kText,
                          "a request has at most 4096 bytes\n"));
  } else if (!is_set(client.request())) {
    client.reply(answer(client.request()));
  } else if (std::optional<std::string> reply = set(client)) {
    client.reply(std::move(*reply));
  }
}

// A client whose request is here already is answered at once, and needs no place.
void Exporter::accept_all() {
  accepting_ = true;
  for (int i = 0; i < kBacklog; ++i) {
    SocketAddress peer;
    Fd socket = accept_from(listener_.get(), peer);
    if (!socket.valid()) {
      accepting_ = !out_of_resources(errno) || displace();
      return;
    }
    ExporterClient client(std::move(socket), to_text(peer), now() + limits_.patience, tls_);
    go_on(client, true);
    if (client.state() == State::kOver) continue;
    if (clients_.size() >= limits_.connections) displace();
    clients_.push_back(std::move(client));
  }
}

// Closes the oldest client that has not sent its request yet, or if all have, the oldest. False =
// there is none.
bool Exporter::displace() {
  if (clients_.empty()) return false;
  const auto silent = std::find_if(clients_.begin(), clients_.end(), [this](ExporterClient& c) {
    go_on(c, true);
    return c.state() == State::kReading;
  });
  const auto leaving = silent != clients_.end() ? silent : clients_.begin();
  if (leaving->fd() == setting_for_) setting_for_ = -1;
  clients_.erase(leaving);
  ++stats_.displaced;
  return true;
}

void Exporter::close_finished() {
  const Instant at = now();
  std::erase_if(clients_, [this, at](const ExporterClient& client) {
    if (client.state() == State::kOver) return true;
    if (client.end() > at || client.fd() == setting_for_) return false;
    ++stats_.late;
    return true;
  });
}

// Empty = ready.
std::string Exporter::readiness() const {
  if (!sources_.ready()) return "not ready";
  const std::string trouble = sources_.trouble ? sources_.trouble() : "";
  return trouble.empty() ? "" : "not ready: " + trouble;
}

std::string Exporter::metrics(std::string_view head) const {
  const MetricsFormat format =
      accepts_open_metrics(head) ? MetricsFormat::kOpenMetrics : MetricsFormat::kText;
  const bool all = first_line(head).find("?detail=all") != std::string_view::npos;
  OpenMetrics out(format, all ? MetricsDetail::kFull : MetricsDetail::kBrief);
  sources_.metrics(out);
  expose(out, stats_);
  return response("200 OK", OpenMetrics::content_type(format), std::move(out).finish());
}

// Fails with a whole response.
Result<Exporter::Setting> Exporter::allowed(const ExporterClient& client) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view head = client.request();
  const std::string token = sources_.setter.token ? sources_.setter.token() : "";
  if (token.empty()) {
    return Error{response("403 Forbidden", kText,
                          "read only: the server has no --metrics-set-token\n")};
  }
  if (is_of_another_site(head)) {
    ++stats_.denied;
    return Error{response("403 Forbidden", kText, "the page that asks is of another site\n")};
  }
  const std::string_view claim = header_of(head, "authorization");
  const bool bears = in_lower_case(claim.substr(0, kScheme.size())) == kScheme;
  if (!bears || !is_secret(claim.substr(kScheme.size()), token)) {
    ++stats_.denied;
    log_line(LogLevel::kWarning, LogEvent::kRefused, "the metrics port: the token is another one",
             {{"peer", client.peer()}});
    return Error{response("401 Unauthorized", kText, "the token is another one\n")};
  }
  Result<std::pair<std::string, std::string>> named = name_and_value(head);
  if (!named.ok()) return Error{response("400 Bad Request", kText, named.error() + "\n")};
  return Setting{std::move(named->first), std::move(named->second), client.peer()};
}

std::optional<std::string> Exporter::set(const ExporterClient& client) {
  constexpr auto kAtOnce = std::chrono::seconds(0);
  if (setting_.valid()) {
    if (setting_.wait_for(kAtOnce) != std::future_status::ready) return std::nullopt;
    if (setting_for_ == client.fd()) {
      setting_for_ = -1;
      const Status done = setting_.get();
      return done.ok() ? response("200 OK", kText, "OK\n")
                       : response("400 Bad Request", kText, done.error() + "\n");
    }
    if (setting_for_ >= 0) return std::nullopt;
    setting_ = {};
  }
  Result<Setting> wanted = allowed(client);
  if (!wanted.ok()) return wanted.error();
  setting_for_ = client.fd();
  setting_ = std::async(std::launch::async, [this, wanted = std::move(*wanted)] {
    return sources_.setter.set(wanted);
  });
  return std::nullopt;
}

std::string Exporter::answer(std::string_view head) const {
  const std::string_view line = first_line(head);
  const auto asks = [line](std::string_view path) {
    const std::string start = "GET " + std::string(path);
    return line.starts_with(start) && line.size() > start.size() &&
           (line[start.size()] == ' ' || line[start.size()] == '?');
  };
  if (asks("/metrics")) return metrics(head);
  if (asks("/healthz")) return response("200 OK", kText, "ok\n");
  if (asks("/readyz")) {
    const std::string why_not = readiness();
    return why_not.empty() ? response("200 OK", kText, "ready\n")
                           : response("503 Service Unavailable", kText, why_not + "\n");
  }
  if (sources_.page && (asks("/") || asks("/top"))) {
    return response("200 OK", "text/html; charset=utf-8", sources_.page());
  }
  if (sources_.state && asks("/state")) {
    return response("200 OK", "application/json", sources_.state());
  }
  if (asks("/plan")) return response("200 OK", kText, sources_.plan());
  if (!line.starts_with("GET ")) {
    return response("405 Method Not Allowed", kText, "GET only\n");
  }
  return response("404 Not Found", kText,
                  "try /metrics, /state, /top, /plan, /healthz or /readyz\n");
}

}  // namespace rubato
