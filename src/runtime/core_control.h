// SPDX-License-Identifier: Apache-2.0
//
// CoreControl: which workers of a live runtime have a core, decided by an allocator of
// src/overload/cores. The first `guaranteed` workers always have theirs; the others, the burst
// workers, park when the allocator says so and get their cores back when requests wait, or when a
// request comes that they alone may serve. Requests on the connections of a parked worker are taken
// in by worker 0, the proxy poller (DatapathQueue::delegate_to), so no request waits for a core to
// be granted.
//
// A worker parks only when it has no work, so nothing is left behind in its queues; a worker that
// is told to park while it has work parks when the work is done.
//
// A manager of cores (apps/process/core_client.h) may take the decisions over: it is told what the
// allocator would see, and says how many workers may have a core. Its last word bounds the
// allocator when the manager has gone.
//
// One thread at a time runs look() or manage(); threads that look() find it busy and go on. Methods
// that name a worker are called by that worker, unless they say "any thread". Without an allocator
// only allocates() is called.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "mechanism/cpu/pause.h"
#include "metrics/counter.h"
#include "overload/cores/kinds.h"
#include "overload/cores/rule.h"
#include "runtime/core_slot.h"
#include "runtime/idle_cores.h"
#include "runtime/worker_stats.h"

namespace rubato {

class CoreControl {
 public:
  // `rule` null: every worker has a core for good, and idles as RuntimeOptions::idle says.
  CoreControl(std::unique_ptr<overload::CoreRule> rule, uint32_t workers, uint32_t guaranteed,
              CreditSource* credits);

  bool allocates() const { return rule_ != nullptr; }
  // Any thread.
  bool is_guaranteed(WorkerId worker) const { return !allocates() || worker.value < guaranteed_; }
  bool has_core(WorkerId worker) const { return slots_[worker.value].has_core(); }
  static constexpr WorkerId proxy() { return {0}; }
  // True if the proxy poller serves the worker's connections. Set by the worker itself while it
  // parks.
  std::atomic<bool>& delegated(WorkerId worker) { return delegated_[worker.value].value; }

  // True if a burst worker that has been without work for `polled`, or since it was woken, should
  // park.
  bool should_park(WorkerId worker, Nanos polled);
  // The worker starts a request that has waited for `waited`.
  void note_wait(WorkerId worker, Nanos waited) {
    std::atomic<int64_t>& most = own_[worker.value].waited_most_ns;
    if (waited.count() > most.load(std::memory_order_relaxed)) {
      most.store(waited.count(), std::memory_order_relaxed);
    }
  }
  // The worker found work instead.
  void resumed(WorkerId worker) { rule_->resumed(worker.value, idle_); }

  // The worker gives up its core: it calls park, looks for work, sleeps if there is none, and then
  // calls unpark.
  void park(WorkerId worker);
  void sleep(WorkerId worker);  // until it is woken or granted its core
  // The worker was woken and found no work: it stays parked, and looks again. False = it was
  // granted its core.
  bool repark(WorkerId worker) { return slots_[worker.value].repark(); }
  void unpark(WorkerId worker);

  // Any thread, after making work visible that `worker` may have to serve; true = the worker slept.
  bool wake(WorkerId worker);

  // Any thread: true if it is time to call look().
  bool due(Instant at) const {
    return at.ns() >= next_look_ns_.load(std::memory_order_relaxed);
  }
  // The hints that one worker shows.
  struct WorkerSample {
    Nanos busy;             // time in requests since the start
    uint64_t finished = 0;  // requests
    bool serves = false;    // runs a request right now
    bool waits = false;     // a request waits for it
    uint32_t kind = 0;      // policy/contract.h
  };
  static constexpr uint32_t kNobody = UINT32_MAX;
  // Asks the allocator and obeys its decision. sample_of(WorkerId) -> WorkerSample of any worker;
  // `stranded` = a request waits where only a parked worker would take it. Returns the worker that
  // was granted a core and must be woken if it sleeps in its datapath queue, or kNobody.
  template <class SampleOf>
  uint32_t look(Instant at, SampleOf&& sample_of, bool stranded);

  // In place of look(), for a manager of cores: at most `most` workers have a core from now on, the
  // guaranteed ones at least, and if the order is `fresh` so many have. Until unmanage() nobody
  // looks. wake(worker) is called for each worker that got a core, which may sleep in its datapath
  // queue. Returns what the allocator would have seen, of the time since the last call, but for the
  // cores: those that workers have now, or are about to give up. Any thread; waits for a look that
  // runs.
  template <class SampleOf, class Wake>
  overload::CoreSignals manage(Instant at, uint32_t most, bool fresh, SampleOf&& sample_of,
                               bool stranded, Wake&& wake);
  // The allocator decides again, on up to as many cores as the manager allowed last.
  void unmanage() { next_look_ns_.store(0, std::memory_order_relaxed); }

