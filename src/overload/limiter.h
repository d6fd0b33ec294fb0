// SPDX-License-Identifier: Apache-2.0
//
// Limiter: what a server of many workers takes in by a rule that limits it as a whole
// (limiter_rules.h). It counts what the rule wants to know, asks it at the end of each window, and
// applies the limits that it decided. sched::Core calls it, in every host:
//
//   admits    a request has come; false = it is refused
//   starts    an admitted one gets a worker; false = it has waited too long, `leaves` follows
//   finished  it is done
//   leaves    or it was admitted, and is refused before its start
//   look      nothing happens: a window may end nevertheless
//
// `worker` is the calling one: any thread may call, and writes the lines of its worker only, but
// for the number of requests inside and, of rules whose windows end after so many, of the window.
//
// Ordering: all cells are sequentially consistent. One thread at a time decides: who sets
// `deciding_` by an exchange reads what the one before it wrote; others go on meanwhile by the
// limits before. A decision reads what each worker has counted, of its histogram only the range
// that is in use. Counts are in no order with anything: a window's sums may miss what happens while
// they are made, or shortly before; the next has it.
//
// A Platform has Cell<T>, an atomic T with load, store, exchange and fetch_add, and Count<T>, one
// without an order and without exchange.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"
#include "metrics/buckets.h"
#include "overload/limiter_rules.h"
#include "overload/load_window.h"
#include "overload/one_thread.h"

namespace rubato::overload {

struct LimiterReport {
  uint64_t decisions = 0;
  Limits limits;             // the last
  double mean_underway = 0;  // over all decisions; 0 = the rule does not limit that
  double mean_levels = 0;    // likewise, as the share of all levels
};

template <class Platform>
class Limiter {
 public:
  Limiter(const LimiterSettings& settings, uint32_t workers, uint64_t seed)
      : rule_(make_limiter_rule(settings, seed)),
        by_latency_(goes_by_latency(settings)),
        longest_wait_(visit_rule([](const auto& rule) { return rule.longest_wait(); })),
        all_(size()),
        sums_(size()),
        window_(size()) {
    for (uint32_t w = 0; w < workers; ++w) {
      ledgers_.push_back(std::make_unique<Ledger>(size()));
    }
    apply(visit_rule([](const auto& rule) { return rule.limits(); }));
  }

  bool admits(uint32_t worker, const Urgency& of, Instant now) {
    RUBATO_DCHECK(worker < ledgers_.size());
    Ledger& ledger = *ledgers_[worker];
    const int64_t number = ledger.arrived.fetch_add(1);
    ledger.seen_underway.fetch_add(std::max<int64_t>(inside_.load() - waiting_.load(), 0));
    uint32_t level = 0;
    if (!by_latency_) {
      const uint64_t itself = ~static_cast<uint64_t>(number) ^ (uint64_t{worker} << 48);
      level = level_of(of, itself, now);
      ledger.count(level);
    }
    end_window_if_due(!by_latency_, now);
    if (level >= levels_.load()) return false;
    if (inside_.fetch_add(1) >= most_.load()) {
      inside_.fetch_add(-1);
      return false;
    }
    ledger.admitted.fetch_add(1);
    waiting_.fetch_add(1);
    return true;
  }

  bool starts(uint32_t worker, Nanos wait, Instant now) {
    if (wait > longest_wait_) return false;
    Ledger& ledger = *ledgers_[worker];
    ledger.started.fetch_add(1);
    ledger.waited_ns.fetch_add(wait.count());
    waits_no_longer(now);
    return true;
  }

  void finished(uint32_t worker, Instant arrived, Instant now) {
    inside_.fetch_add(-1);
    const bool counts = by_latency_ && arrived.ns() >= counts_from_ns_.load();
    if (counts) {
      const auto ns = static_cast<uint64_t>(std::max<int64_t>((now - arrived).count(), 0));
      ledgers_[worker]->count(buckets::index_of(std::min(ns, buckets::kTop - 1)));
    }
    end_window_if_due(counts, now);
  }

  void leaves(Instant now) {
    inside_.fetch_add(-1);
    waits_no_longer(now);
  }

  void look(Instant now) { end_window_if_due(false, now); }

  // Would the least urgent request be refused now?
  bool limits() const { return levels_.load() < kLevels || inside_.load() >= most_.load(); }
  // A refused client should ask again when the limits may be others.
  Nanos retry_after() const { return Nanos(std::min(length_ns_.load(), kLongestRetry.count())); }
  // How many of the most urgent levels are admitted.
  uint16_t levels() const { return static_cast<uint16_t>(levels_.load()); }
  int64_t inside() const { return inside_.load(); }
  LimiterReport report() const {
    const auto count = static_cast<double>(decisions_.load() + 1);  // with the first limits
    const Limits limits{most_.load(), static_cast<uint32_t>(levels_.load())};
    return {.decisions = static_cast<uint64_t>(decisions_.load()),
            .limits = limits,
            .mean_underway = static_cast<double>(sum_of_most_.load()) / count,
            .mean_levels = static_cast<double>(sum_of_levels_.load()) / count / kLevels};
  }

 private:
  template <class T>
  using Cell = typename Platform::template Cell<T>;
  using Count = typename Platform::template Count<int64_t>;
  static constexpr Nanos kLongestRetry = Nanos::seconds(1);

  size_t size() const { return by_latency_ ? buckets::kCount : kLevels; }

  // What one worker has counted since the start.
  struct alignas(limits::kCacheLineBytes) Ledger {
    explicit Ledger(size_t size) : first(static_cast<int64_t>(size)), histogram(size) {}

