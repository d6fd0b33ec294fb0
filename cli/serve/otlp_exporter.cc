// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/otlp_exporter.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "load/http_parser.h"
#include "mechanism/clock/clock.h"
#include "tls/tls_client.h"

namespace rubato::cli {
namespace {

constexpr uint16_t kDefaultPort = 4318;  // of OTLP over HTTP
constexpr Nanos kPatience = Nanos::seconds(5);
constexpr Nanos kLastPatience = Nanos::seconds(2);  // also with a connection: it cannot be cut
constexpr Nanos kLook = Nanos::millis(50);          // for the end
constexpr std::chrono::milliseconds kPeriod{10};  // rings of 16384 last for 1.6 M requests/s
constexpr size_t kMostReply = 1u << 16;

int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Identifiers must differ between processes, not repeat.
uint64_t seed_of_identifiers() {
  uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
    seed = static_cast<uint64_t>(unix_ns());
  }
  return seed;
}

std::string request_of(const OtlpCollector& to, const std::string& what, size_t size) {
  const bool v6 = to.target.host.find(':') != std::string::npos;
  const std::string host = v6 ? "[" + to.target.host + "]" : to.target.host;
  return "POST " + to.path + what + " HTTP/1.1\r\nHost: " + host + ":" +
         std::to_string(to.target.port) +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(size) +
         "\r\nConnection: close\r\n\r\n";
}

// The others are not to be sent again (OTLP 1, "Failures").
bool is_for_later(uint16_t status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

// The object in the body, which chunks do not part in practice: it is a line. Heads of interim
// replies (1xx) may come first.
std::string_view json_in(std::string_view reply) {
  size_t body = reply.find("\r\n\r\n");
  while (reply.starts_with("HTTP/1.1 1") && body != std::string_view::npos) {
    reply.remove_prefix(body + std::string_view("\r\n\r\n").size());
    body = reply.find("\r\n\r\n");
  }
  const size_t from = body == std::string_view::npos ? body : reply.find('{', body);
  const size_t to = reply.rfind('}');
  if (from == std::string_view::npos || to == std::string_view::npos || to < from) return {};
  return reply.substr(from, to - from + 1);
}

}  // namespace

Result<OtlpCollector> parse_otlp_url(const std::string& url) {
  OtlpCollector collector;
  std::string_view rest = url;
  collector.tls = rest.starts_with("https://");
  const bool is_url = collector.tls || rest.starts_with("http://");
  rest.remove_prefix(is_url ? rest.find("//") + 2 : rest.size());
  const size_t slash = rest.find('/');
  Result<load::Target> target = load::parse_target("http://" + std::string(rest.substr(0, slash)));
  const std::string_view path = slash == std::string_view::npos ? "" : rest.substr(slash);
  if (!is_url || !target || path.find_first_of(" \r\n\t?#") != std::string_view::npos) {
    return Error{"takes http://HOST[:PORT][/PATH] or https://, not '" + url + "'"};
  }
  collector.target = std::move(*target);
  if (!collector.target.port_given) collector.target.port = kDefaultPort;
  collector.path = path;
  while (collector.path.ends_with('/')) collector.path.pop_back();
  return collector;
}

Result<std::unique_ptr<OtlpExporter>> OtlpExporter::open(
    OtlpOptions options, RequestFeed& feed, std::function<std::string(uint32_t)> type_name) {
  std::unique_ptr<TlsConnector> tls;
  if (options.collector.tls) {
    TlsClientFiles files;
    files.server_name = options.collector.target.host;
    auto opened = open_tls_client(files);
    if (!opened.ok()) return Error{opened.error()};
    tls = std::move(*opened);
  }
  return std::unique_ptr<OtlpExporter>(new OtlpExporter(
      std::move(options), std::move(tls), feed, std::move(type_name)));
}

OtlpExporter::OtlpExporter(OtlpOptions options, std::unique_ptr<TlsConnector> tls,
                           RequestFeed& feed, std::function<std::string(uint32_t)> type_name)
    : options_(std::move(options)),
      tls_(std::move(tls)),
      type_name_(std::move(type_name)),
      prng_(seed_of_identifiers()),
      requests_(feed) {}

void OtlpExporter::begin(std::function<std::string()> scrape) {
  scrape_ = std::move(scrape);
  begun_unix_ns_ = unix_ns();
  if (options_.sample > 0) {
    requests_.want(true);
    sampling_ = std::thread([this] { sample_all_along(); });
  }
  sending_ = std::thread([this] { send_all_along(); });
}

void OtlpExporter::end() {
  if (!sending_.joinable()) return;
  const auto set = [this](bool& flag) {
    {
      const std::scoped_lock lock(mutex_);
      flag = true;
    }
    wake_.notify_all();
  };
  send_until_ns_.store((now() + kLastPatience).ns(), std::memory_order_relaxed);
  set(sampled_);
  if (sampling_.joinable()) sampling_.join();
  set(stopping_);
  sending_.join();
  requests_.want(false);
  give_up();
}

void OtlpExporter::give_up() {
  if (spans_.empty()) return;
  refused_spans_ += spans_.size();
  log_line(LogLevel::kWarning, LogEvent::kProfile,
           "the collector of --otlp has not taken all spans before the end",
           {{"given_up", static_cast<int64_t>(spans_.size())}});
  spans_.clear();
}

void OtlpExporter::expose(OpenMetrics& out) const {
  out.family("rubato_otlp_spans", "counter", "Spans that the collector of --otlp has taken");
  out.counter(sent_spans_.value());
  out.family("rubato_otlp_spans_dropped", "counter",
             "Spans that were forgotten because the collector refused them, or did not take them "
             "in time");
  out.counter(overflowed_spans_.value() + refused_spans_.value());
  out.family("rubato_otlp_requests_missed", "counter",
             "Requests that could not become spans because the memory for them was full");
  out.counter(requests_.dropped());
  out.family("rubato_otlp_failures", "counter", "Messages that the collector did not take");
  out.counter(failures_.value());
}

void OtlpExporter::send_all_along() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, std::chrono::nanoseconds(options_.interval.count()),
                   [this] { return stopping_; });
    lock.unlock();
    send();
    lock.lock();
  }
}

