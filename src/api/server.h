// SPDX-License-Identifier: Apache-2.0
//
// rubato_server: a Service on a runtime on a datapath, with signals, metrics and the client side of
// the loopback. Threads: as <rubato/rubato.h> says of the functions that call these methods.
#pragma once

#include <rubato/rubato.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "api/options.h"
#include "api/recorders.h"
#include "api/service.h"
#include "runtime/agent_port.h"
#include "runtime/exporter.h"
#include "runtime/exposition.h"
#include "runtime/runtime.h"

struct rubato_server {
 public:
  static rubato::Result<std::unique_ptr<rubato_server>> create(
      const rubato_options* options, const rubato_application* application);

  // True = drained in time.
  rubato::Result<bool> run();
  void stop() { runtime_->stop(); }
  void poll_timer() { runtime_->poll_timer(); }
  bool is_serving() const { return runtime_->serving(); }
  uint16_t port() const { return tcp_ == nullptr ? uint16_t{0} : tcp_->port(); }
  uint32_t metrics_port() const { return metrics_port_.load(std::memory_order_relaxed); }
  uint32_t agent_port() const { return agent_port_.load(std::memory_order_relaxed); }

  rubato_stats stats() const;
  rubato_times latency(uint32_t type) const;
  rubato_times service(uint32_t type) const;

  rubato::api::Recorders& recorders() { return recorders_; }

  // Null unless the transport is the loopback.
  rubato::LoopbackDatapath* loopback() { return loopback_; }
  size_t loopback_receive(uint64_t flow, char* to, size_t size, rubato::Nanos limit);
  void loopback_close(uint64_t flow);

 private:
  rubato_server(rubato::api::Setup setup, const rubato_application& application);
  rubato::Status open();
  rubato::Status start_metrics();
  rubato::Status start_agent();
  rubato::ExposedTypes types() const;
  void expose(rubato::OpenMetrics& out);

  const rubato::api::Setup setup_;
  rubato::api::Service service_;
  rubato::TcpDatapath* tcp_ = nullptr;            // one of these is datapath_
  rubato::LoopbackDatapath* loopback_ = nullptr;
  std::unique_ptr<rubato::Datapath> datapath_;
  std::optional<rubato::rpc::AdmissionAttachment> attached_;
  std::unique_ptr<rubato::Runtime> runtime_;
  rubato::api::Recorders recorders_{"the server"};
  std::unique_ptr<rubato::Exporter> exporter_;    // reads the runtime, so it goes first
  std::unique_ptr<rubato::AgentPort> agent_;      // as the exporter
  std::atomic<bool> has_run_{false};
  rubato::NamedTypes named_types_;  // the exporter's thread's own
  std::atomic<uint32_t> metrics_port_{0};
  std::atomic<uint32_t> agent_port_{0};
  std::mutex leftovers_mutex_;  // guards leftovers_
  std::unordered_map<uint64_t, std::string> leftovers_;  // replies beyond the bytes asked for
};
