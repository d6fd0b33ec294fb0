// SPDX-License-Identifier: Apache-2.0
//
// Engine<P, Site>: one simulated run of policy P on a site (sim/site.h), by default one that knows
// neither clients nor cores. Virtual time jumps from alarm to alarm; every worker, the arrivals and
// the slow path of the policy have one alarm each. Every worker is a platform of sched::Core.
//
// A worker's time is spent in slices of requests and in what its verbs, switches and interrupts
// cost; what it pays for a decision delays the request that it decided for. An idle worker looks
// again when something is put where it could find it, and sees it after Costs::Worker::notice.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "policy/archetype.h"
#include "policy/contract.h"
#include "policy/explanation.h"
#include "sched/delay_scale.h"
#include "sim/alarms.h"
#include "sim/bit_ring.h"
#include "sim/nic.h"
#include "sim/platform.h"
#include "sim/recorder.h"
#include "sim/request.h"
#include "sim/setup.h"
#include "sim/sim_host.h"
#include "sim/simulation.h"
#include "sim/site.h"
#include "sim/stalls.h"
#include "sim/trace.h"
#include "workload/source.h"

namespace rubato::sim {

template <Policy P, class Site = FixedSite>
class Engine {
 public:
  Engine(const Setup& setup, const typename P::Config& config, const Watch& watch)
      : setup_(setup),
        costs_(setup_.costs),
        watch_(watch),
        trace_(watch.trace),
        policy_(config),
        site_(setup, warm_at(setup)),
        source_(setup.workload, setup.seed),
        idle_(setup.workers),
        nic_(costs_.nic, setup.workers, setup.seed ^ kNicStream),
        host_(policy_, costs_, setup.workers, setup.seed ^ kHostStream, idle_, nic_, watch.trace),
        prng_(setup.seed ^ kEngineStream),
        recorder_(types_of(setup.workload).size()),
        stalls_(costs_.stalls, setup.workers, setup.seed),
        alarms_(setup.workers + 2 + managers(policy_, setup.workers) + (Site::kElastic ? 1 : 0) +
                (stalls_.any() ? 1 : 0)),
        managers_(managers(policy_, setup.workers)),
        warm_at_(warm_at(setup)) {
    for (const RequestType& type : types_of(setup.workload)) {
      long_types_.push_back(type.service.mean >= setup.long_over);
    }
    const sched::CoreOptions options{setup.classify, setup.shedding};
    cores_.reserve(setup.workers);
    for (uint32_t w = 0; w < setup.workers; ++w) {
      cores_.emplace_back(policy_, options, SimPlatform<P, Site>(*this, w));
      idle_.add(w);
    }
    for (uint32_t w = setup.workers; kManages<P> && w-- > 0;) host_.place(group_of(w), w);
  }

  Outcome run();

 private:
  friend class SimPlatform<P, Site>;
  enum class Wake : uint8_t { kFinish, kSliceEnd, kNotified, kAsk, kAwake, kReleased };

  struct Core {
    Core(const P& policy, const sched::CoreOptions& options, SimPlatform<P, Site> platform)
        : sched(policy, options, platform) {}

    sched::Core<P, SimPlatform<P, Site>> sched;
    SimRequest* running = nullptr;
    Wake wake = Wake::kFinish;  // what its alarm stands for
    Instant slice_start;        // when the request began to run
    Instant finish_at;          // when it will be done if nobody cuts it
    Instant slice_end = Instant::never();
    Nanos owed;                 // interrupts that came too late: paid before the next request
    Instant free_at;            // of an idle worker: when it has done what it was at
    Nanos idle;                 // in all, but for the pause it may be in
    Nanos held;                 // by stalls, in all
    Instant held_until;         // end of the last of those
  };

  struct ManagerSeat {
    ManagerState<P> state{};
    Instant free_at;                    // it is at its last step until then
    Instant due = Instant::never();     // of the step that the one before asked for
    Instant alarm = Instant::never();
    bool poked = false;                 // something happened that it should look at
  };

  static constexpr uint64_t kProgressEvery = 1u << 18;  // events
  static constexpr uint32_t kFruitlessAdapts = 1000;  // with all workers idle: nobody will take it
  static constexpr uint32_t kNobody = UINT32_MAX;
  static constexpr bool kOwnQueue = P::kQueues[0].scope == Scope::kPerWorker;

