// SPDX-License-Identifier: Apache-2.0
#include "kv_server/server/config.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "kv_server/server/memory_rules.h"
#include "kv_server/text/glob.h"
#include "kv_server/text/number.h"
#include "kv_server/text/words.h"

namespace rubato::kv {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinBulkBytes = 1024 * 1024;
constexpr size_t kMaxPasswordBytes = 512;

std::string range_error(int64_t low, int64_t high, std::string_view unit) {
  return "argument must be between " + std::to_string(low) + " and " + std::to_string(high) +
         " inclusive" + std::string(unit);
}

// Numbers of 0 to 100 with spaces between them, as they are to be shown.
std::string shown_percentiles(std::string_view words, std::string& error) {
  const std::string name = "latency-tracking-info-percentiles";
  std::string shown;
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    double percentile = 0;
    if (!parse_double(words.substr(at, end - at), percentile)) {
      error = "Invalid " + name + " parameters";
    } else if (percentile < 0 || percentile > 100) {
      error = name + " parameters should sit between [0.0,100.0]";
    }
    if (!error.empty()) return {};
    shown.append(shown.empty() ? "" : " ").append(shown_percentile(percentile));
    at = end + 1;
  }
  return shown;
}

std::string set_error(std::string_view name, const std::string& error) {
  return "ERR CONFIG SET failed (possibly related to argument '" + std::string(name) + "') - " +
         error;
}

bool is_pattern(std::string_view name) { return name.find_first_of("[*?") != name.npos; }

}  // namespace

std::string shown_percentile(double percentile) {
  char digits[32];
  const int size = std::snprintf(digits, sizeof digits, "%f", percentile);
  std::string shown(digits, static_cast<size_t>(size));
  shown.resize(shown.find_last_not_of('0') + 1);
  if (shown.back() == '.') shown.pop_back();
  return shown;
}

Config::Config(const KvOptions& options)
    : may_have_password_(!options.has_memcached_port()),
      on_disk_(options.engine == "rocksdb"),
      most_clients_(kMaxInt32) {
  add_live(options);
  add_reported(options);
  for (Param& param : params_) store(param, param.value);
}

// The parameters that can be changed while the server runs.
void Config::add_live(const KvOptions& options) {
  const auto text = [](auto number) { return std::to_string(number); };
  params_ = {
      {"maxmemory", Kind::kMemory, text(options.maxmemory_bytes), 0, kMaxInt64},
      {"maxmemory-policy", Kind::kEviction, std::string(to_string(options.eviction))},
      {"client-output-buffer-limit", Kind::kOutputLimit, to_string(options.output_limits)},
      {"client-query-buffer-limit", Kind::kMemory, text(options.query_buffer_bytes),
       static_cast<int64_t>(kMinQueryBufferBytes), kMaxInt64},
      {"maxclients", Kind::kNumber, text(options.maxclients), 1, kMaxInt32},
      {"timeout", Kind::kNumber, text(options.timeout_s), 0, kMaxInt32},
      {"requirepass", Kind::kText, options.requirepass},
      {"protected-mode", Kind::kBool, options.protected_mode ? "yes" : "no", 0, 1,
       &Config::protected_mode_},
      {"slowlog-log-slower-than", Kind::kNumber, text(options.slowlog_log_slower_than_us), -1,
       kMaxInt64, &Config::slower_than_us_},
      {"slowlog-max-len", Kind::kNumber, text(options.slowlog_max_len), 0, kMaxInt64,
       &Config::slowlog_max_len_},
      {"latency-monitor-threshold", Kind::kNumber, "0", 0, kMaxInt64,
       &Config::latency_threshold_ms_},
      {"latency-tracking", Kind::kBool, "yes", 0, 1, &Config::latency_tracking_},
      {"latency-tracking-info-percentiles", Kind::kPercentiles, "50 99 99.9"},
      {"proto-max-bulk-len", Kind::kMemory, text(kMaxValueBytes), kMinBulkBytes,
       static_cast<int64_t>(kMaxValueBytes), &Config::max_bulk_bytes_},
  };
}

