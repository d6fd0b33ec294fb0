// SPDX-License-Identifier: Apache-2.0
//
// SimHost<P>: the verbs of policy/contract.h over plain queues in virtual time, each with a price.
// The engine seats a worker with sit(), calls a hook, and reads from spent() what the verbs that
// the hook used cost that worker. Verbs take effect at the start of a decision; its price delays
// what the worker does next. One owner, as everything in a simulation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/prng.h"
#include "policy/archetype.h"
#include "policy/contract.h"
#include "policy/extensions.h"
#include "sim/bit_ring.h"
#include "sim/costs.h"
#include "sim/job_queue.h"
#include "sim/mailbox.h"
#include "sim/nic.h"
#include "sim/orderable_job_queue.h"
#include "sim/request.h"
#include "sim/trace.h"

namespace rubato::sim {

template <Policy P>
class SimHost {
 public:
  using Plan = typename P::Plan;

  // `idle` are the workers without a job; `trace` may be null.
  SimHost(const P& policy, const Costs& costs, uint32_t workers, uint64_t seed,
          const BitRing& idle, Nic& nic, Trace* trace)
      : costs_(costs),
        workers_(workers),
        idle_(idle),
        nic_(nic),
        trace_(trace),
        plan_(hook::initial_plan(policy)),
        prng_(seed),
        rings_(workers),
        posted_(workers),
        mailboxes_(managers(policy, workers)) {
    for (const QueueSpec& spec : P::kQueues) {
      const uint32_t lanes = lanes_of(policy, spec, workers);
      rows_.push_back(Row{queues_of(spec, lanes), BitRing(lanes), BitRing(lanes)});
    }
  }

  // The contract's verbs.
  Instant now() const { return now_; }
  uint32_t workers() const { return workers_; }
  uint32_t depth(QueueRef q) {
    look();
    return at(q).depth() + seen_in_ring(q);
  }
  uint64_t produced(QueueRef q) {
    look();
    return at(q).produced();
  }
  uint64_t consumed(QueueRef q) {
    look();
    return at(q).consumed();
  }
  Instant oldest(QueueRef q) {
    look();
    const Job* head = at(q).head();
    return head != nullptr ? head->arrived : Instant::never();
  }
  uint64_t first_word(QueueRef q) {
    look();
    if constexpr (kOrders<P>) {
      return at(q).first_word();
    } else {
      check_failed(__FILE__, __LINE__, "the first word of a queue that is not in their order");
    }
  }
  bool busy(WorkerId worker) {
    look();
    return !idle_.has(worker.value);
  }
  uint64_t arrived(uint32_t type) {
    look();
    return arrived_[type];
  }
  Served served(uint32_t type) {
    look();
    return served_[type];
  }
  Served served_as(JobClass job_class) {
    look();
    return served_as_[static_cast<size_t>(job_class)];
  }
  uint64_t posted(WorkerId worker) {
    look();
    return posted_[worker.value];
  }
  bool post(WorkerId worker, uint64_t seen, uint64_t value) {
    spend(costs_.worker.put);
    if (posted_[worker.value] != seen) return false;
    posted_[worker.value] = value;
    return true;
  }
  bool steer(uint64_t flow, WorkerId to) { return nic_.add_rule(flow, to.value, now_); }
  bool unsteer(uint64_t flow) { return nic_.remove_rule(flow, now_); }
  Job* take_tail(QueueRef q) { return take_from(q, &Queue::take_tail); }
  Job* take(QueueRef q) { return take_from(q, &Queue::take); }
  bool put(QueueRef q, Job* job) {
    if (!manages()) {
      spend(costs_.worker.put);
    } else if (P::kQueues[q.spec].scope == Scope::kPerWorker) {
      spend(costs_.manager.put);
      spend(costs_.dispatcher);
    }
    if (!insert(q, job)) return false;
    if ((kDispatches<P> || kManages<P>) && seat_ >= kFirstManagerSeat) {
      given_.push_back({q, manages() ? spent_ : Nanos()});
    }
    return true;
  }
  Job* steal(QueueRef victim, QueueRef into, uint32_t max) {
    if (max == 0 || at(victim).empty()) {
      look();
      return nullptr;
    }
    const uint32_t batch = std::min(max, at(victim).depth());
    Job* const first = remove(victim);
    for (uint32_t i = 1; i < batch; ++i) RUBATO_CHECK(insert(into, remove(victim)));
    if (victim.lane == into.lane && P::kQueues[victim.spec].scope == Scope::kPerWorker) {
      spend(costs_.worker.take);  // a batch of its own
      return first;
    }
    spend(costs_.worker.steal);
    spend(costs_.worker.steal_each * int64_t{batch - 1});
    if (trace_ != nullptr) [[unlikely]]
      trace_->mark(seat_, "steal", now_);
    ++steals_;
    stolen_ += batch;
    return first;
  }
  uint32_t random(uint32_t n) { return prng_.below(n); }
  bool send(ManagerId to, const Message& message) {
    // The same said to several managers in a row is one broadcast.
    const bool said = told_ && message.jobs == 0 && message.kind == said_.kind &&
                      message.value == said_.value;
    if (!said) spend(costs_.manager.send);
    told_ = message.jobs == 0;
    said_ = {message.kind, message.value};
    const Instant arrives = now_ + spent_ + costs_.noc.per_hop * hops(message.from, to);
    if (!mailboxes_[to.value].put(message, arrives)) return false;
    for (uint32_t i = 0; i < message.jobs; ++i) ++message.job[i]->moves;
    ++messages_[std::min<size_t>(message.kind, messages_.size() - 1)];
    if (message.jobs > 0) written_to_.push_back(to);
    return true;
  }
  bool receive(ManagerId me, Message& message) {
    if (!mailboxes_[me.value].take(message, now_)) return false;
    if (message.jobs > 0) spend(costs_.manager.receive);
    return true;
  }
  const Plan& plan() const { return plan_; }

