// SPDX-License-Identifier: Apache-2.0
//
// drive<P>: runs a policy in virtual time over N workers, calling its hooks as contract.h says a
// host does: no costs, no queueing outside of the policy's own queues, jobs become long the moment
// they start (the application's feedback). For conformance tests, not for performance: the
// simulator (src/sim) is the place for that. Deterministic: same policy, arrivals, options, same
// report. Single-threaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "policy/contract.h"
#include "policy/testing/chaos_host.h"
#include "policy/testing/checked_host.h"
#include "policy/testing/script_host.h"

namespace rubato::testing {

struct Arrival {
  Instant at{};
  WorkerId worker{};  // whose datapath queue it comes in by
  Nanos service{};
  JobClass job_class = JobClass::kShort;
  uint8_t priority = 0;
  uint32_t type = 0;
  uint64_t flow = 0;
};

struct DriveOptions {
  uint32_t workers = 4;
  size_t queue_capacity = limits::kSharedCapacity;
  uint64_t seed = 1;
  bool chaos = false;
  ChaosRates rates{};  // with chaos
  uint64_t patience = UINT64_MAX;  // see CheckedHost
};

struct Departure {
  uint32_t arrival = 0;  // index into the arrivals
  Instant at{};
  uint32_t preemptions = 0;
  friend bool operator==(const Departure&, const Departure&) = default;
};

struct DriveReport {
  std::vector<Departure> departures;    // in the order in which jobs were done
  std::vector<uint32_t> refused;        // arrivals that met a full queue
  std::vector<std::string> violations;  // see CheckedHost; and of the driver, if it did not end
  uint64_t idle_while_waiting = 0;      // moments at which a worker idled and a job waited
  uint64_t preemptions = 0;
  uint64_t kept_on = 0;  // slices that ended in kContinue
  uint64_t slices = 0;   // that had an end
  uint64_t mishaps = 0;  // what chaos did
  friend bool operator==(const DriveReport&, const DriveReport&) = default;
};

template <Policy P>
class Driver {
 public:
  Driver(const typename P::Config& config, std::span<const Arrival> arrivals, DriveOptions options)
      : policy_(config),
        arrivals_(arrivals),
        options_(options),
        script_(options.workers, options.seed, hook::initial_plan(policy_),
                managers(policy_, options.workers)),
        chaos_(script_, options.seed, options.chaos ? options.rates : ChaosRates{0, 0, 0, 0}),
        host_(chaos_, options.patience),
        seats_(options.workers),
        manager_seats_(script_.managers()),
        jobs_(arrivals.size()) {
    script_.set_capacity(options.queue_capacity);
  }

  DriveReport run() {
    for (uint32_t i = 0; i < arrivals_.size(); ++i) schedule(arrivals_[i].at, Kind::kArrival, i);
    schedule_adapt();
    const Instant latest = latest_end();
    uint64_t at_once = 0;
    while (!events_.empty() && unfinished() > 0) {
      at_once = events_.top().at == script_.now() ? at_once + 1 : 0;
      if (events_.top().at > latest || at_once == kMostAtOnce + arrivals_.size()) {
        host_.complain("the run does not end");
        break;
      }
      step();
    }
    if (events_.empty() && unfinished() > 0) {
      host_.complain(std::to_string(unfinished()) + " jobs were left behind");
    }
    report_.violations = host_.violations();
    report_.mishaps = chaos_.mishaps();
    return report_;
  }

 private:
  using Host = CheckedHost<P, ChaosHost<P, ScriptHost<P>>>;

  struct DrivenJob : Job {
    uint32_t arrival = 0;
    Nanos left;
  };
  struct WorkerSeat {
    typename P::Worker state{};
    DrivenJob* running = nullptr;
    Nanos quantum;  // of the slice in force
    Nanos slice;    // what of it the job will use
  };
  struct ManagerSeat {
    ManagerState<P> state{};
    Instant due = Instant::never();
  };
  enum class Kind : uint8_t { kArrival, kSliceEnd, kAdapt, kManage, kRetry };
  struct Event {
    Instant at;
    uint64_t order;
    Kind kind;
    uint32_t index;
    bool operator>(const Event& o) const { return at != o.at ? at > o.at : order > o.order; }
  };

  static constexpr uint32_t kMostRounds = 8;
  static constexpr uint64_t kMostAtOnce = 100'000;  // events at one instant, beside arrivals
  static constexpr Nanos kRetryAfter = Nanos(100);  // how soon an idle worker asks again, in chaos