void OtlpExporter::sample_all_along() {
  std::unique_lock lock(mutex_);
  for (bool last = false; !last;) {
    last = wake_.wait_for(lock, kPeriod, [this] { return sampled_; });
    lock.unlock();
    take_requests();
    lock.lock();
  }
}

void OtlpExporter::take_requests() {
  constexpr uint32_t kWhole = 1u << 30;
  const auto chosen = static_cast<uint32_t>(options_.sample * kWhole);
  requests_.take(batch_);
  for (const RequestRecord& record : batch_) {
    if (prng_.below(kWhole) < chosen) add_span(record);
  }
}

void OtlpExporter::add_span(const RequestRecord& record) {
  const int64_t to_unix = unix_ns() - now().ns();
  std::string name = type_name_(record.type);
  if (name.empty()) name = "type " + std::to_string(record.type);
  const int64_t start = record.arrived.ns() + to_unix;
  const std::scoped_lock lock(spans_mutex_);
  if (spans_.size() >= kMostSpans) {
    ++overflowed_spans_;
    return;
  }
  spans_.push_back({.trace_high = prng_.next(),
                    .trace_low = prng_.next() | 1,
                    .id = prng_.next() | 1,
                    .name = std::move(name),
                    .start_ns = start,
                    .end_ns = start + record.latency.count(),
                    .service_ns = record.service.count(),
                    .flow = record.flow,
                    .refused = record.refused});
}

void OtlpExporter::send() {
  deliver(metrics_, otlp_metrics(options_.resource, scrape_(), begun_unix_ns_, unix_ns()));
  send_spans();
}

// What the collector does not take now waits for the next time; what it refuses is forgotten.
void OtlpExporter::send_spans() {
  using State = Outcome::State;
  for (State state = State::kTaken; state != State::kLater;) {
    std::vector<OtlpSpan> some;
    {
      const std::scoped_lock lock(spans_mutex_);
      const size_t count = std::min(spans_.size(), kSpansPerPost);
      some.assign(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(count));
    }
    if (some.empty()) return;
    const Outcome outcome = deliver(traces_, otlp_traces(options_.resource, some));
    state = outcome.state;
    if (state == State::kLater) return;
    const uint64_t refused = state == State::kTaken
                                 ? std::min<uint64_t>(outcome.rejected, some.size())
                                 : some.size();
    refused_spans_ += refused;
    sent_spans_ += some.size() - refused;
    const std::scoped_lock lock(spans_mutex_);
    spans_.erase(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(some.size()));
  }
}

OtlpExporter::Outcome OtlpExporter::deliver(Signal& signal, const std::string& body) {
  Outcome outcome = send_message(signal.path, body);
  const bool taken = outcome.state == Outcome::State::kTaken;
  if (!taken) ++failures_;
  const bool whole = outcome.rejected == 0;
  if (taken && whole != std::exchange(signal.whole, whole) && !whole) {
    log_line(LogLevel::kWarning, LogEvent::kProfile,
             std::string("the collector of --otlp refuses a part of the ") + signal.name,
             {{"reason", outcome.words}});
  }
  if (taken == std::exchange(signal.taken, taken)) return outcome;
  const std::string what = "the collector of --otlp takes ";
  if (taken) {
    log_line(LogLevel::kInfo, LogEvent::kProfile, what + signal.name + " again");
  } else {
    log_line(LogLevel::kWarning, LogEvent::kProfile, what + "no " + signal.name,
             {{"reason", outcome.words},
              {"again", outcome.state == Outcome::State::kLater ? "yes" : "no"}});
  }
  return outcome;
}