  // verb::find_deeper from the sets of queues that hold something; each is paid for as if looked
  // at.
  uint32_t find_deeper(uint32_t spec, uint32_t from, uint32_t count, uint32_t above) {
    const Row& row = rows_[spec];
    const BitRing& candidates = above == 0 ? row.held : row.held_more;
    uint32_t step = 0;
    for (uint32_t lane = from; step < count; ++step, lane = lane + 1 == workers_ ? 0 : lane + 1) {
      const uint32_t skip = candidates.find(lane, count - step);
      step += skip;
      if (step == count) break;
      lane = (lane + skip) % workers_;
      if (row.queues[lane].depth() > above) break;
    }
    look(std::min(step + 1, count));
    return step;
  }

  // The engine's side.
  void sit(uint32_t seat) { seat_ = seat, spent_ = Nanos(), told_ = false; }
  static constexpr uint32_t kCentralSeat = UINT32_MAX;
  static constexpr uint32_t kFirstManagerSeat = limits::kMaxWorkers;
  static constexpr uint32_t seat_of(ManagerId manager) { return kFirstManagerSeat + manager.value; }
  Nanos spent() const { return spent_; }
  void spend(Nanos cost) { spent_ += cost; }
  void spend(const Price& price) { spent_ += draw(price); }
  Nanos draw(const Price& price) {
    if (price.tail > price.typical && prng_.below(Price::kTailEvery) == 0) [[unlikely]]
      return price.tail;
    return price.typical;
  }
  void set_now(Instant now) { now_ = now; }
  void publish(const Plan& plan) { plan_ = plan; }
  void note_arrived(const Job& job) { ++arrived_[std::min(job.type, limits::kTypes - 1)]; }
  void note_served(const Job& job, Nanos service) {
    for (Served* served : {&served_[std::min(job.type, limits::kTypes - 1)],
                           &served_as_[static_cast<size_t>(job.job_class)]}) {
      ++served->count;
      served->service += service;
      served->waited += job.started - job.arrived;
    }
  }

  // Queues without a price. insert: false = full.
  [[gnu::always_inline]] bool insert(QueueRef q, Job* job) {
    Row& row = rows_[q.spec];
    Queue& queue = row.queues[q.lane];
    const uint32_t before = queue.depth();
    if (!queue.put(job, costs_.queue_capacity)) return false;
    if (before == 0) row.held.add(q.lane);
    if (before == 1) row.held_more.add(q.lane);
    ++waiting_;
    note_depth(q);
    return true;
  }
  uint32_t waiting_in(QueueRef q) const { return rows_[q.spec].queues[q.lane].depth(); }
  uint64_t waiting() const { return waiting_; }  // in all queues; not in rings

  // visitor(queue, job) for the head of every queue that holds something, and of every ring, as if
  // it were in the queue that its worker polls into.
  template <class Visitor>
  void for_each_head(Visitor&& visitor) const {
    for (uint32_t spec = 0; spec < rows_.size(); ++spec) {
      const Row& row = rows_[spec];
      const auto lanes = static_cast<uint32_t>(row.queues.size());
      for (uint32_t lane = row.held.find(0, lanes); lane < lanes;) {
        visitor(QueueRef{spec, lane}, *row.queues[lane].head());
        if (++lane < lanes) lane += row.held.find(lane, lanes - lane);
      }
    }
    for (uint32_t w = 0; w < workers_; ++w) {
      if (!rings_[w].empty()) visitor(QueueRef{0, w}, *rings_[w].head());
    }
  }

  // The NIC's ring of a worker. Requests in it are seen by the depth of the worker's own arrival
  // queue, when that worker or the timer core looks (contract.h).
  JobQueue& ring(uint32_t worker) { return rings_[worker]; }

