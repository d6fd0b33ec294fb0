// SPDX-License-Identifier: Apache-2.0
//
// Server: the state that all connections of the key-value server share: engine, configuration,
// logs, counters, and the objects that the host lends. Made at start, then used by every worker;
// each part is thread safe by itself. It does not own the objects of the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "datapath/datapath.h"
#include "kv_server/engine/engine.h"
#include "kv_server/memcached/counters.h"
#include "kv_server/server/config.h"
#include "kv_server/server/counters.h"
#include "kv_server/server/latency_monitor.h"
#include "kv_server/server/options.h"
#include "kv_server/server/providers.h"
#include "kv_server/server/slowlog.h"

namespace rubato::kv {

// The Redis version whose replies this server gives.
inline constexpr const char* kRedisVersion = "7.0.15";

// The objects that the host lends. Each may be null; the commands that need it then show or do
// nothing. Set once, before the first request; all must outlive the application.
struct Host {
  Datapath* datapath = nullptr;
  LatencySource* latency = nullptr;
  ServerControl* control = nullptr;
  uint16_t port = 0;       // the port that clients connect to; 0 = the port of the options
  Clock* clock = nullptr;  // null = system_clock()
};

class Server {
 public:
  Server(Engine& engine, const KvOptions& options);

  void connect(const Host& host);
  const Host& host() const { return host_; }

  Engine& engine() { return *engine_; }
  const KvOptions& options() const { return options_; }
  Config& config() { return config_; }
  SlowLog& slowlog() { return slowlog_; }
  LatencyMonitor& latency_monitor() { return latency_monitor_; }
  CallCounters& calls() { return calls_; }
  ErrorCounters& errors() { return errors_; }
  MemcachedCounters& memcached() { return memcached_; }

  // CONFIG RESETSTAT, and memcached's stats reset: the counters of the datapath and the engine
  // count from here.
  void reset_statistics();
  // The counts since the last reset.
  DatapathStats traffic() const;
  EngineStats engine_counts() const;

  int64_t now_ms() const { return clock_->now_ms(); }
  int64_t started_ms() const { return started_ms_; }
  // What the process had in memory before the first request.
  uint64_t startup_bytes() const { return startup_bytes_; }
  const std::string& run_id() const { return run_id_; }

  // Requests that take this long are logged; Nanos::max() = none.
  Nanos log_slow() const { return Nanos(log_slow_ns_.load(std::memory_order_relaxed)); }
  void set_log_slow(Nanos threshold);

  // Removes all keys at that time, kNoExpiry = not at all; the last call counts. flush_if_due does
  // it, called by the host a few times a second.
  void flush_at(int64_t unix_ms) { flush_at_ms_.store(unix_ms, std::memory_order_relaxed); }
  void flush_if_due();

  // DEBUG SET-ACTIVE-EXPIRE; the host asks before each Engine::expire_some.
  bool active_expiry() const { return active_expiry_.load(std::memory_order_relaxed); }
  void set_active_expiry(bool on) { active_expiry_.store(on, std::memory_order_relaxed); }

 private:
  void changed(std::string_view name, std::string_view value);
  void apply_slow_threshold();

  Engine* engine_;
  KvOptions options_;
  Config config_;
  SlowLog slowlog_;
  LatencyMonitor latency_monitor_;
  CallCounters calls_;
  ErrorCounters errors_;
  MemcachedCounters memcached_;
  Host host_;
  Clock* clock_;
  int64_t started_ms_;
  uint64_t startup_bytes_ = 0;
  std::string run_id_;
  mutable std::mutex baseline_mutex_;  // guards the two below
  DatapathStats traffic_baseline_;
  EngineStats engine_baseline_;
  std::atomic<bool> active_expiry_{true};
  std::atomic<int64_t> flush_at_ms_{kNoExpiry};
  std::atomic<int64_t> log_slow_ns_{Nanos::max().count()};
};

}  // namespace rubato::kv