// The parameters that are fixed for this server.
void Config::add_reported(const KvOptions& options) {
  const bool persistent = options.engine == "rocksdb";
  const auto fixed = [this](const char* name, std::string value) {
    params_.push_back({name, Kind::kFixed, std::move(value)});
  };
  fixed("save", "");
  fixed("appendonly", persistent ? "yes" : "no");
  fixed("appendfsync", options.durability == Durability::kSync ? "always" : "everysec");
  fixed("dir", persistent ? options.dir : "");
  fixed("databases", "1");
  fixed("port", std::to_string(options.port));
  fixed("bind", options.bind);
  fixed("tcp-keepalive", "300");
  fixed("tcp-backlog", "511");
  const bool everybody = options.debug_command == Allowed::kAll;
  const bool local = options.debug_command == Allowed::kLocal;
  fixed("enable-debug-command", everybody ? "yes" : local ? "local" : "no");
  fixed("cluster-enabled", "no");
  fixed("activedefrag", "no");
  fixed("io-threads", "1");
  fixed("notify-keyspace-events", "");
  fixed("loglevel", "notice");
  fixed("hz", "10");
  fixed("engine", options.engine);
  const bool sync = options.durability == Durability::kSync;
  fixed("durability", !persistent ? "none" : sync ? "sync" : "async");
}

void Config::add_host(HostParams host) {
  host_ = std::move(host);
  for (auto& [name, value] : host_.all()) {
    if (find(name) == nullptr) params_.push_back({name, Kind::kOfHost, {}});
  }
}

Config::Param* Config::find(std::string_view name) {
  for (Param& param : params_) {
    if (same_word(param.name, name)) return &param;
  }
  return nullptr;
}

Config::Pairs Config::get(std::span<const std::string_view> patterns) const {
  const std::lock_guard lock(mutex_);
  Pairs found;
  Pairs of_host;
  const auto value_of = [&](const Param& param) {
    if (param.kind != Kind::kOfHost) return param.value;
    if (of_host.empty()) of_host = host_.all();
    return std::find_if(of_host.begin(), of_host.end(), [&](const auto& pair) {
             return pair.first == param.name;
           })->second;
  };
  std::vector<bool> taken(params_.size());
  for (const std::string_view pattern : patterns) {
    for (size_t i = 0; i < params_.size(); ++i) {
      const Param& param = params_[i];
      const bool fits = is_pattern(pattern) ? glob_match(pattern, param.name, GlobCase::kIgnore)
                                            : same_word(pattern, param.name);
      if (!fits || taken[i]) continue;
      taken[i] = true;
      found.emplace_back(is_pattern(pattern) ? param.name : std::string(pattern),
                         value_of(param));
    }
  }
  return found;
}

std::string Config::text_of(std::string_view name) const {
  const auto found = get(std::span(&name, 1));
  return found.empty() ? "" : found[0].second;
}

std::string Config::canonical(const Param& param, std::string_view value,
                              std::string& error) const {
  switch (param.kind) {
    case Kind::kFixed:
      if (value != param.value) error = "can't set immutable config";
      return std::string(value);
    case Kind::kText:
      if (value.size() > kMaxPasswordBytes) error = "argument is too long";
      return std::string(value);
    case Kind::kOfHost: return std::string(value);
    case Kind::kEviction: {
      const Result<Eviction> eviction = parse_eviction(value);
      if (!eviction.ok()) error = eviction.error();
      return eviction.ok() ? std::string(to_string(eviction.value())) : std::string();
    }
    case Kind::kOutputLimit: {
      const OutputLimits now = parse_output_limits(param.value).value();
      const Result<OutputLimits> limits = parse_output_limits(value, now);
      if (!limits.ok()) error = limits.error();
      return limits.ok() ? to_string(limits.value()) : std::string();
    }
    case Kind::kPercentiles: return shown_percentiles(value, error);
    case Kind::kBool:
      if (!same_word(value, "yes") && !same_word(value, "no")) {
        error = "argument must be 'yes' or 'no'";
      }
      return lower_case(value);
    case Kind::kNumber: {
      int64_t number = 0;
      if (!parse_integer(value, number)) {
        error = "argument couldn't be parsed into an integer";
      } else if (number < param.low || number > param.high) {
        error = range_error(param.low, param.high, "");
      }
      return std::to_string(number);
    }
    case Kind::kMemory: {
      uint64_t bytes = 0;
      if (!parse_memory(value, bytes)) {
        error = "argument must be a memory value";
      } else if (bytes > static_cast<uint64_t>(param.high) ||
                 bytes < static_cast<uint64_t>(param.low)) {
        error = range_error(param.low, param.high, "");
      }
      return std::to_string(bytes);
    }
  }
  return {};
}