  // Twice what one worker would take for all that came at the end, and some time for retries.
  Instant latest_end() const {
    Instant latest;
    Nanos service;
    for (const Arrival& arrival : arrivals_) {
      latest = std::max(latest, arrival.at);
      service += arrival.service;
    }
    return latest + service * int64_t{2} + Nanos::millis(10);
  }

  size_t unfinished() const {
    return arrivals_.size() - report_.departures.size() - report_.refused.size();
  }

  void schedule(Instant at, Kind kind, uint32_t index = 0) {
    events_.push({at, next_order_++, kind, index});
  }

  void schedule_adapt() {
    const Nanos period = hook::adapt_period(policy_);
    if (period != Nanos::max()) schedule(script_.now() + period, Kind::kAdapt);
  }

  void step() {
    const Event event = events_.top();
    events_.pop();
    script_.set_now(event.at);
    mishaps_before_ = chaos_.mishaps();
    switch (event.kind) {
      case Kind::kArrival:
        arrive(event.index);
        break;
      case Kind::kSliceEnd:
        end_slice(event.index);
        break;
      case Kind::kAdapt:
        adapt();
        break;
      case Kind::kManage:
      case Kind::kRetry:
        break;
    }
    if (event.kind == Kind::kRetry) retry_scheduled_ = false;
    push();
    give_work_to_idle_workers();
  }

  // The dispatcher and the managers step after every event, until no message is on its way. In
  // chaos they may stop before.
  void push() {
    host_.sit(Seat::central());
    hook::dispatch(policy_, central_, host_);
    for (uint32_t rounds = 0; rounds < kMostRounds; ++rounds) {
      for (uint32_t m = 0; m < script_.managers(); ++m) manage(ManagerId{m});
      if (host_.in_messages() == 0) return;
    }
    if (!options_.chaos) host_.complain("messages without end");
  }

  void manage(ManagerId me) {
    ManagerSeat& seat = manager_seats_[me.value];
    host_.sit(Seat::manager(me));
    const Instant due = hook::manage(policy_, seat.state, me, host_);
    if (due != Instant::never() && due <= script_.now()) host_.complain("a step due in the past");
    if (due == Instant::never() || unfinished() == 0) return;
    // One step is pending per manager, else what each schedules would multiply. An early one does
    // no harm: managers step after every event anyway.
    const bool pending = seat.due > script_.now() && seat.due <= due;
    if (pending) return;
    seat.due = std::max(due, script_.now() + Nanos(1));
    schedule(seat.due, Kind::kManage);
  }

  void arrive(uint32_t index) {
    const Arrival& arrival = arrivals_[index];
    DrivenJob& job = jobs_[index];
    job.arrival = index;
    job.arrived = script_.now();
    job.flow = arrival.flow;
    job.left = arrival.service;
    job.priority = arrival.priority;
    job.type = arrival.type;
    const WorkerId at = script_.arrives_at(job.flow, arrival.worker);
    host_.sit(Seat::worker(at));
    host_.admit(&job);
    script_.note_arrived(job.type);
    const QueueRef q = hook::route(policy_, job, at, host_);
    if (host_.put(q, &job)) return;
    host_.retire(&job);
    report_.refused.push_back(index);
  }

  void give_work_to_idle_workers() {
    for (bool somebody_got_work = true; somebody_got_work;) {
      somebody_got_work = false;
      bool somebody_found_nothing = false;
      for (uint32_t w = 0; w < options_.workers; ++w) {
        if (seats_[w].running != nullptr) continue;
        const bool has_own = owns_waiting(w);
        const bool found = ask_next(WorkerId{w});
        if (found && somebody_found_nothing && !has_own) claim_broken();
        somebody_got_work |= found;
        // Who took of its own may have told the others where to find something (SBB's signs).
        somebody_found_nothing = !found || (somebody_found_nothing && !has_own);
      }
    }
    if (!somebody_waits() || !somebody_idles()) return;
    ++report_.idle_while_waiting;
    if (chaos_.mishaps() == mishaps_before_ || retry_scheduled_) return;
    schedule(script_.now() + kRetryAfter, Kind::kRetry);
    retry_scheduled_ = true;
  }

  // Does something wait in a queue of this worker's own?
  bool owns_waiting(uint32_t worker) {
    for (uint32_t spec = 0; spec < P::kQueues.size(); ++spec) {
      if (P::kQueues[spec].scope != Scope::kPerWorker) continue;
      if (!script_.waiting(QueueRef{spec, worker}).empty()) return true;
    }
    return false;
  }

  // What chaos hides from one worker it may show to the next.
  void claim_broken() {
    if (!interchangeable(policy_) || options_.chaos) return;
    host_.complain("an idle worker found what another had not, against kInterchangeable");
  }