  static Instant warm_at(const Setup& setup) {
    const double seconds = static_cast<double>(setup.requests) / mean_rate(setup.workload);
    return Instant(Nanos::from_seconds(seconds * setup.warmup).count());
  }
  uint32_t arrivals_actor() const { return setup_.workers; }
  uint32_t adapt_actor() const { return setup_.workers + 1; }
  uint32_t manager_actor(ManagerId manager) const { return setup_.workers + 2 + manager.value; }
  uint32_t tick_actor() const {
    return setup_.workers + 2 + static_cast<uint32_t>(managers_.size());
  }
  uint32_t stalls_actor() const { return tick_actor() + (Site::kElastic ? 1 : 0); }
  ManagerId group_of(uint32_t w) const {
    return manager_of(policy_, WorkerId{w}, setup_.workers);
  }
  bool polled() const { return costs_.nic.delivery == Delivery::kPolled; }
  // The queue that worker w polls into.
  QueueRef own_queue(uint32_t w) const {
    if (P::kQueues[0].scope == Scope::kPerManager) return {0, group_of(w).value};
    return {0, kOwnQueue ? w : 0};
  }
  void sit(uint32_t w) { host_.sit(w); }

  // Arrivals (engine_arrivals.h).
  void next_arrival();
  void arrive();
  void admit(SimRequest* request, uint32_t w);
  bool enqueue(QueueRef q, SimRequest& request);
  void into_ring(SimRequest* request, uint32_t w);
  void poll(uint32_t w);
  void refuse(SimRequest* request);
  // Clients and cores (engine_elastic.h).
  void follow_clients();
  void clients_step();
  void receive(const Clients::Message& message);
  Instant answer(const SimRequest& request, bool served, Instant at);
  void charge_messages(uint32_t w);
  void ask(uint32_t w);
  void park(uint32_t w);
  void grant();
  void awake(uint32_t w);
  void release(const std::vector<Nanos>& delays);
  Nanos measure_delays();
  sched::DelayScale delay_scale();
  void tick();
  void trace_site();
  // Choice (engine_workers.h).
  void choose(uint32_t w);
  SimRequest* look(uint32_t w);
  void rest(uint32_t w);
  bool wake(uint32_t w, Nanos after = Nanos());
  void offer(QueueRef q, Nanos after = Nanos());
  void offer_polled();
  void offer_all();
  void offer_group(QueueRef q);
  // Stalls (engine_stalls.h).
  void next_stall();
  void stall(Instant before);
  void hold(uint32_t w, Nanos length);
  void hold_the_rest(Nanos length);
  void put_off(uint32_t actor, Nanos length);
  void released(uint32_t w);
  // Managers (engine_managers.h).
  void poke(ManagerId manager);
  void run_managers();
  void manage(ManagerId manager);
  void set_manager_alarm(ManagerId manager, Instant at);
  // Slices (engine_workers.h).
  bool begin(uint32_t w, SimRequest* request);
  void take_up(uint32_t w, SimRequest& request);
  void arm(Nanos quantum);
  void set_alarm(uint32_t w);
  void on_worker(uint32_t w);
  void finish(uint32_t w);
  void reply(uint32_t w, SimRequest& request);
  void take_in(uint32_t w);
  void slice_end(uint32_t w);
  void notify(uint32_t w);
  void preempt(uint32_t w);
  bool put_back(uint32_t w, QueueRef q, SimRequest& request);
  Nanos transfer(const SimRequest& request, uint32_t w) const;
  void adapt();
  void dispatch();
  bool report_progress();
  Outcome collect(Instant end, double wall_s);
  std::vector<std::string> told_plan() const;

  Setup setup_;
  const Costs& costs_;
  Watch watch_;
  Trace* trace_;
  P policy_;
  [[no_unique_address]] Site site_;
  RequestSource source_;
  BitRing idle_;  // workers without a request
  Nic nic_;
  SimHost<P> host_;
  Prng prng_;
  Recorder recorder_;
  RequestPool pool_;
  Stalls stalls_;
  Alarms alarms_;
  std::vector<Core> cores_;
  std::vector<ManagerSeat> managers_;
  std::vector<ManagerId> poked_;
  uint32_t idle_turn_ = 0;
  bool turned_away_ = false;   // a worker has refused what it was given: it is to get the next
  uint32_t rested_ = kNobody;  // the worker that has found nothing, where late ones are refused
  std::vector<QueueRef> polled_into_;  // not yet offered
  typename P::Central central_{};
  std::vector<bool> long_types_;

