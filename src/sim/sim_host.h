// SPDX-License-Identifier: Apache-2.0
//
// SimHost<P, kIdeal>: the verbs of policy/contract.h in virtual time, each with a price (kIdeal: of
// nothing). A part of the engine says with call_as() on whose behalf it calls a hook (a worker, a
// manager or the central caller), and reads from meter().spent() the price of the verbs that the
// hook used. Verbs take effect at the start of a decision; its price delays the next step of the
// caller. One owner, as everything in a simulation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "metrics/trace.h"
#include "policy/archetype.h"
#include "policy/contract.h"
#include "policy/extensions.h"
#include "sched/draws.h"
#include "sim/bit_ring.h"
#include "sim/cost_meter.h"
#include "sim/costs.h"
#include "sim/manager_network.h"
#include "sim/nic.h"
#include "sim/queue_set.h"
#include "sim/shared_line.h"
#include "sim/type_totals.h"

namespace rubato::sim {

template <Policy P, bool kIdeal>
class SimHost {
 public:
  using Plan = typename P::Plan;

  // `idle` are the workers without a job; `trace` may be null.
  SimHost(const P& policy, const Prices& costs, uint32_t workers, uint64_t seed,
          const BitRing& idle, Nic& nic, Trace* trace)
      : costs_(costs),
        workers_(workers),
        idle_(idle),
        nic_(nic),
        trace_(trace),
        plan_(hook::initial_plan(policy)),
        meter_(seed),
        queues_(policy, workers, costs.queue_capacity),
        network_(costs.noc, managers(policy, workers)),
        hints_(workers) {
    for (uint32_t caller = 0; caller <= workers; ++caller) draws_.emplace_back(seed, caller);
    for (const QueueDeclaration& declaration : P::kQueues) {
      const bool locks =
          declaration.order == Order::kByWord && costs.worker.ordered_alone > Nanos();
      alone_until_.emplace_back(locks ? queue_count_of(policy, declaration, workers) : 0);
      const bool steals = declaration.scope == Scope::kPerWorker &&
                          declaration.sharing == Sharing::kStealable &&
                          costs.worker.stolen_from > Nanos();
      stolen_until_.emplace_back(steals ? workers : 0, Instant::never());
      last_puts_.emplace_back(counts_readings() ? queue_count_of(policy, declaration, workers) : 0);
      const bool has_lines = costs.worker.shared_line > Nanos();
      lines_.emplace_back(has_lines ? queue_count_of(policy, declaration, workers) : 0);
    }
  }

  // Allocators of cores ask for totals as well, which ideal machines do not have.
  static constexpr bool kCountsTotals = !kIdeal || kAdapts<P>;

  // ---- The contract's verbs -------------------------------------------------------------------