  bool ask_next(WorkerId me) {
    WorkerSeat& seat = seats_[me.value];
    host_.sit(Seat::worker(me));
    Job* const job = hook::next(policy_, seat.state, me, host_);
    if (job == nullptr) return false;
    if (!host_.held(job)) {
      host_.complain("next gave a job that is not held");
      return false;
    }
    start(static_cast<DrivenJob&>(*job), me);
    return true;
  }

  void start(DrivenJob& job, WorkerId me) {
    WorkerSeat& seat = seats_[me.value];
    if (job.started == Instant()) {
      job.started = script_.now();
      job.job_class = arrivals_[job.arrival].job_class;
    }
    seat.running = &job;
    ++running_;
    script_.set_busy(me, true);
    seat.quantum = Nanos::max();
    if (covered(job)) {
      host_.sit(Seat::worker(me));
      seat.quantum = hook::quantum(policy_, seat.state, job, host_);
      if (seat.quantum <= Nanos()) host_.complain("a quantum of nothing");
      report_.slices += seat.quantum != Nanos::max() ? 1u : 0u;
    }
    begin_slice(me);
  }

  static bool covered(const Job& job) {
    if (P::kPreempts == Preempts::kLong) return job.job_class == JobClass::kLong;
    return P::kPreempts == Preempts::kEverything;
  }

  void begin_slice(WorkerId me) {
    WorkerSeat& seat = seats_[me.value];
    seat.slice = std::min(seat.quantum, seat.running->left);
    schedule(script_.now() + seat.slice, Kind::kSliceEnd, me.value);
  }

  void end_slice(uint32_t worker) {
    WorkerSeat& seat = seats_[worker];
    DrivenJob& job = *seat.running;
    job.left -= seat.slice;
    job.attained += seat.slice;
    if (job.left == Nanos()) {
      finish(job, WorkerId{worker});
    } else if (expired(job, WorkerId{worker}) == Verdict::kPreempt && put_back(job, worker)) {
      leave(WorkerId{worker});
    } else {
      begin_slice(WorkerId{worker});
    }
  }

  Verdict expired(const DrivenJob& job, WorkerId worker) {
    host_.sit(Seat::observer());
    const Verdict verdict =
        hook::expired(policy_, Running{.worker = worker, .priority = job.priority}, host_);
    report_.kept_on += verdict == Verdict::kContinue ? 1 : 0;
    return verdict;
  }

  // False = the queue is full, the job stays where it is.
  bool put_back(DrivenJob& job, uint32_t worker) {
    host_.sit(Seat::worker(WorkerId{worker}));
    ++job.preemptions;
    const QueueRef q = hook::requeue(policy_, job, Why::kPreempted, WorkerId{worker}, host_);
    if (!host_.put(q, &job)) {
      --job.preemptions;
      return false;
    }
    ++report_.preemptions;
    return true;
  }

  void finish(DrivenJob& job, WorkerId me) {
    WorkerSeat& seat = seats_[me.value];
    host_.sit(Seat::worker(me));
    hook::finished(policy_, seat.state, job, job.attained);
    script_.note_served(job.type, job.attained, job.started - job.arrived, job.job_class);
    host_.retire(&job);
    report_.departures.push_back({job.arrival, script_.now(), job.preemptions});
    leave(me);
  }

  // The worker has no job any more.
  void leave(WorkerId me) {
    seats_[me.value].running = nullptr;
    script_.set_busy(me, false);
    --running_;
  }

  void adapt() {
    host_.sit(Seat::central());
    script_.publish(hook::adapt(policy_, central_, host_));
    schedule_adapt();
  }

  // Those that no worker runs: in a queue, in a message, or in the hand of a dispatcher.
  bool somebody_waits() const { return host_.inside() > running_; }

  bool somebody_idles() const { return running_ < options_.workers; }

  P policy_;
  std::span<const Arrival> arrivals_;
  DriveOptions options_;
  ScriptHost<P> script_;
  ChaosHost<P, ScriptHost<P>> chaos_;
  Host host_;
  typename P::Central central_{};
  std::vector<WorkerSeat> seats_;
  size_t running_ = 0;  // of the seats
  std::vector<ManagerSeat> manager_seats_;
  std::vector<DrivenJob> jobs_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t next_order_ = 0;
  uint64_t mishaps_before_ = 0;  // this step
  bool retry_scheduled_ = false;
  DriveReport report_;
};

template <Policy P>
DriveReport drive(const typename P::Config& config, std::span<const Arrival> arrivals,
                  DriveOptions options = {}) {
  return Driver<P>(config, arrivals, options).run();
}

}  // namespace rubato::testing
