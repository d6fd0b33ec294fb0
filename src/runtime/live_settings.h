// SPDX-License-Identifier: Apache-2.0
//
// LiveSettings: the options of a runtime that change at once while it runs: the drain limit, the
// latency from which requests are slow, and the refusal rule, which counts where late requests are
// refused (--overload aqm). Any thread; workers take a new rule up before the next burst of
// requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "overload/refusal_rule.h"
#include "runtime/plan_cell.h"
#include "runtime/shutdown.h"

namespace rubato {

class LiveSettings {
 public:
  // Borrows `shutdown`.
  LiveSettings(Shutdown& shutdown, const overload::RefusalSettings& refusal_rule,
               Nanos slow_threshold)
      : shutdown_(shutdown),
        slow_threshold_ns_(slow_threshold.count()),
        refusal_rule_(refusal_rule) {}

  // Application::slow is called for requests that took this long.
  Nanos slow_threshold() const {
    return Nanos(slow_threshold_ns_.load(std::memory_order_relaxed));
  }
  void set_slow_threshold(Nanos threshold) {
    slow_threshold_ns_.store(threshold.count(), std::memory_order_relaxed);
  }

  Nanos drain_limit() const { return shutdown_.drain_limit(); }  // also in a signal handler
  void set_drain_limit(Nanos limit) { shutdown_.set_drain_limit(limit); }

  overload::RefusalSettings refusal_rule() const {
    const std::scoped_lock lock(mutex_);
    return refusal_rule_;
  }
  void set_refusal_rule(const overload::RefusalSettings& settings) {
    const std::scoped_lock lock(mutex_);
    refusal_rule_ = settings;
    published_.publish(settings);
  }

  // Copies the rule if it is newer than `seen`, a number that begins at 0. Wait-free.
  bool refresh(overload::RefusalSettings& settings, uint32_t& seen) const {
    return published_.refresh(settings, seen);
  }

 private:
  Shutdown& shutdown_;
  std::atomic<int64_t> slow_threshold_ns_;  // relaxed: read per request
  mutable std::mutex mutex_;  // guards refusal_rule_, and orders those who publish
  overload::RefusalSettings refusal_rule_;
  PlanCell<overload::RefusalSettings> published_;
};

}  // namespace rubato