  // By readings of the clock: that of the last one, or some 10 ns later.
  Instant now() const { return counts_readings() ? event_time() + meter_.spent() : event_time(); }
  uint32_t workers() const { return workers_; }
  uint32_t depth(QueueRef q) {
    const uint32_t unseen = unseen_in(q);
    look();
    const uint32_t depth = queues_.at(q).depth();
    return depth - std::min(depth, unseen) + seen_in_ring(q);
  }
  uint64_t produced(QueueRef q) {
    look();
    return queues_.at(q).produced();
  }
  uint64_t consumed(QueueRef q) {
    look();
    return queues_.at(q).consumed();
  }
  Instant oldest(QueueRef q) {
    look();
    const Job* head = queues_.at(q).head();
    if (head == nullptr) return Instant::never();
    if (!is_core_of_managers()) meter_.spend(costs().worker.look_head);
    return head->arrived;
  }
  uint64_t first_word(QueueRef q) {
    look();
    if constexpr (kOrders<P>) {
      return queues_.at(q).first_word();
    } else {
      check_failed(__FILE__, __LINE__, "the first word of a queue that is not in their order");
    }
  }
  bool busy(WorkerId worker) {
    look();
    return !idle_.has(worker.value);
  }
  uint64_t arrived(uint32_t type) {
    static_assert(kCountsTotals, "only policies with an adapt ask for totals");
    look();
    return totals_.arrived(type);
  }
  Served served(uint32_t type) {
    static_assert(kCountsTotals, "only policies with an adapt ask for totals");
    look();
    return totals_.served(type);
  }
  Served served_as(JobClass job_class) {
    static_assert(kCountsTotals, "only policies with an adapt ask for totals");
    look();
    return totals_.served_as(job_class);
  }
  Job* take(QueueRef q) { return take_from<&Queue::take>(q); }
  Job* take_tail(QueueRef q) { return take_from<&Queue::take_tail>(q); }
  bool put(QueueRef q, Job* job) {
    if (!is_core_of_managers()) {
      spend_on(q, costs().worker.put, costs().worker.ordered_put);
    } else if (P::kQueues[q.declaration].scope == Scope::kPerWorker) {
      meter_.spend(costs().manager.put);
      meter_.spend(costs().dispatcher);
    }
    if (!insert(q, job)) return false;
    if (counts_readings()) note_put(q);
    if ((kDispatches<P> || kManages<P>) && caller_ >= kFirstManagerCaller) {
      meter_.spend(costs().worker.push);
      given_.push_back({q, manages() ? meter_.spent() : Nanos()});
    }
    return true;
  }
  Job* steal(QueueRef victim, QueueRef into, uint32_t max) {
    const uint32_t depth = queues_.at(victim).depth();
    if (max == 0 || depth == 0) {
      look();
      return nullptr;
    }
    const uint32_t batch = std::min(max, depth);
    Job* const first = remove(victim);
    for (uint32_t i = 1; i < batch; ++i) RUBATO_CHECK(insert(into, remove(victim)));
    if (victim.index == into.index && P::kQueues[victim.declaration].scope == Scope::kPerWorker) {
      spend_on(victim, costs().worker.take, costs().worker.ordered_take);  // a batch of its own
      return first;
    }
    meter_.spend(costs().worker.steal);
    meter_.spend(costs().worker.steal_each * int64_t{batch - 1});
    note_stolen(victim);
    if (trace() != nullptr) [[unlikely]]
      trace()->mark(caller_, "steal", event_time());
    ++steals_;
    stolen_ += batch;
    return first;
  }
  uint32_t random(uint32_t n) {
    sched::Draws& draws = draws_of(caller_);
    if (looks_ && !before_look_) before_look_ = draws;
    return draws.below(n);
  }
  const Plan& plan() const { return plan_; }

  // verb::find_deeper; each queue on the way is paid for as if looked at.
  uint32_t find_deeper(uint32_t declaration, uint32_t from, uint32_t count, uint32_t above) {
    const uint32_t step = queues_.find_deeper(declaration, from, count, above);
    look(std::min(step + 1, count));
    return step;
  }

  // verb::take_first; each queue on the way is paid for as if looked at.
  Job* take_first(uint32_t declaration, std::span<const uint8_t> indices) {
    const uint32_t place = queues_.find_held(declaration, indices);
    look(place);
    return place < indices.size() ? take({declaration, indices[place]}) : nullptr;
  }

  // verb::find_shorter; all workers are looked at when the search begins.
  uint32_t find_shorter(uint32_t declaration, uint32_t most, uint32_t from, uint32_t end) {
    if (most == 0 && from == 0) look(2 * workers_);
    return queues_.find_shorter(declaration, idle_, most, from, end);
  }

  // Of policies with managers.
  bool send(ManagerId to, const Message& message) {
    if (!is_core_of_managers()) {
      meter_.spend(costs().worker.put);
      meter_.spend(costs().worker.push);
    } else if (network_.starts_anew(message)) {
      meter_.spend(costs().manager.send);
    }
    return network_.send(to, message, event_time() + meter_.spent());
  }
  bool receive(ManagerId me, Message& message) {
    if (!network_.mailbox(me).take(message, event_time())) {
      look();
      return false;
    }
    if (!is_core_of_managers()) {
      meter_.spend(costs().worker.take);
    } else if (message.jobs > 0) {
      meter_.spend(costs().manager.receive);
    }
    return true;
  }

  // Of policies that steer flows.
  uint64_t hint(WorkerId worker) {
    look();
    return hints_[worker.value];
  }
  bool publish_hint(WorkerId worker, uint64_t seen, uint64_t value) {
    meter_.spend(costs().worker.put);
    if (hints_[worker.value] != seen) return false;
    hints_[worker.value] = value;
    return true;
  }
  bool steer(uint64_t flow, WorkerId to) { return nic_.add_rule(flow, to.value, event_time()); }
  bool unsteer(uint64_t flow) { return nic_.remove_rule(flow, event_time()); }