    void count(size_t index) {
      const auto at = static_cast<int64_t>(index);
      if (at < first.load()) first.store(at);
      if (at > last.load()) last.store(at);
      histogram[index].fetch_add(1);
    }

    Count arrived{0};
    Count seen_underway{0};  // by each arrival, in all
    Count admitted{0};
    Count started{0};
    Count waited_ns{0};
    Count first, last{-1};          // used of the histogram
    std::vector<Count> histogram;  // of latencies, or of levels, whatever the rule goes by
  };
  struct Sums {
    explicit Sums(size_t size) : histogram(size) {}
    int64_t arrived = 0, seen_underway = 0, admitted = 0, started = 0, waited_ns = 0;
    std::vector<int64_t> histogram;
  };

  template <class F>
  auto visit_rule(F&& f) const {
    return std::visit(std::forward<F>(f), rule_);
  }

  void waits_no_longer(Instant now) {
    if (waiting_.fetch_add(-1) == 1) none_waits_ns_.store(now.ns());
  }

  void end_window_if_due(bool counts, Instant now) {
    const bool enough = counts && counted_.fetch_add(1) + 1 >= end_after_.load();
    if (!enough && now.ns() < due_ns_.load()) [[likely]] return;
    if (deciding_.exchange(true)) return;
    if (enough || now.ns() >= due_ns_.load()) next_window(now);
    deciding_.store(false);
  }

  // From here on `deciding_` is the caller's.

  // The first event begins the first window.
  void next_window(Instant now) {
    const LoadWindow window = end_window(now);
    if (began_) {
      std::visit([&](auto& rule) { rule.decide(window, now); }, rule_);
      apply(visit_rule([](const auto& rule) { return rule.limits(); }));
      decisions_.fetch_add(1);
    }
    began_ = now;
    const WindowEnd end = visit_rule([](const auto& rule) { return rule.window(); });
    counted_.store(0);
    end_after_.store(end.requests);
    counts_from_ns_.store(end.only_new ? now.ns() : 0);
    length_ns_.store(end.length.count());
    due_ns_.store(end.length == Nanos::max() ? Instant::never().ns() : (now + end.length).ns());
  }

  LoadWindow end_window(Instant now) {
    if (waiting_.load() == 0) none_waits_ns_.store(now.ns());
    all_.arrived = all_.seen_underway = all_.admitted = all_.started = all_.waited_ns = 0;
    std::fill(all_.histogram.begin(), all_.histogram.end(), 0);
    for (const auto& ledger : ledgers_) add(*ledger, all_);
    subtract(all_, sums_, window_);
    std::swap(sums_, all_);
    LoadWindow window;
    window.length = now - began_.value_or(now);
    window.arrived = window_.arrived;
    window.admitted = window_.admitted;
    window.started = window_.started;
    window.waited = Nanos(window_.waited_ns);
    window.waiting = waiting_.load();
    if (window.arrived > 0) {
      window.underway =
          static_cast<double>(window_.seen_underway) / static_cast<double>(window.arrived);
    }
    window.queued_for = now - Instant(none_waits_ns_.load());
    (by_latency_ ? window.latencies : window.by_level) = window_.histogram;
    return window;
  }

  static void add(const Ledger& ledger, Sums& sums) {
    sums.arrived += ledger.arrived.load();
    sums.seen_underway += ledger.seen_underway.load();
    sums.admitted += ledger.admitted.load();
    sums.started += ledger.started.load();
    sums.waited_ns += ledger.waited_ns.load();
    const auto end = static_cast<size_t>(ledger.last.load() + 1);
    for (auto i = static_cast<size_t>(ledger.first.load()); i < end; ++i) {
      sums.histogram[i] += ledger.histogram[i].load();
    }
  }

  static void subtract(const Sums& now, const Sums& before, Sums& difference) {
    difference.arrived = now.arrived - before.arrived;
    difference.seen_underway = now.seen_underway - before.seen_underway;
    difference.admitted = now.admitted - before.admitted;
    difference.started = now.started - before.started;
    difference.waited_ns = now.waited_ns - before.waited_ns;
    for (size_t i = 0; i < now.histogram.size(); ++i) {
      difference.histogram[i] = now.histogram[i] - before.histogram[i];
    }
  }

  void apply(const Limits& limits) {
    most_.store(limits.underway);
    levels_.store(limits.levels);
    sum_of_levels_.fetch_add(limits.levels);
    if (limits.underway != kUnlimited) sum_of_most_.fetch_add(limits.underway);
  }

  AnyLimiterRule rule_;
  const bool by_latency_;  // else by priorities
  const Nanos longest_wait_;
  std::vector<std::unique_ptr<Ledger>> ledgers_;
  Sums all_;     // room for those up to now
  Sums sums_;    // up to the last decision
  Sums window_;  // of the last window
  std::optional<Instant> began_;

  // Written by whoever decides.
  alignas(limits::kCacheLineBytes) Cell<int64_t> levels_{kLevels};
  Cell<int64_t> most_{kUnlimited};
  Cell<int64_t> due_ns_{0};
  Cell<int64_t> end_after_{kUnlimited};
  Cell<int64_t> counts_from_ns_{0};
  Cell<int64_t> length_ns_{0};
  Cell<int64_t> decisions_{0};
  Cell<int64_t> sum_of_levels_{0};
  Cell<int64_t> sum_of_most_{0};
  Cell<bool> deciding_{false};

  // Written by all.
  alignas(limits::kCacheLineBytes) Cell<int64_t> inside_{0};  // admitted, not finished
  Cell<int64_t> waiting_{0};                                  // of these, not started
  Cell<int64_t> none_waits_ns_{0};                            // when none did, the last time
  Cell<int64_t> counted_{0};                                  // requests of the window
};

}  // namespace rubato::overload
