// SPDX-License-Identifier: Apache-2.0
//
// LiveHost<P>: the verbs of policy/contract.h over real queues, as one context (worker or timer
// core) sees them. One per context, used by that context's thread only; the queues behind it are
// shared.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "metrics/counter.h"
#include "policy/contract.h"
#include "policy/extensions.h"
#include "runtime/shared_state.h"
#include "runtime/plan_cell.h"
#include "runtime/queue_set.h"
#include "runtime/worker_stats.h"
#include "sched/draws.h"

namespace rubato {

template <Policy P>
class LiveHost {
 public:
  using Plan = typename P::Plan;

  // `stats` are those of all workers, complete when the first hook is called.
  LiveHost(QueueSet<P>& queues, const PlanCell<Plan>& cell, const Plan& initial, uint32_t workers,
           const std::vector<const WorkerStats*>& stats, SharedState& shared_state,
           sched::Draws draws)
      : queues_(queues),
        cell_(cell),
        plan_(initial),
        workers_(workers),
        stats_(stats),
        shared_state_(shared_state),
        draws_(draws),
        before_look_(draws) {}

  Instant now() const { return now_; }
  uint32_t workers() const { return workers_; }
  uint32_t depth(QueueRef q) {
    return queues_.visit(q, [](auto& queue) { return queue.depth(); });
  }
  uint64_t produced(QueueRef q) {
    return queues_.visit(q, [](auto& queue) { return queue.produced(); });
  }
  uint64_t consumed(QueueRef q) {
    return queues_.visit(q, [](auto& queue) { return queue.consumed(); });
  }
  Instant oldest(QueueRef q) {
    const uint64_t first = first_key<ByArrival>(q);
    return first == kNoWord ? Instant::never() : Instant(static_cast<int64_t>(first));
  }
  uint64_t first_word(QueueRef q) { return first_key<ByWord>(q); }
  bool busy(WorkerId worker) {
    return stats_[worker.value]->busy_since_ns.load(kRelaxed) != 0;
  }
  uint64_t arrived(uint32_t type) {
    uint64_t sum = 0;
    for (const WorkerStats* stats : stats_) sum += stats->arrived[type].value();
    return sum;
  }
  Served served(uint32_t type) {
    Served sum;
    const uint32_t slots = type + 1 == limits::kTypes ? kRequestTypes : type + 1;
    const uint32_t end = std::min(slots, types_end());
    if (type >= end) return sum;
    for (const WorkerStats* stats : stats_) {
      for (uint32_t slot = type; slot < end; ++slot) add_served(*stats, slot, sum);
    }
    return sum;
  }
  Served served_as(JobClass job_class) {
    Served sum;
    for (const WorkerStats* stats : stats_) {
      add_served(stats->of_class(job_class), sum);
    }
    return sum;
  }
  uint64_t hint(WorkerId worker) const { return shared_state_.hint(worker); }
  bool publish_hint(WorkerId worker, uint64_t seen, uint64_t value) {
    return shared_state_.publish_hint(worker, seen, value);
  }
  bool steer(uint64_t flow, WorkerId to) { return shared_state_.steer(flow, to); }
  bool unsteer(uint64_t flow) { return shared_state_.unsteer(flow); }
  Job* take_tail(QueueRef q) {
    return queues_.visit(q, [](auto& queue) -> Job* {
      Job* job = nullptr;
      if constexpr (requires { queue.take_tail(job); }) {
        return queue.take_tail(job) ? job : nullptr;
      } else {
        check_failed(__FILE__, __LINE__, "the tail of a queue that has none");
      }
    });
  }
  Job* take(QueueRef q) {
    return queues_.visit(q, [](auto& queue) {
      Job* job = nullptr;
      return queue.take(job) ? job : nullptr;
    });
  }
  bool put(QueueRef q, Job* job) {
    if (!queues_.visit(q, [job](auto& queue) { return queue.put(job); })) return false;
    if (kPushes<P> && is_pushed(P::kQueues[q.declaration])) pushed_.set(q.index);
    return true;
  }

  // The batch lands in a buffer of this context first, because `victim` and `into` may be of
  // different types. `into` is the thief's own queue and has room: a thief steals when it is empty.
  Job* steal(QueueRef victim, QueueRef into, uint32_t max) {
    std::array<Job*, limits::kStealMax> batch;
    const std::span<Job*> room(batch.data(), std::min(max, limits::kStealMax));
    const uint32_t n = queues_.visit(victim, [room](auto& q) { return take_some(q, room); });
    if (n == 0) return nullptr;
    if (victim.index != into.index) {  // otherwise the batch is the context's own
      ++steals_;
      stolen_ += n;
    }
    for (uint32_t i = 1; i < n; ++i) RUBATO_CHECK(put(into, batch[i]));
    return batch[0];
  }

