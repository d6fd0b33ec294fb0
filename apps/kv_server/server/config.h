// SPDX-License-Identifier: Apache-2.0
//
// Config: the parameters of CONFIG GET and CONFIG SET. Redis has many that mean nothing here; those
// that clients ask for are listed with the value that is true of this server, and cannot be set to
// another. Any thread; numbers that are read per request are atomics of their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kv_server/server/options.h"

namespace rubato::kv {

// "99.9": at most six decimals, as Redis shows a percentile.
std::string shown_percentile(double percentile);

class Config {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  // A parameter was set; `value` is its canonical text.
  using Observer = std::function<void(std::string_view name, std::string_view value)>;

  explicit Config(const KvOptions& options);

  // Set once, before the first request. Called with the lock held, so that the last value it sees
  // is the one kept; it may read the numbers here and must not get or set.
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  // Parameters that match any of the names or glob patterns, each once.
  Pairs get(std::span<const std::string_view> patterns) const;

  // Sets all of the name-value pairs or none. Returns the error reply, empty = done.
  std::string set(std::span<const std::string_view> pairs);

  int64_t slowlog_slower_than_us() const { return load(slower_than_us_); }
  int64_t slowlog_max_len() const { return load(slowlog_max_len_); }
  int64_t latency_threshold_ms() const { return load(latency_threshold_ms_); }
  int64_t max_bulk_bytes() const { return load(max_bulk_bytes_); }
  bool latency_tracking() const { return load(latency_tracking_) != 0; }
  std::string percentiles() const { return text_of("latency-tracking-info-percentiles"); }
  std::string text_of(std::string_view name) const;

  // Parameters that the host keeps: all of them as they are, and a call that sets some, or none of
  // them and says why.
  struct HostParams {
    std::function<Pairs()> all;
    std::function<Status(const Pairs& wanted)> set;
  };
  // Before the first request.
  void add_host(HostParams host);

  // Called before the first request, with values known only after the set-up of the server.
  void report(std::string_view name, std::string value) { find(name)->value = std::move(value); }
  // Before the first request: maxclients is `most` at most, and lowered to it.
  void limit_clients(uint32_t most);

  // Only clients of this machine are served.
  bool is_protected() const { return load(protected_mode_) != 0 && !password_required(); }
  bool password_required() const { return password_required_.load(std::memory_order_relaxed); }
  // Takes the same time wherever the first difference is.
  bool password_is(std::string_view given) const;

 private:
  enum class Kind : uint8_t {
    kFixed, kNumber, kMemory, kBool, kText, kPercentiles, kEviction, kOutputLimit, kOfHost
  };
  struct Param {
    std::string name;
    Kind kind;
    std::string value;
    int64_t low = 0;
    int64_t high = 0;
    std::atomic<int64_t> Config::*live = nullptr;
  };

  static int64_t load(const std::atomic<int64_t>& value) {
    return value.load(std::memory_order_relaxed);
  }
  void add_live(const KvOptions& options);
  void add_reported(const KvOptions& options);
  Param* find(std::string_view name);
  // Adds the parameter's new value to `changes`, or returns what is wrong with it.
  using Changes = std::vector<std::pair<Param*, std::string>>;
  std::string check(Param& param, std::string_view value, Changes& changes) const;
  std::string set_of_host(const Changes& changes) const;
  std::string forbidden(const Param& param, std::string_view value) const;
  std::string canonical(const Param& param, std::string_view value, std::string& error) const;
  void store(Param& param, std::string value);

  const bool may_have_password_;
  const bool on_disk_;
  int64_t most_clients_;
  mutable std::mutex mutex_;
  std::vector<Param> params_;
  Observer observer_;
  HostParams host_;
  std::atomic<int64_t> slower_than_us_{0};
  std::atomic<int64_t> slowlog_max_len_{0};
  std::atomic<int64_t> latency_threshold_ms_{0};
  std::atomic<int64_t> max_bulk_bytes_{0};
  std::atomic<int64_t> latency_tracking_{1};
  std::atomic<int64_t> protected_mode_{1};
  std::atomic<bool> password_required_{false};
};

}  // namespace rubato::kv