  // ---- The engine's side ----------------------------------------------------------------------

  static constexpr uint32_t kCentralCaller = UINT32_MAX;
  static constexpr uint32_t kFirstManagerCaller = limits::kSimulatedWorkers;
  static constexpr uint32_t caller_of(ManagerId manager) {
    return kFirstManagerCaller + manager.value;
  }
  // A decision of this context begins.
  void call_as(uint32_t caller) {
    caller_ = caller;
    meter_.reset();
    network_.end_broadcast();
  }
  void begin_look() { looks_ = true; }
  void end_look(bool found) {
    looks_ = false;
    if (!before_look_) return;
    if (!found) draws_of(caller_) = *before_look_;
    before_look_.reset();
  }
  void publish(const Plan& plan) { plan_ = plan; }

  // Without a price; false = full.
  [[gnu::always_inline]] bool insert(QueueRef q, Job* job) {
    if (!queues_.insert(q, job)) return false;
    trace_depth(q);
    return true;
  }

  // The queues into which the central context or a manager has put, one by one; null = no more.
  // Valid until the next put.
  struct Given {
    QueueRef queue;
    Nanos after;  // time that a manager had spent by then: an idle worker gets it that much later
  };
  const Given* next_given() {
    if (given_.empty()) return nullptr;
    last_given_ = given_.back();
    given_.pop_back();
    return &last_given_;
  }

  // When other workers see what was put into q last, or now if they do.
  Instant seen_at(QueueRef q) {
    if (!counts_readings()) return event_time();
    return std::max(event_time(), last_puts_[q.declaration][q.index].reaches_others);
  }
  // What a line takes to the core that looks at it.
  Nanos reach() const { return costs().preemption.propagation.typical; }
  CostMeter<kIdeal>& meter() { return meter_; }
  Instant event_time() const { return meter_.now(); }
  bool counts_readings() const { return costs().worker.clock == WorkerClock::kReadings; }
  // The depth of a worker's own arrival queue includes its ring, when that worker or the timer core
  // looks (contract.h); a live worker, after which help_looks is, sees its ring by polling only.
  QueueSet<P>& queues() { return queues_; }
  ManagerNetwork& network() { return network_; }
  const ManagerNetwork& network() const { return network_; }
  TypeTotals& totals() { return totals_; }

  uint64_t steals() const { return steals_; }
  uint64_t stolen() const { return stolen_; }
  uint64_t moved() const { return stolen_ - steals_; }  // stolen ones that went to a queue

 private:
  using Queue = typename QueueSet<P>::Queue;

  const Prices& costs() const { return kIdeal ? kIdealPrices : costs_; }
  Trace* trace() const { return kIdeal ? nullptr : trace_; }

  uint32_t seen_in_ring(QueueRef q) const {
    const bool of_worker = q.declaration == 0 && P::kQueues[0].scope == Scope::kPerWorker;
    const bool polls_as_it_looks = costs().nic.help_looks == Nanos() && !counts_readings();
    const bool may_see = (caller_ == q.index && polls_as_it_looks) || caller_ == kCentralCaller;
    return of_worker && may_see ? queues_.ring(q.index).depth() : 0;
  }

  // By readings of the clock other workers see a put once it is over and has reached their cores.
  // Who looks for work looks no earlier (seen_at).
  uint32_t unseen_in(QueueRef q) const {
    if (!counts_readings() || caller_ >= workers_ || looks_) return 0;
    const Put& last = last_puts_[q.declaration][q.index];
    return last.by != caller_ && event_time() + meter_.spent() < last.reaches_others ? 1 : 0;
  }
  void note_put(QueueRef q) {
    last_puts_[q.declaration][q.index] = {event_time() + meter_.spent() + reach(), caller_};
  }

  sched::Draws& draws_of(uint32_t caller) { return draws_[std::min(caller, workers_)]; }

