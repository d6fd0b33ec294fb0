// SPDX-License-Identifier: Apache-2.0
//
// CoreLooks<P>: samples the load of the workers for the allocator of cores
// (runtime/core_control.h), and wakes workers as the allocator decides. Any thread; CoreControl
// lets one look run at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "datapath/datapath.h"
#include "policy/contract.h"
#include "runtime/core_control.h"
#include "runtime/plan_cell.h"
#include "runtime/queue_set.h"
#include "runtime/stuck_workers.h"
#include "runtime/wakeups.h"
#include "runtime/worker_stats.h"

namespace rubato {

template <Policy P>
class CoreLooks {
 public:
  CoreLooks(const P& policy, const PlanCell<typename P::Plan>& plan, CoreControl& cores,
            Datapath& datapath, QueueSet<P>& queues, Wakeups<P>& wakeups, StuckWorkers& stuck,
            const std::vector<const WorkerStats*>& stats)
      : policy_(policy),
        published_(plan),
        plan_{hook::initial_plan(policy), stats},
        cores_(cores),
        datapath_(datapath),
        queues_(queues),
        wakeups_(wakeups),
        stuck_(stuck),
        stats_(stats) {}

  // Runs the allocator of cores, if there is one, it is due and no other thread runs it.
  void look_if_due(Instant at) {
    if (!cores_.allocates() || !cores_.due(at)) return;
    const auto sample = [&](WorkerId worker) { return sample_of(worker, at); };
    const uint32_t granted = cores_.look(at, sample, stranded(at));
    if (granted != CoreControl::kNobody) datapath_.queue({granted}).wake();
    wakeups_.call_parked();
  }

  // For Runtime::manage_cores.
  overload::CoreSignals manage(Instant at, std::optional<uint32_t> most, bool fresh) {
    if (!cores_.allocates()) return {};
    if (!most) {
      cores_.unmanage();
      return {};
    }
    const auto sample = [&](WorkerId worker) { return sample_of(worker, at); };
    const auto wake = [&](WorkerId worker) { datapath_.queue(worker).wake(); };
    const overload::CoreSignals seen = cores_.manage(at, *most, fresh, sample, stranded(at), wake);
    wakeups_.call_parked();
    return seen;
  }

 private:
  // What a policy is asked by; of the thread that looks.
  struct Planned {
    typename P::Plan current;
    const std::vector<const WorkerStats*>& stats;
    uint32_t version = 0;

    const typename P::Plan& plan() const { return current; }
    uint32_t workers() const { return static_cast<uint32_t>(stats.size()); }
  };

  // The kernel is asked for arrivals only where no worker has polled for long: it is a system call.
  CoreControl::WorkerSample sample_of(WorkerId worker, Instant at) {
    const auto workers = static_cast<uint32_t>(stats_.size());
    const WorkerStats& stats = *stats_[worker.value];
    const int64_t since = stats.busy_since_ns.load(std::memory_order_relaxed);
    CoreControl::WorkerSample sample;
    sample.busy = Nanos(static_cast<int64_t>(stats.busy_ns.value())) +
                 (since != 0 ? at - Instant(since) : Nanos());
    published_.refresh(plan_.current, plan_.version);
    sample.kind = hook::kind(policy_, worker, plan_);
    sample.finished = stats.requests.value();
    sample.serves = since != 0;
    sample.waits = queues_.depth({0, arrival_index(policy_, worker, workers)}) > 0 ||
                  (stuck_.is_stuck(worker, at) && datapath_.queue(worker).pending());
    return sample;
  }

  // True if requests wait at a parked worker and the proxy poller cannot take them in.
  bool stranded(Instant at) {
    if (!stuck_.is_stuck(CoreControl::proxy(), at)) return false;
    for (uint32_t i = 0; i < stats_.size(); ++i) {
      if (cores_.delegated({i}).load(std::memory_order_acquire) && datapath_.queue({i}).pending()) {
        return true;
      }
    }
    return false;
  }

  const P& policy_;
  const PlanCell<typename P::Plan>& published_;
  Planned plan_;
  CoreControl& cores_;
  Datapath& datapath_;
  QueueSet<P>& queues_;
  Wakeups<P>& wakeups_;
  StuckWorkers& stuck_;
  const std::vector<const WorkerStats*>& stats_;
};

}  // namespace rubato
