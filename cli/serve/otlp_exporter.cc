// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/otlp_exporter.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "load/channel.h"
#include "load/socket.h"
#include "mechanism/clock/clock.h"
#include "tls/tls_client.h"

namespace rubato::cli {
namespace {

constexpr uint16_t kDefaultPort = 4318;  // of OTLP over HTTP
constexpr Nanos kPatience = Nanos::seconds(5);
constexpr std::chrono::milliseconds kPeriod{10};  // rings of 16384 last for 1.6 M requests/s
constexpr size_t kBatch = 1024;

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

// The first bytes of the reply tell.
bool is_accepted(load::Channel& channel) {
  constexpr std::string_view kShape = "HTTP/1.1 200";
  const Instant limit = now() + kPatience;
  std::string reply;
  std::array<char, 512> piece;
  while (reply.size() < kShape.size()) {
    const Nanos left = limit - now();
    if (left <= Nanos() ||
        (!channel.holds_more() && !load::wait_readable(channel.fd(), left))) {
      return false;
    }
    const ssize_t got = channel.receive(piece.data(), piece.size());
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (got > 0) reply.append(piece.data(), static_cast<size_t>(got));
  }
  return reply.starts_with("HTTP/1.") && reply[9] == '2';
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
    OtlpOptions options, std::vector<RequestRing*> rings,
    std::function<std::string(uint32_t)> type_name) {
  std::unique_ptr<TlsConnector> tls;
  if (options.collector.tls) {
    TlsClientFiles files;
    files.server_name = options.collector.target.host;
    auto opened = open_tls_client(files);
    if (!opened.ok()) return Error{opened.error()};
    tls = std::move(*opened);
  }
  return std::unique_ptr<OtlpExporter>(new OtlpExporter(
      std::move(options), std::move(tls), std::move(rings), std::move(type_name)));
}

OtlpExporter::OtlpExporter(OtlpOptions options, std::unique_ptr<TlsConnector> tls,
                           std::vector<RequestRing*> rings,
                           std::function<std::string(uint32_t)> type_name)
    : options_(std::move(options)),
      tls_(std::move(tls)),
      rings_(std::move(rings)),
      type_name_(std::move(type_name)),
      prng_(seed_of_identifiers()),
      batch_(kBatch) {}

void OtlpExporter::begin(std::function<std::string()> scrape) {
  scrape_ = std::move(scrape);
  begun_unix_ns_ = unix_ns();
  for (RequestRing* ring : rings_) ring->want(true);
  thread_ = std::thread([this] { work(); });
}

void OtlpExporter::end() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  for (RequestRing* ring : rings_) ring->want(false);
}

void OtlpExporter::expose(OpenMetrics& out) const {
  out.family("rubato_otlp_spans", "counter", "Spans that the collector of --otlp has taken");
  out.counter(sent_spans_.value());
  out.family("rubato_otlp_spans_dropped", "counter",
             "Spans that were forgotten because the collector did not take them in time");
  out.counter(dropped_spans_.value());
  uint64_t missed = 0;
  for (const RequestRing* ring : rings_) missed += ring->dropped();
  out.family("rubato_otlp_requests_missed", "counter",
             "Requests that could not become spans because the memory for them was full");
  out.counter(missed);
  out.family("rubato_otlp_failures", "counter", "Messages that the collector did not take");
  out.counter(failures_.value());
}

void OtlpExporter::work() {
  Instant due = now() + options_.interval;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto pause = rings_.empty() ? std::chrono::nanoseconds(options_.interval.count())
                                      : std::chrono::nanoseconds(kPeriod);
    wake_.wait_for(lock, pause, [this] { return stopping_; });
    lock.unlock();
    take_requests();
    if (now() >= due) {
      send();
      due = now() + options_.interval;
    }
    lock.lock();
  }
  lock.unlock();
  take_requests();
  send();
}

void OtlpExporter::take_requests() {
  constexpr uint32_t kWhole = 1u << 30;
  const auto chosen = static_cast<uint32_t>(options_.sample * kWhole);
  for (RequestRing* ring : rings_) {
    for (uint32_t taken = kBatch; taken == kBatch;) {
      taken = ring->take(batch_);
      for (uint32_t i = 0; i < taken; ++i) {
        if (prng_.below(kWhole) < chosen) add_span(batch_[i]);
      }
    }
  }
}

void OtlpExporter::add_span(const RequestRecord& record) {
  if (spans_.size() >= kMostSpans) return ++dropped_spans_;
  const int64_t to_unix = unix_ns() - now().ns();
  std::string name = type_name_(record.type);
  if (name.empty()) name = "type " + std::to_string(record.type);
  const int64_t start = record.arrived.ns() + to_unix;
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
  const std::string metrics =
      otlp_metrics(options_.resource, scrape_(), begun_unix_ns_, unix_ns());
  if (accounted(deliver("/v1/metrics", metrics))) send_spans();
}

// What the collector does not take waits for the next time.
void OtlpExporter::send_spans() {
  if (spans_.empty()) return;
  if (!accounted(deliver("/v1/traces", otlp_traces(options_.resource, spans_)))) return;
  sent_spans_ += spans_.size();
  spans_.clear();
}

bool OtlpExporter::deliver(const std::string& what, const std::string& body) const {
  const Result<load::Endpoint> to = load::resolve(options_.collector.target);
  if (!to) return false;
  Result<load::Channel> channel = load::connect_channel(to.value(), tls_.get(), kPatience);
  if (!channel) return false;
  const std::string request = request_of(options_.collector, what, body.size());
  return load::send_all(*channel, request, kPatience) &&
         load::send_all(*channel, body, kPatience) && is_accepted(*channel);
}

// Counts, and logs once when the collector goes or comes.
bool OtlpExporter::accounted(bool done) {
  if (!done) ++failures_;
  if (done != reachable_) {
    reachable_ = done;
    log_line(done ? LogLevel::kInfo : LogLevel::kWarning, LogEvent::kProfile,
             done ? "the collector of --otlp takes messages again"
                  : "the collector of --otlp takes no messages");
  }
  return done;
}

}  // namespace rubato::cli