  // Any thread.
  struct Counts {
    uint64_t granted = 0;  // cores now
    uint64_t parked = 0;   // times a worker parked
    uint64_t grants = 0;   // times the allocator gave a core back
    // Times a parked worker took its own core back, for work that only it could do.
    uint64_t self_unparks = 0;
  };
  Counts counts() const;
  Nanos interval() const { return rule_->interval(); }

 private:
  struct alignas(limits::kCacheLineBytes) Flag {
    std::atomic<bool> value{false};
  };
  struct alignas(limits::kCacheLineBytes) OwnCounts {
    Counter parked;
    Counter self_unparks;
    // The maximum since the last look. Relaxed; of two concurrent writes one is lost: it is a
    // sample.
    std::atomic<int64_t> waited_most_ns{0};
  };

  // The controller's record of one worker between two looks.
  struct Watched {
    Nanos busy;
    uint64_t finished = 0;
    Instant waits_since = Instant::never();
    Nanos reluctance;   // of a kind the worker with the least reluctance is parked
    uint32_t kind = 0;
  };

  static Nanos delay_of(Watched& watched, const WorkerSample& sample, Instant at);
  template <class SampleOf>
  overload::CoreSignals signals(Instant at, SampleOf&& sample_of, bool stranded);
  uint32_t obey(overload::CoreChange change);
  uint32_t grant_one();
  bool grant(uint32_t worker);
  void request_one_park();

  const std::unique_ptr<overload::CoreRule> rule_;
  const uint32_t guaranteed_;
  IdleCores idle_;
  std::vector<CoreSlot<>> slots_;
  std::vector<Flag> delegated_;
  std::vector<OwnCounts> own_;

  // The state of the thread that looks. Ordering: the flag is taken with acquire and cleared with
  // release, so each holder sees the changes of the one before.
  std::atomic_flag looking_{};
  std::atomic<int64_t> next_look_ns_{0};
  bool looked_ = false;
  Instant last_look_;
  uint32_t limit_;  // cores at most
  std::vector<Watched> watched_;
  Counter grants_;
};

// Requires the flag. The first time only takes the measure, and has neither mean nor share.
template <class SampleOf>
overload::CoreSignals CoreControl::signals(Instant at, SampleOf&& sample_of, bool stranded) {
  overload::CoreSignals seen;
  seen.limit = limit_;
  seen.parked_has_work = stranded;
  Nanos busy;
  Nanos delays;
  for (uint32_t w = 0; w < slots_.size(); ++w) {
    const WorkerSample sample = sample_of(WorkerId{w});
    const Nanos waited(own_[w].waited_most_ns.exchange(0, std::memory_order_relaxed));
    const Nanos delay = std::max(waited, delay_of(watched_[w], sample, at));
    watched_[w].reluctance = delay + Nanos(sample.serves ? 1 : 0);
    watched_[w].kind = sample.kind;
    busy += sample.busy - std::exchange(watched_[w].busy, sample.busy);
    if (slots_[w].get() != CoreState::kGranted) continue;
    ++seen.cores;
    seen.max_delay = std::max(seen.max_delay, delay);
    delays += delay;
  }
  const Nanos passed = at - std::exchange(last_look_, at);
  if (looked_ && passed > Nanos()) {
    const double cores = std::max(seen.cores, 1u);
    seen.mean_delay = delays / std::max(seen.cores, 1u);
    seen.busy = std::clamp(busy.seconds() / (passed.seconds() * cores), 0.0, 1.0);
  }
  return seen;
}

template <class SampleOf>
uint32_t CoreControl::look(Instant at, SampleOf&& sample_of, bool stranded) {
  if (looking_.test_and_set(std::memory_order_acquire)) return kNobody;
  if (!due(at)) {  // another thread has looked, or a manager decides
    looking_.clear(std::memory_order_release);
    return kNobody;
  }
  const bool time_passed = looked_ && at > last_look_;
  const overload::CoreSignals seen = signals(at, sample_of, stranded);
  looked_ = true;
  const uint32_t woken = time_passed ? obey(rule_->change(seen)) : kNobody;
  next_look_ns_.store((at + rule_->interval()).ns(), std::memory_order_relaxed);
  looking_.clear(std::memory_order_release);
  return woken;
}

template <class SampleOf, class Wake>
overload::CoreSignals CoreControl::manage(Instant at, uint32_t most, bool fresh,
                                          SampleOf&& sample_of, bool stranded, Wake&& wake) {
  while (looking_.test_and_set(std::memory_order_acquire)) cpu_pause();
  limit_ = std::clamp(most, guaranteed_, static_cast<uint32_t>(slots_.size()));
  overload::CoreSignals seen = signals(at, sample_of, stranded);
  looked_ = true;
  for (; seen.cores > limit_; --seen.cores) request_one_park();
  for (; fresh && seen.cores < limit_; ++seen.cores) {
    if (const uint32_t woken = grant_one(); woken != kNobody) wake(WorkerId{woken});
  }
  seen.cores = static_cast<uint32_t>(counts().granted);
  next_look_ns_.store(Instant::never().ns(), std::memory_order_relaxed);
  looking_.clear(std::memory_order_release);
  return seen;
}

}  // namespace rubato
