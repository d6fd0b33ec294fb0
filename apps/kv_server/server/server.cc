// SPDX-License-Identifier: Apache-2.0
#include "kv_server/server/server.h"

#include <algorithm>
#include <random>

#include "kv_server/commands/table.h"
#include "kv_server/server/info.h"
#include "kv_server/server/memory_rules.h"
#include "kv_server/text/number.h"

namespace rubato::kv {
namespace {

constexpr size_t kRunIdBytes = 40;

std::string random_run_id() {
  std::random_device random;
  std::string id;
  while (id.size() < kRunIdBytes) id.push_back("0123456789abcdef"[random() % 16]);
  return id;
}

int64_t number_in(std::string_view value) {
  int64_t number = 0;
  parse_integer(value, number);
  return number;
}

}  // namespace

Server::Server(Engine& engine, const KvOptions& options)
    : engine_(&engine),
      options_(options),
      config_(options),
      calls_(command_table().size()),
      errors_(options.overload_reply == OverloadReply::kOverloaded ? "OVERLOADED" : "THROTTLED"),
      clock_(&system_clock()),
      started_ms_(clock_->now_ms()),
      run_id_(random_run_id()) {
  config_.set_observer(
      [this](std::string_view name, std::string_view value) { changed(name, value); });
}

void Server::connect(const Host& host) {
  host_ = host;
  startup_bytes_ = resident_bytes();
  if (host.clock != nullptr) clock_ = host.clock;
  if (host.port != 0) {
    options_.port = host.port;
    config_.report("port", std::to_string(host.port));
  }
  if (host.control != nullptr) {
    config_.add_host({[control = host.control] { return control->scheduler_options(); },
                      [control = host.control](const Config::Pairs& wanted) {
                        return control->set_scheduler_options(wanted);
                      }});
  }
  apply_slow_threshold();
}

void Server::flush_if_due() {
  int64_t due = flush_at_ms_.load(std::memory_order_relaxed);
  if (due == kNoExpiry || now_ms() < due) return;
  // A later flush_at counts.
  if (flush_at_ms_.compare_exchange_strong(due, kNoExpiry, std::memory_order_relaxed)) {
    static_cast<void>(engine_->flush());
  }
}

void Server::reset_statistics() {
  calls_.reset();
  errors_.reset();
  memcached_.reset();
  if (host_.latency != nullptr) host_.latency->reset();
  const DatapathStats traffic =
      host_.datapath == nullptr ? DatapathStats{} : host_.datapath->stats();
  const std::lock_guard lock(baseline_mutex_);
  traffic_baseline_ = traffic;
  engine_baseline_ = engine_->stats();
}

DatapathStats Server::traffic() const {
  DatapathStats now = host_.datapath == nullptr ? DatapathStats{} : host_.datapath->stats();
  const std::lock_guard lock(baseline_mutex_);
  const DatapathStats& from = traffic_baseline_;
  now.flows_accepted -= from.flows_accepted;
  now.flows_refused -= from.flows_refused;
  now.flows_timed_out -= from.flows_timed_out;
  now.flows_overflowed -= from.flows_overflowed;
  now.flows_input_limit -= from.flows_input_limit;
  now.flows_steered -= from.flows_steered;
  now.flows_unsteered -= from.flows_unsteered;
  now.requests -= from.requests;
  now.input_bytes -= from.input_bytes;
  now.output_bytes -= from.output_bytes;
  now.zerocopy_sends -= from.zerocopy_sends;
  now.zerocopy_copied -= from.zerocopy_copied;
  now.zerocopy_refused -= from.zerocopy_refused;
  return now;
}

EngineStats Server::engine_counts() const {
  EngineStats now = engine_->stats();
  const std::lock_guard lock(baseline_mutex_);
  now.hits -= engine_baseline_.hits;
  now.misses -= engine_baseline_.misses;
  now.expired -= engine_baseline_.expired;
  now.swept -= engine_baseline_.swept;
  now.evicted -= engine_baseline_.evicted;
  return now;
}

void Server::changed(std::string_view name, std::string_view value) {
  if (name == "maxmemory-policy") engine_->set_eviction(parse_eviction(value).value());
  if (name == "client-output-buffer-limit" && options_.memory != nullptr) {
    options_.memory->set_output_limit(parse_output_limits(value).value().normal);
  }
  if (name == "client-query-buffer-limit" && options_.memory != nullptr) {
    options_.memory->set_input_limit(static_cast<uint64_t>(number_in(value)));
  }
  if (name == "maxmemory") engine_->set_maxmemory(static_cast<uint64_t>(number_in(value)));
  if (name == "slowlog-log-slower-than" || name == "latency-monitor-threshold") {
    apply_slow_threshold();
  }
  if (host_.control == nullptr) return;
  if (name == "maxclients") host_.control->set_max_flows(static_cast<uint32_t>(number_in(value)));
  if (name == "timeout") host_.control->set_idle_timeout(Nanos::seconds(number_in(value)));
}

void Server::set_log_slow(Nanos threshold) {
  log_slow_ns_.store(threshold.count(), std::memory_order_relaxed);
  apply_slow_threshold();
}

// The host calls back at the lowest of the thresholds that are on.
void Server::apply_slow_threshold() {
  if (host_.control == nullptr) return;
  Nanos threshold = log_slow();
  const int64_t slowlog_us = config_.slowlog_slower_than_us();
  const int64_t monitor_ms = config_.latency_threshold_ms();
  if (slowlog_us >= 0) threshold = std::min(threshold, Nanos::micros(slowlog_us));
  if (monitor_ms > 0) threshold = std::min(threshold, Nanos::millis(monitor_ms));
  host_.control->set_slow_threshold(threshold);
}

}  // namespace rubato::kv
