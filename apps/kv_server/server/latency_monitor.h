// SPDX-License-Identifier: Apache-2.0
//
// LatencyMonitor: spikes above `latency-monitor-threshold`, per event, as LATENCY LATEST and
// LATENCY HISTORY show them. Bounded per event and in events. Any thread; written for slow
// requests only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace rubato::kv {

class LatencyMonitor {
 public:
  static constexpr size_t kSamples = 160;

  struct Sample {
    int64_t unix_time_s = 0;
    int64_t latency_ms = 0;
  };
  struct Event {
    std::vector<Sample> samples;  // oldest first; one per second, the worst of it
    int64_t max_ms = 0;
  };

  void add(std::string_view event, int64_t unix_time_s, int64_t latency_ms) {
    const std::lock_guard lock(mutex_);
    Event& series = events_[std::string(event)];
    series.max_ms = latency_ms > series.max_ms ? latency_ms : series.max_ms;
    if (!series.samples.empty() && series.samples.back().unix_time_s == unix_time_s) {
      int64_t& last = series.samples.back().latency_ms;
      last = latency_ms > last ? latency_ms : last;
      return;
    }
    if (series.samples.size() == kSamples) series.samples.erase(series.samples.begin());
    series.samples.push_back({unix_time_s, latency_ms});
  }

  std::map<std::string, Event> snapshot() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }

  // Forgets one event, or all of them for an empty name; returns how many.
  size_t reset(std::string_view event) {
    const std::lock_guard lock(mutex_);
    if (!event.empty()) return events_.erase(std::string(event));
    const size_t count = events_.size();
    events_.clear();
    return count;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Event> events_;
};

}  // namespace rubato::kv