// The feature that this server, or its system, lacks for the value; empty = none.
std::string Config::forbidden(const Param& param, std::string_view value) const {
  const std::string_view name = param.name;
  if (name == "requirepass" && !may_have_password_ && !value.empty()) {
    return "the memcached port has no passwords";
  }
  if (name == "maxmemory-policy" && on_disk_ && value != to_string(Eviction::kNone)) {
    return "the rocksdb engine keeps its data on disk, and evicts nothing";
  }
  int64_t number = 0;
  if (name == "maxmemory" && on_disk_ && parse_integer(value, number) && number != 0 &&
      number < static_cast<int64_t>(kMinRocksMemoryBytes)) {
    return "the rocksdb engine takes 32mb at least";
  }
  if (name == "maxclients" && parse_integer(value, number) && number > most_clients_) {
    return "The operating system is not able to handle the specified number of clients, try with " +
           std::to_string(most_clients_);
  }
  return {};
}

void Config::limit_clients(uint32_t most) {
  most_clients_ = most;
  Param& clients = *find("maxclients");
  int64_t number = 0;
  if (parse_integer(clients.value, number) && number > most) clients.value = std::to_string(most);
}

std::string Config::check(Param& param, std::string_view value, Changes& changes) const {
  std::string error;
  std::string changed = canonical(param, value, error);
  for (const auto& [other, _] : changes) {
    if (other == &param) error = "duplicate parameter";
  }
  if (error.empty()) error = forbidden(param, changed);
  changes.emplace_back(&param, std::move(changed));
  return error;
}

std::string Config::set_of_host(const Changes& changes) const {
  Pairs wanted;
  for (const auto& [param, value] : changes) {
    if (param->kind == Kind::kOfHost) wanted.emplace_back(param->name, value);
  }
  if (wanted.empty()) return {};
  const Status set = host_.set(wanted);
  return set.ok() ? std::string() : set_error(wanted[0].first, set.error());
}

std::string Config::set(std::span<const std::string_view> pairs) {
  Changes changes;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (find(pairs[i]) != nullptr) continue;
    return "ERR Unknown option or number of arguments for CONFIG SET - '" +
           std::string(pairs[i]) + "'";
  }
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::string error = check(*find(pairs[i]), pairs[i + 1], changes);
    if (!error.empty()) return set_error(pairs[i], error);
  }
  if (std::string error = set_of_host(changes); !error.empty()) return error;
  for (const auto& [param, value] : changes) {
    if (param->kind == Kind::kOfHost) continue;
    store(*param, value);
    if (observer_) observer_(param->name, value);
  }
  return {};
}

void Config::store(Param& param, std::string value) {
  if (param.live != nullptr) {
    int64_t number = same_word(value, "yes") ? 1 : 0;
    if (param.kind != Kind::kBool) parse_integer(value, number);
    (this->*param.live).store(number, std::memory_order_relaxed);
  }
  if (param.name == "requirepass") {
    password_required_.store(!value.empty(), std::memory_order_relaxed);
  }
  param.value = std::move(value);
}

bool Config::password_is(std::string_view given) const {
  const std::string wanted = text_of("requirepass");
  size_t different = wanted.size() ^ given.size();
  for (size_t i = 0; i < std::max(kMaxPasswordBytes, wanted.size()); ++i) {
    const char a = i < wanted.size() ? wanted[i] : '\0';
    const char b = i < given.size() ? given[i] : '\0';
    different |= static_cast<size_t>(static_cast<unsigned char>(a ^ b));
  }
  return different == 0;
}

}  // namespace rubato::kv