  Instant now_, warm_at_;
  Offer coming_;              // the next arrival
  Stall coming_stall_;
  bool free_look_ = false;  // of the dispatcher: nobody finished or came, a stall began or ended
  // Of an elastic site:
  Instant followed_ = Instant::never();  // what the alarm of its clients is set to
  uint64_t requests_received_ = 0;
  uint32_t tick_turn_ = 0;
  std::vector<Nanos> delays_;
  Nanos common_delay_;

  Instant dispatcher_free_, timer_core_free_;
  uint64_t arrived_ = 0;
  uint64_t measured_ = 0;
  uint64_t done_in_time_ = 0;
  uint64_t late_notices_ = 0;
  uint64_t moved_ = 0;  // requests that were served by another group than they came to
  uint64_t events_ = 0;
  uint32_t fruitless_adapts_ = 0;
  Instant last_arrival_;
  int64_t suspended_ = 0;  // requests that were preempted and wait
  Nanos useful_, overhead_;
  SchedulerCounters counters_;
  bool stopped_ = false;
};

template <Policy P, class Site>
Outcome Engine<P, Site>::run() {
  const auto begun = std::chrono::steady_clock::now();
  if constexpr (Site::kElastic) {
    delays_.resize(setup_.workers);
    for (uint32_t w = 0; w < setup_.workers; ++w) rest(w);
    follow_clients();
    alarms_.set(tick_actor(), Instant() + site_.interval());
  } else {
    next_arrival();
  }
  if (const Nanos period = hook::adapt_period(policy_); period != Nanos::max()) {
    alarms_.set(adapt_actor(), Instant() + period);
  }
  if (stalls_.any()) next_stall();
  for (Alarms::First first = alarms_.first(); first.at != Instant::never() && !stopped_;
       first = alarms_.first()) {
    if (++events_ % kProgressEvery == 0 && !report_progress()) [[unlikely]] stopped_ = true;
    const Instant before = now_;
    now_ = first.at;
    host_.set_now(now_);
    if (first.actor < setup_.workers) [[likely]] {
      on_worker(first.actor);
    } else if (first.actor == arrivals_actor()) {
      if constexpr (Site::kElastic) {
        clients_step();
      } else {
        arrive();
      }
    } else if (first.actor == adapt_actor()) {
      adapt();
    } else if (Site::kElastic && first.actor == tick_actor()) {
      if constexpr (Site::kElastic) tick();
    } else if (first.actor < tick_actor()) {
      poke(ManagerId{first.actor - setup_.workers - 2});
    } else {
      stall(before);
    }
    turned_away_ = kDispatches<P> || kManages<P>;
    while (std::exchange(turned_away_, false)) {
      if constexpr (kDispatches<P>) dispatch();
      if constexpr (kManages<P>) run_managers();
    }
    if (rested_ != kNobody && idle_.has(rested_)) cores_[rested_].sched.ran_out();
    rested_ = kNobody;
    if constexpr (Site::kElastic) follow_clients();
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begun;
  return collect(now_, wall.count());
}

// Ends with the run: when all requests have arrived and nobody has one, or nobody takes what waits.
template <Policy P, class Site>
void Engine<P, Site>::adapt() {
  host_.sit(SimHost<P>::kCentralSeat);
  host_.publish(hook::adapt(policy_, central_, host_));
  offer_all();
  uint32_t at_rest = idle_.count();
  if constexpr (Site::kElastic) at_rest += setup_.workers - site_.granted();
  const bool all_idle = at_rest == setup_.workers;
  const bool over = arrived_ == setup_.requests && all_idle && pool_.in_use() == 0;
  fruitless_adapts_ = arrived_ == setup_.requests && all_idle ? fruitless_adapts_ + 1 : 0;
  if (over || fruitless_adapts_ == kFruitlessAdapts) return alarms_.clear(adapt_actor());
  alarms_.set(adapt_actor(), now_ + hook::adapt_period(policy_));
}

// The dispatcher looks after every event. What it spends delays the arrivals behind it: that of
// stalls is not counted, as it would grow with time instead of with requests, without end.
template <Policy P, class Site>
void Engine<P, Site>::dispatch() {
  host_.sit(SimHost<P>::kCentralSeat);
  hook::dispatch(policy_, central_, host_);
  if (!std::exchange(free_look_, false)) {
    dispatcher_free_ = std::max(dispatcher_free_, now_) + host_.spent();
  }
  while (const auto* given = host_.next_given()) offer(given->queue);
}

template <Policy P, class Site>
bool Engine<P, Site>::report_progress() {
  if (!watch_.progress) return true;
  return watch_.progress(static_cast<double>(arrived_) / static_cast<double>(setup_.requests));
}

template <Policy P, class Site>
Outcome Engine<P, Site>::collect(Instant end, double wall_s) {
  Outcome outcome;
  outcome.types = recorder_.take();
  outcome.requests = arrived_;
  outcome.measured = measured_;
  outcome.done_in_time = done_in_time_;
  outcome.measured_time = std::max(last_arrival_, warm_at_) - warm_at_;
  outcome.simulated = end - Instant();
  for (const Core& core : cores_) overhead_ -= std::max(core.free_at, end) - end;
  const double worker_ns =
      static_cast<double>(outcome.simulated.count()) * static_cast<double>(setup_.workers);
  if (worker_ns > 0) {
    outcome.useful_share = static_cast<double>(useful_.count()) / worker_ns;
    outcome.busy_share = static_cast<double>((useful_ + overhead_).count()) / worker_ns;
  }
  Nanos held;
  for (uint32_t w = 0; w < setup_.workers; ++w) {
    if (idle_.has(w)) cores_[w].idle += std::max(cores_[w].free_at, end) - cores_[w].free_at;
    const Nanos beyond = std::max(cores_[w].held_until, end) - end;
    cores_[w].held = std::max(cores_[w].held - beyond, Nanos());
    held += cores_[w].held;
    const double unused_ns = static_cast<double>((cores_[w].idle + cores_[w].held).count());
    const double all_ns = static_cast<double>(outcome.simulated.count());
    outcome.worker_busy.push_back(all_ns > 0 ? 1 - unused_ns / all_ns : 0);
  }
  if (worker_ns > 0) outcome.stalled_share = static_cast<double>(held.count()) / worker_ns;
  counters_.steals = host_.steals();
  counters_.stolen = host_.stolen();
  counters_.more = {{"late_notifications", late_notices_},
                    {"left_waiting", pool_.in_use()},
                    {"flow_rules", nic_.rules()},
                    {"flow_rules_written", nic_.written()},
                    {"flow_rules_removed", nic_.removed()},
                    {"flows_without_rule", nic_.ruleless()}};
  if constexpr (kManages<P>) {
    counters_.more.emplace_back("managers", managers_.size());
    counters_.more.emplace_back("moved_between_managers", moved_);
    for (size_t kind = 0; kind < host_.kMessageKinds; ++kind) {
      counters_.more.emplace_back(std::string("messages_") + P::kMessageKinds[kind],
                                  host_.messages()[kind]);
    }
  }
  outcome.counters = counters_;
  if constexpr (Site::kElastic) outcome.elastic = site_.outcome();
  outcome.plan = told_plan();
  outcome.stopped = stopped_;
  outcome.events = events_;
  outcome.wall_s = wall_s;
  return outcome;
}

template <Policy P, class Site>
std::vector<std::string> Engine<P, Site>::told_plan() const {
  const std::vector<RequestType> types = types_of(setup_.workload);
  const auto name_of = [&types](uint32_t type) {
    return type == 0 ? "unknown" : types[type - 1].name;
  };
  Explanation out(name_of, static_cast<uint32_t>(types.size()) + 1);
  hook::explain(policy_, host_.plan(), setup_.workers, out);
  return out.take();
}

}  // namespace rubato::sim

#include "sim/engine_arrivals.h"
#include "sim/engine_elastic.h"
#include "sim/engine_managers.h"
#include "sim/engine_stalls.h"
#include "sim/engine_workers.h"
