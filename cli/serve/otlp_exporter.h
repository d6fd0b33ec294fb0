// SPDX-License-Identifier: Apache-2.0
//
// OtlpExporter: sends a server's metrics, and spans of some of its requests, to a collector of
// OpenTelemetry, as JSON over HTTP. One thread reads the requests (runtime/request_feed.h), another
// sends, so that a collector that hangs costs no requests; workers wait for neither. The
// two signals are independent: many collectors take only one. What it cannot keep, or what the
// collector refuses for good, is counted and forgotten. Rubato's protocols carry no trace context,
// so that each span is a trace of its own. Borrows the feed. Any thread, but begin() and end().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "cli/serve/otlp_json.h"
#include "datapath/tls.h"
#include "load/channel.h"
#include "load/socket.h"
#include "load/target.h"
#include "metrics/counter.h"
#include "metrics/open_metrics.h"
#include "runtime/request_feed.h"

namespace rubato::cli {

// Where a collector listens.
struct OtlpCollector {
  load::Target target;
  std::string path;  // before /v1/metrics, without a slash at its end
  bool tls = false;
};

// http://HOST[:PORT][/PATH] or https://; the port is 4318 by default. Fails with one line.
Result<OtlpCollector> parse_otlp_url(const std::string& url);

struct OtlpOptions {
  OtlpCollector collector;
  OtlpResource resource;
  double sample = 0;  // part of the requests that become spans, 0 to 1
  Nanos interval = Nanos::seconds(10);
};

class OtlpExporter {
 public:
  static constexpr size_t kMostSpans = 8192;   // that wait to be sent
  static constexpr size_t kSpansPerPost = 512;  // some 300 KB: collectors limit a message

  // Without a sample `feed` is not read. Fails with one line if there is no TLS here.
  static Result<std::unique_ptr<OtlpExporter>> open(OtlpOptions options, RequestFeed& feed,
                                                    std::function<std::string(uint32_t)> type_name);
  ~OtlpExporter() { end(); }
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  // `scrape` makes the metrics, on the exporter's thread until end().
  void begin(std::function<std::string()> scrape);
  // Sends what there is, once, for kLastPatience at most, and stops. What is left is given up, and
  // logged.
  void end();

  // Appends its families.
  void expose(OpenMetrics& out) const;

 private:
  OtlpExporter(OtlpOptions options, std::unique_ptr<TlsConnector> tls, RequestFeed& feed,
               std::function<std::string(uint32_t)> type_name);

  // What has become of a message; words = why not, or why not all of it.
  struct Outcome {
    enum class State { kTaken, kRefused, kLater } state;  // kRefused: for good
    std::string words = {};
    uint64_t rejected = 0;  // of a message that was taken
  };
  // Metrics or spans. Of the sending thread.
  struct Signal {
    const char* name;
    const char* path;
    bool taken = true, whole = true;  // as the log has it
  };

  void send_all_along();
  void sample_all_along();
  void take_requests();
  void add_span(const RequestRecord& record);
  void send();
  void send_spans();
  // Counts, and logs once when the collector begins or ends to take the signal.
  Outcome deliver(Signal& signal, const std::string& body);
  Outcome send_message(const std::string& path, const std::string& body);
  // Null: not in time. The resolver cannot be interrupted: it has a thread of its own, which goes
  // on alone if the server ends first.
  const load::Endpoint* resolved(Instant limit, std::string& why);
  Outcome reply_of(load::Channel& channel, Instant limit) const;
  bool await(int fd, bool writing, Instant limit) const;
  void give_up();

  const OtlpOptions options_;
  const std::unique_ptr<TlsConnector> tls_;
  const std::function<std::string(uint32_t)> type_name_;
  std::function<std::string()> scrape_;
  // Of the sampling thread alone.
  Prng prng_;
  RequestFeed::Reader requests_;
  std::vector<RequestRecord> batch_;
  // Of the sending thread alone.
  int64_t begun_unix_ns_ = 0;
  std::optional<load::Endpoint> endpoint_;  // resolved anew after a connection has failed
  std::future<Result<load::Endpoint>> resolving_;  // valid: the resolver has not answered yet
  Signal metrics_{"metrics", "/v1/metrics"}, traces_{"spans", "/v1/traces"};
  std::mutex spans_mutex_;  // guards spans_: sampled at the back, sent from the front
  std::deque<OtlpSpan> spans_;
  // Counters, read by any thread.
  Counter overflowed_spans_;  // of the sampling thread
  Counter sent_spans_, refused_spans_, failures_;
  std::mutex mutex_;  // guards sampled_, stopping_
  std::condition_variable wake_;
  bool sampled_ = false;   // the sampling is to end,
  bool stopping_ = false;  // and then the sending
  std::atomic<int64_t> send_until_ns_{INT64_MAX};  // the end's limit; relaxed: a deadline alone
  std::thread sampling_, sending_;
};

}  // namespace rubato::cli
