// SPDX-License-Identifier: Apache-2.0
//
// Exporter: a small HTTP server on a thread of its own for /metrics, /state, /plan, /healthz,
// /readyz and a page.
// It shares with the workers only the data that its callbacks read, so it answers while they are
// overloaded.
// One request per connection: GET, or where the program lets it, POST /set?NAME=VALUE (URL-encoded)
// with the header "Authorization: Bearer TOKEN", which sets an option, but not for pages of another
// origin (RFC 6454). /metrics is OpenMetrics for
// clients that accept it, else the older text; brief, or with ?detail=all everything.
// Connections are served side by side, so that a connection that sends nothing, or does not read,
// keeps no other waiting. Each has a limited time for its whole request and reply. Their number is
// limited too: a further connection takes the place of the one that has been silent for longest.
// The metrics count both.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "datapath/tcp_socket.h"
#include "datapath/tls.h"
#include "metrics/open_metrics.h"
#include "runtime/exporter_client.h"

namespace rubato {

// Connections of the exporter that were closed before they had their reply, or were denied it.
struct ExporterStats {
  uint64_t displaced = 0;  // closed to make room for another
  uint64_t late = 0;       // ran out of their time
  uint64_t denied = 0;     // were not allowed to set an option; they had a reply
};

void expose(OpenMetrics& out, const ExporterStats& stats);

class Exporter {
 public:
  struct Setting {
    std::string name, value;
    std::string peer;  // the address of who asks
  };
  // Sets an option for who knows the token; its error is one line. An empty token = nobody. `set`
  // runs on a thread of its own, one at a time: it may wait for disks and for long requests.
  struct Setter {
    std::function<std::string()> token = {};  // the one that holds now
    std::function<Status(const Setting&)> set = {};
  };

  struct Sources {
    std::function<void(OpenMetrics&)> metrics;  // appends families
    std::function<bool()> ready;         // false = draining or not yet serving
    std::function<std::string()> plan;   // the policy's decisions, for people
    std::function<std::string()> trouble = {};  // why requests fail although it serves; "" = none
    std::function<std::string()> page = {};     // HTML, at "/" and "/top"; empty = none
    std::function<std::string()> state = {};    // JSON (state_json.h); empty = there is none
    Setter setter = {};
  };

  struct Limits {
    size_t connections = 256;
    Nanos patience = Nanos::seconds(10);  // with one client
  };

  // Listens on bind:port (0 = any free port). Callbacks run on the exporter's thread until it is
  // destroyed. With `tls`, which is borrowed, it speaks HTTPS. A listener that was handed over
  // (`given`) takes the place of bind:port. Fails with one line when the address cannot be used.
  static Result<std::unique_ptr<Exporter>> start(const std::string& bind, uint16_t port,
                                                 Sources sources, Limits limits,
                                                 TlsContext* tls = nullptr, int given = -1);
  static Result<std::unique_ptr<Exporter>> start(const std::string& bind, uint16_t port,
                                                 Sources sources) {
    return start(bind, port, std::move(sources), Limits());
  }
  ~Exporter();

  uint16_t port() const { return port_; }

 private:
  Exporter(Fd listener, uint16_t port, Sources sources, Limits limits, TlsContext* tls);
  void serve();
  void wait();
  void accept_all();
  bool displace();
  void go_on(ExporterClient& client, bool ready);
  std::string answer(std::string_view head) const;
  std::string metrics(std::string_view head) const;
  std::string readiness() const;
  // Nothing: it has no reply yet.
  std::optional<std::string> set(const ExporterClient& client);
  Result<Setting> allowed(const ExporterClient& client);
  void close_finished();

  Fd listener_;
  uint16_t port_;
  Sources sources_;
  Limits limits_;
  TlsContext* tls_;
  // Used by the thread alone.
  std::vector<ExporterClient> clients_;  // the oldest first
  ExporterStats stats_;
  // What is being set, and for whom; -1 = who asked is gone.
  std::future<Status> setting_;
  int setting_for_ = -1;
  bool accepting_ = true;  // false for a moment when the system has no descriptor left
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace rubato