  // A manager's looks and takes are part of its other prices.
  void look(uint32_t times = 1) {
    if (!is_core_of_managers()) meter_.spend(costs().worker.look * int64_t{times});
  }
  // When the decision began, which may be before its event (CostMeter::begin_before).
  Instant begun() const { return event_time() + std::min(meter_.spent(), Nanos()); }
  // What happened before the event found a gap between what others did until then.
  void wait_until(Instant free) {
    if (meter_.spent() < Nanos()) return;
    meter_.spend(std::max(Nanos(), free - event_time() - meter_.spent()));
  }
  // A queue in the order of its words is one worker's at a time.
  void spend_on(QueueRef q, const Price& price, const Price& ordered) {
    if (kIdeal) return;
    regain(q);
    get_line(q);
    if (alone_until_[q.declaration].empty()) return meter_.spend(price);
    // What one decision does with the queue keeps it for as long in all, from now on: the gaps
    // between are others'.
    Instant& alone_until = alone_until_[q.declaration][q.index];
    wait_until(alone_until);
    meter_.spend(ordered);
    alone_until = std::max(alone_until, begun()) + costs().worker.ordered_alone;
  }
  // Costs::Worker::stolen_from. Of several thieves the victim waits for the last.
  void note_stolen(QueueRef victim) {
    if (kIdeal || stolen_until_[victim.declaration].empty()) return;
    Instant& stolen_until = stolen_until_[victim.declaration][victim.index];
    const Instant done = event_time() + meter_.spent();
    stolen_until = stolen_until == Instant::never() ? done : std::max(stolen_until, done);
  }
  void regain(QueueRef q) {
    if (stolen_until_[q.declaration].empty() || caller_ != q.index) return;
    Instant& stolen_until = stolen_until_[q.declaration][q.index];
    if (stolen_until == Instant::never()) return;
    meter_.spend(std::max(Nanos(), stolen_until - event_time() - meter_.spent()));
    meter_.spend(costs().worker.stolen_from);
    stolen_until = Instant::never();
  }
  // Costs::Worker::shared_line. As above the gaps between two steps of a decision are others'.
  void get_line(QueueRef q) {
    if (lines_[q.declaration].empty()) return;
    QueueLine& queue = lines_[q.declaration][q.index];
    const Nanos transfer = queue.line.move_to(caller_, costs().worker.shared_line);
    if (transfer == Nanos()) return;
    wait_until(queue.free_at);
    meter_.spend(transfer);
    queue.free_at = std::max(queue.free_at, begun()) + transfer;
  }
  template <auto kTake>
  Job* take_from(QueueRef q) {
    if (queues_.at(q).empty()) {
      look();
      return nullptr;
    }
    if (!is_core_of_managers()) spend_on(q, costs().worker.take, costs().worker.ordered_take);
    return remove<kTake>(q);
  }
  template <auto kTake = &Queue::take>
  Job* remove(QueueRef q) {
    Job* const job = queues_.template remove<kTake>(q);
    trace_depth(q);
    return job;
  }

  bool manages() const {
    return kManages<P> && caller_ >= kFirstManagerCaller && caller_ != kCentralCaller;
  }

  // A manager on a core of its own, whose prices are the manager's; else its steps are a worker's.
  bool is_core_of_managers() const {
    return manages() && costs().dispatch_by == DispatchBy::kCore;
  }

  void trace_depth(QueueRef q) const {
    if (trace() != nullptr) [[unlikely]]
      trace()->depth(P::kQueues[q.declaration].name, q.index, event_time(), queues_.at(q).depth());
  }

  struct Put {
    Instant reaches_others;
    uint32_t by = kCentralCaller;
  };
  struct QueueLine {
    SharedLine line;
    Instant free_at;  // when the last transfer is over
  };

  const Prices& costs_;
  uint32_t workers_;
  const BitRing& idle_;
  Nic& nic_;
  Trace* trace_;
  Plan plan_;
  CostMeter<kIdeal> meter_;
  std::vector<std::vector<Put>> last_puts_;  // by queue
  std::vector<sched::Draws> draws_;  // by worker; the last are those of all other callers
  std::optional<sched::Draws> before_look_;  // of the caller, which has drawn since
  bool looks_ = false;
  uint32_t caller_ = kCentralCaller;
  uint64_t steals_ = 0;
  uint64_t stolen_ = 0;
  QueueSet<P> queues_;
  std::vector<Given> given_;
  Given last_given_;
  ManagerNetwork network_;
  std::vector<uint64_t> hints_;  // by worker
  // By queue, of those where it matters: until when a worker keeps it from the others.
  std::vector<std::vector<Instant>> alone_until_;
  // The same of queues that others steal from: until when the last did; never = nobody has since
  // its worker used the queue.
  std::vector<std::vector<Instant>> stolen_until_;
  std::vector<std::vector<QueueLine>> lines_;
  TypeTotals totals_;
};

}  // namespace rubato::sim