  // The queues into which the central seat or a manager has put, one by one; null = no more. Valid
  // until the next put.
  struct Given {
    QueueRef queue;
    Nanos after;  // what a manager had spent by then: an idle worker gets it that much later
  };
  const Given* next_given() {
    if (given_.empty()) return nullptr;
    last_given_ = given_.back();
    given_.pop_back();
    return &last_given_;
  }

  // The managers to whom jobs were sent, one by one; null = no more. Valid until the next send.
  const ManagerId* next_written_to() {
    if (written_to_.empty()) return nullptr;
    last_written_to_ = written_to_.back();
    written_to_.pop_back();
    return &last_written_to_;
  }
  const Mailbox& mailbox(ManagerId manager) const { return mailboxes_[manager.value]; }
  // Which worker each manager stands beside, for the way of its messages.
  void place(ManagerId manager, uint32_t beside) {
    places_.resize(std::max<size_t>(places_.size(), manager.value + 1));
    places_[manager.value] = beside;
  }
  // Messages sent, by kind; all above the last share it.
  static constexpr size_t kMessageKinds = 4;
  const std::array<uint64_t, kMessageKinds>& messages() const { return messages_; }

  uint64_t steals() const { return steals_; }
  uint64_t stolen() const { return stolen_; }
  uint64_t moved() const { return stolen_ - steals_; }  // stolen ones that went to a queue

 private:
  using Queue = std::conditional_t<kOrders<P>, OrderableJobQueue, JobQueue>;

  struct Said {
    uint8_t kind = 0;
    uint32_t value = 0;
  };
  struct Row {
    std::vector<Queue> queues;
    BitRing held;       // the lanes that hold something
    BitRing held_more;  // and those that hold more than one job
  };

  static std::vector<Queue> queues_of(const QueueSpec& spec, uint32_t lanes) {
    if constexpr (kOrders<P>) {
      return std::vector<Queue>(lanes, Queue(spec.order));
    } else {
      return std::vector<Queue>(lanes);
    }
  }

  Queue& at(QueueRef q) { return rows_[q.spec].queues[q.lane]; }

  uint32_t seen_in_ring(QueueRef q) const {
    const bool of_worker = q.spec == 0 && P::kQueues[0].scope == Scope::kPerWorker;
    const bool may_see = seat_ == q.lane || seat_ == kCentralSeat;
    return of_worker && may_see ? rings_[q.lane].depth() : 0;
  }

  // A manager's looks and takes are part of its other prices.
  void look(uint32_t times = 1) {
    if (!manages()) spend(costs_.worker.look * int64_t{times});
  }
  Job* take_from(QueueRef q, Job* (Queue::*end)()) {
    if (at(q).empty()) {
      look();
      return nullptr;
    }
    if (!manages()) spend(costs_.worker.take);
    return remove(q, end);
  }

  // Requires that q is not empty.
  Job* remove(QueueRef q, Job* (Queue::*end)() = &Queue::take) {
    Row& row = rows_[q.spec];
    Queue& queue = row.queues[q.lane];
    Job* const job = (queue.*end)();
    const uint32_t left = queue.depth();
    if (left == 0) row.held.remove(q.lane);
    if (left == 1) row.held_more.remove(q.lane);
    --waiting_;
    note_depth(q);
    return job;
  }

  bool manages() const {
    return kManages<P> && seat_ >= kFirstManagerSeat && seat_ != kCentralSeat;
  }

  int64_t hops(ManagerId from, ManagerId to) const {
    return mesh_hops(costs_.noc, places_[from.value], places_[to.value]);
  }

  void note_depth(QueueRef q) const {
    if (trace_ != nullptr) [[unlikely]]
      trace_->depth(P::kQueues[q.spec].name, q.lane, now_, waiting_in(q));
  }

  const Costs& costs_;
  uint32_t workers_;
  const BitRing& idle_;
  Nic& nic_;
  Trace* trace_;
  Plan plan_;
  Prng prng_;
  Instant now_;
  uint32_t seat_ = kCentralSeat;
  Nanos spent_;
  uint64_t waiting_ = 0;
  uint64_t steals_ = 0;
  uint64_t stolen_ = 0;
  std::vector<Row> rows_;
  std::vector<Given> given_;
  Given last_given_;
  std::vector<JobQueue> rings_;
  std::vector<uint64_t> posted_;
  std::vector<Mailbox> mailboxes_;
  std::vector<uint32_t> places_;
  bool told_ = false;  // the seat's last verb of that kind was a message without jobs:
  Said said_;
  std::vector<ManagerId> written_to_;
  ManagerId last_written_to_;
  std::array<uint64_t, kMessageKinds> messages_{};
  std::array<Served, limits::kTypes> served_{};
  std::array<Served, 2> served_as_{};
  std::array<uint64_t, limits::kTypes> arrived_{};
};

}  // namespace rubato::sim