OtlpExporter::Outcome OtlpExporter::send_message(const std::string& path,
                                                 const std::string& body) {
  using State = Outcome::State;
  const Instant begun = now(), limit = begun + kPatience;
  const Nanos left(send_until_ns_.load(std::memory_order_relaxed) - begun.ns());
  if (left <= Nanos()) return {State::kLater, "the server ends"};
  std::string why;
  const load::Endpoint* const endpoint = resolved(limit, why);
  if (endpoint == nullptr) return {State::kLater, why};
  const Nanos before_end(send_until_ns_.load(std::memory_order_relaxed) - now().ns());
  Result<load::Channel> channel = load::connect_channel(
      *endpoint, tls_.get(), std::clamp(before_end, Nanos(1), kLastPatience));
  if (!channel) {
    endpoint_.reset();
    return {State::kLater, channel.error()};
  }
  const std::string request = request_of(options_.collector, path, body.size()) + body;
  for (std::string_view rest = request; !rest.empty();) {
    const ssize_t sent = channel->send(rest);
    if (sent > 0) rest.remove_prefix(static_cast<size_t>(sent));
    // Who refuses without reading has replied, too.
    if (sent == 0 || (sent < 0 && errno != EAGAIN && errno != EINTR)) break;
    if (sent < 0 && !await(channel->fd(), true, limit)) return {State::kLater, "it takes no bytes"};
  }
  return reply_of(*channel, limit);
}

const load::Endpoint* OtlpExporter::resolved(Instant limit, std::string& why) {
  if (endpoint_) return &*endpoint_;
  if (!resolving_.valid()) {
    std::packaged_task<Result<load::Endpoint>()> resolve(
        [target = options_.collector.target] { return load::resolve(target); });
    std::future<Result<load::Endpoint>> resolving = resolve.get_future();
    try {
      std::thread(std::move(resolve)).detach();
    } catch (const std::system_error&) {
      why = "there is no thread to resolve the name of its host";
      return nullptr;
    }
    resolving_ = std::move(resolving);
  }
  const std::chrono::nanoseconds look(kLook.count());
  while (resolving_.wait_for(look) != std::future_status::ready) {
    if (now() < limit && now().ns() < send_until_ns_.load(std::memory_order_relaxed)) continue;
    why = "the name of its host is not resolved yet";
    return nullptr;
  }
  const Result<load::Endpoint> to = resolving_.get();
  if (!to) {
    why = to.error();
    return nullptr;
  }
  endpoint_ = to.value();
  return &*endpoint_;
}

OtlpExporter::Outcome OtlpExporter::reply_of(load::Channel& channel, Instant limit) const {
  using State = Outcome::State;
  using Status = load::HttpParser::Status;
  load::HttpParser parser;
  std::string reply;
  std::array<char, 512> piece;
  for (Status status = Status::kMore; status != Status::kReply;) {
    if (!channel.holds_more() && !await(channel.fd(), false, limit)) {
      return {State::kLater, "it does not reply"};
    }
    const ssize_t got = channel.receive(piece.data(), piece.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) {
      if (parser.end_of_stream()) break;
      return {State::kLater, "it ends the connection without a reply"};
    }
    size_t used = 0;
    status = parser.feed(piece.data(), static_cast<size_t>(got), used);
    if (status == Status::kBroken) return {State::kLater, "it does not speak HTTP"};
    reply.append(piece.data(), used);
    if (reply.size() > kMostReply) break;
  }
  const uint16_t code = parser.code();
  if (code < 200) return {State::kLater, "its reply is too long"};
  if (code >= 300) {
    return {is_for_later(code) ? State::kLater : State::kRefused,
            "HTTP status " + std::to_string(code)};
  }
  OtlpPartial partial = otlp_partial(json_in(reply));
  return {State::kTaken, std::move(partial.why), partial.rejected};
}

// False: neither in time nor before the end's limit.
bool OtlpExporter::await(int fd, bool writing, Instant limit) const {
  while (true) {
    const Instant until(std::min(limit.ns(), send_until_ns_.load(std::memory_order_relaxed)));
    const Nanos left = until - now();
    if (left <= Nanos()) return false;
    const Nanos piece = std::min(left, kLook);
    if (writing ? load::wait_writable(fd, piece) : load::wait_readable(fd, piece)) return true;
  }
}

}  // namespace rubato::cli
