// SPDX-License-Identifier: Apache-2.0
//
// OtlpExporter: sends a server's metrics, and spans of some of its requests, to a collector of
// OpenTelemetry, as JSON over HTTP. A thread of its own empties the workers' rings
// (runtime/request_ring.h) and sends; workers never wait for it. What it cannot keep or send is
// counted and forgotten. Rubato's protocols carry no trace context, so that each span is a trace of
// its own. Borrows the rings. Any thread, but begin() and end().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "cli/serve/otlp_json.h"
#include "datapath/tls.h"
#include "load/target.h"
#include "metrics/counter.h"
#include "metrics/open_metrics.h"
#include "runtime/request_ring.h"

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
  static constexpr size_t kMostSpans = 8192;  // that wait to be sent

  // `rings` may be empty: no spans. Fails with one line if there is no TLS here.
  static Result<std::unique_ptr<OtlpExporter>> open(OtlpOptions options,
                                                    std::vector<RequestRing*> rings,
                                                    std::function<std::string(uint32_t)> type_name);
  ~OtlpExporter() { end(); }
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  // `scrape` makes the metrics, on the exporter's thread until end().
  void begin(std::function<std::string()> scrape);
  // Sends what there is, once, and stops.
  void end();

  // Appends its families.
  void expose(OpenMetrics& out) const;

 private:
  OtlpExporter(OtlpOptions options, std::unique_ptr<TlsConnector> tls,
               std::vector<RequestRing*> rings, std::function<std::string(uint32_t)> type_name);

  void work();
  void take_requests();
  void add_span(const RequestRecord& record);
  void send();
  void send_spans();
  // False: the collector is not there, or has refused it.
  bool deliver(const std::string& what, const std::string& body) const;
  bool accounted(bool done);

  const OtlpOptions options_;
  const std::unique_ptr<TlsConnector> tls_;
  const std::vector<RequestRing*> rings_;
  const std::function<std::string(uint32_t)> type_name_;
  std::function<std::string()> scrape_;
  // Of the thread alone.
  Prng prng_;
  std::vector<RequestRecord> batch_;
  std::vector<OtlpSpan> spans_;
  int64_t begun_unix_ns_ = 0;
  bool reachable_ = true;  // as the log has it
  // Counters, read by any thread.
  Counter sent_spans_, dropped_spans_, failures_;
  std::mutex mutex_;  // guards stopping_
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace rubato::cli
