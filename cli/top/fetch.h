// SPDX-License-Identifier: Apache-2.0
//
// Asking servers for their state (live_state.h): fetch_state once, Watch again and again, from a
// thread of its own, so that a server that does not answer holds up nothing.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/time.h"
#include "datapath/tls.h"
#include "load/target.h"

namespace rubato::cli {

// A server's metrics port, and how it is connected to; null = without TLS.
struct MetricsPort {
  load::Target target;
  std::shared_ptr<TlsConnector> tls;  // of this port alone
};

// HOST:PORT, or a port of this machine; an IPv6 address stands in brackets.
Result<load::Target> parse_metrics_port(const std::string& text);

// The body of GET /state. Fails with one line: there is no such server, it does not answer in time,
// or it has no state to tell.
Result<std::string> fetch_state(const MetricsPort& server, Nanos timeout);

// POST /set of an option, for who knows the server's token. Fails with one line, also when the
// server refuses.
Status set_option(const MetricsPort& server, const std::string& token, const std::string& name,
                  const std::string& value, Nanos timeout);

class Watch {
 public:
  // Asks at once, and then once per `interval`.
  Watch(MetricsPort server, Nanos interval);
  ~Watch();

  // Asks no more; the destructor waits for the end of the last question, so stop all of several
  // first.
  void stop();

  // Takes the answer that came since the last call, if any; of several the newest. Any thread.
  bool take(Result<std::string>& answer);

 private:
  void ask_on();

  const MetricsPort server_;
  const Nanos interval_;
  std::mutex mutex_;  // guards the next three
  bool ending_ = false;
  bool has_answer_ = false;
  Result<std::string> answer_{std::string()};
  std::condition_variable end_;
  std::thread thread_;
};

}  // namespace rubato::cli