  uint32_t random(uint32_t bound) { return draws_.below(bound); }
  const Plan& plan() const { return plan_; }
  // The jobs belong to the receiver as soon as they are in the mailbox.
  bool send(ManagerId to, const Message& message) {
    for (uint32_t i = 0; i < message.jobs; ++i) ++message.job[i]->moves;
    if (shared_state_.send(to, message)) {
      mailed_.set(to.value);
      sent_ += message.jobs;
      return true;
    }
    for (uint32_t i = 0; i < message.jobs; ++i) --message.job[i]->moves;
    return false;
  }
  bool receive(ManagerId me, Message& message) { return shared_state_.receive(me, message); }

  // Steps of the context itself, between decisions. Counters are read by any thread.
  void begin_look() { before_look_ = draws_; }
  void end_look(bool found) {
    if (!found) draws_ = before_look_;
  }
  void set_now(Instant now) { now_ = now; }
  void refresh_plan() { cell_.refresh(plan_, plan_version_); }
  // Calls f(WorkerId) for each worker into whose own queue this context has put a job since the
  // last call.
  template <class F>
  void take_pushed(F&& f) {
    if (!kPushes<P> || pushed_.none()) return;
    for (uint32_t worker = 0; worker < workers_; ++worker) {
      if (pushed_.test(worker)) f(WorkerId{worker});
    }
    pushed_.reset();
  }
  // The same for managers that this context has sent messages to.
  template <class F>
  void take_mailed(F&& f) {
    if (mailed_.none()) return;
    for (uint32_t manager = 0; manager < limits::kMaxManagers; ++manager) {
      if (mailed_.test(manager)) f(ManagerId{manager});
    }
    mailed_.reset();
  }
  const Counter& sent() const { return sent_; }  // jobs, to other managers
  const Counter& steals() const { return steals_; }
  const Counter& stolen() const { return stolen_; }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

  // Requires a queue whose items show such a key.
  template <class Key>
  uint64_t first_key(QueueRef q) {
    return queues_.visit(q, [](auto& queue) -> uint64_t {
      using Queue = std::remove_cvref_t<decltype(queue)>;
      if constexpr (ShowsKey<Queue, Key>) {
        static_assert(Queue::kNoKey == kNoWord);
        return queue.first_key();
      } else {
        check_failed(__FILE__, __LINE__, "a queue that does not show this of its head");
      }
    });
  }
  // One beyond the last type that a worker has seen, looked for once per step: a plan asks for each
  // type in turn, and most do not exist.
  uint32_t types_end() {
    if (std::exchange(types_looked_for_, now_) == now_) return types_end_;
    types_end_ = 0;
    for (const WorkerStats* stats : stats_) types_end_ = std::max(types_end_, stats->types_end());
    return types_end_;
  }
  static void add_served(const WorkerStats& stats, uint32_t slot, Served& sum) {
    const TypeStats* type = stats.find_type(slot);
    if (type != nullptr) add_served(*type, sum);
  }
  template <class Stats>
  static void add_served(const Stats& stats, Served& sum) {
    sum.count += stats.served.value();
    sum.service += Nanos(static_cast<int64_t>(stats.service_ns.value()));
    sum.waited += Nanos(static_cast<int64_t>(stats.waited_ns.value()));
  }

  template <class Q>
  static uint32_t take_some(Q& queue, std::span<Job*> room) {
    if constexpr (requires { queue.steal(room); }) {
      return queue.steal(room);
    } else {
      return queue.take(room[0]) ? 1u : 0u;
    }
  }

  QueueSet<P>& queues_;
  const PlanCell<Plan>& cell_;
  Plan plan_;
  uint32_t plan_version_ = 0;
  uint32_t workers_;
  const std::vector<const WorkerStats*>& stats_;
  SharedState& shared_state_;
  sched::Draws draws_, before_look_;
  Instant now_;
  Instant types_looked_for_ = Instant::never();
  uint32_t types_end_ = 0;
  std::bitset<limits::kMaxWorkers> pushed_;
  std::bitset<limits::kMaxManagers> mailed_;
  Counter sent_;
  Counter steals_;
  Counter stolen_;
};

}  // namespace rubato
