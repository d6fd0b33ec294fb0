// SPDX-License-Identifier: Apache-2.0
//
// drive<P>: runs a policy in virtual time over N workers, each a platform of sched::Core: no costs,
// no queueing outside of the policy's own queues, jobs become long the moment they start (the
// application's feedback). For conformance tests, not for performance: the simulator (src/sim) is
// the place for that. Deterministic: same policy, arrivals, options, same report. Single-threaded.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <queue>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "policy/contract.h"
#include "policy/extensions.h"
#include "policy/testing/chaos_host.h"
#include "policy/testing/checked_host.h"
#include "policy/testing/drive_report.h"
#include "policy/testing/script_host.h"
#include "sched/core.h"

namespace rubato::testing {

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
        manager_contexts_(script_.managers()),
        jobs_(arrivals.size()) {
    script_.set_capacity(options.queue_capacity);
    workers_.reserve(options.workers);
    for (uint32_t w = 0; w < options.workers; ++w) workers_.emplace_back(*this, WorkerId{w});
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

  struct DrivenJob : RequestState {
    uint32_t arrival = 0;
    Nanos left;
  };

  // What a worker lends to its core.
  struct Platform : sched::PlainPlatform {
    using Request = DrivenJob;
    static constexpr bool kHasGroups = true;

    WorkerId me() const { return id; }
    Host& host() { return driver.host_; }
    Instant now() { return driver.script_.now(); }
    Instant look_at_clock() { return now(); }
    bool enqueue(QueueRef q, Request& request) { return host().put(q, &request); }
    bool put_back(QueueRef q, Request& request) { return host().put(q, &request); }
    bool put_in_group(Request& request, bool suspended) {
      driver.workers_[id.value].group(request.group, suspended).push_back(&request);
      return true;
    }
    Request* take_in_group(uint32_t group, bool suspended) {
      return driver.workers_[id.value].take_either(group, suspended);
    }
    Request* take_from_others(uint32_t group) {
      for (DrivenWorker& worker : driver.workers_) {
        if (Request* request = worker.take_either(group, false)) return request;
      }
      return nullptr;
    }
    static Nanos lost() { return {}; }
    bool waits_in_group(uint32_t group) {
      DrivenWorker& worker = driver.workers_[id.value];
      return !worker.group(group, false).empty() || !worker.group(group, true).empty();
    }
    sched::Replied<Request> reply(Request& request) {
      driver.depart(request);
      return {};
    }
    Request* refuse(Request& request) {
      driver.refuse(request);
      return nullptr;
    }
    void take_up(Request& request) { driver.take_up(request, id); }
    void arm(const Request&, Nanos quantum) { driver.check_slice(quantum); }
    Instant begin(Request&) { return now(); }
    static int64_t suspended() { return 0; }
    void note_arrived(const Request& request) { driver.script_.note_arrived(request.type); }
    void note_finished(const Request& request) {
      driver.script_.note_served(request.type, request.attained,
                                 request.started - request.arrived, request.job_class);
    }

    Driver& driver;
    WorkerId id;
  };

  struct DrivenWorker {
    DrivenWorker(Driver& driver, WorkerId id)
        : core(driver.policy_,
               {.classify = Classify::kFeedback,
                .refusal_rule = {},
                .firm_deadlines = false,
                .weights = driver.options_.weights},
               Platform{{}, driver, id}) {}

    std::deque<DrivenJob*>& group(uint32_t group, bool suspended) {
      return groups[group][suspended ? 1 : 0];
    }
    DrivenJob* take_either(uint32_t of, bool suspended_first) {
      DrivenJob* const job = take(of, suspended_first);
      return job != nullptr ? job : take(of, !suspended_first);
    }
    DrivenJob* take(uint32_t of, bool suspended) {
      std::deque<DrivenJob*>& from = group(of, suspended);
      if (from.empty()) return nullptr;
      DrivenJob* const job = from.front();
      from.pop_front();
      return job;
    }

    sched::Core<P, Platform> core;
    DrivenJob* running = nullptr;
    Nanos slice;  // what the job will use of the slice in force
    std::array<std::array<std::deque<DrivenJob*>, 2>, limits::kGroups> groups;
  };
  struct ManagerContext {
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
    host_.call_as(HookContext::central());
    hook::dispatch(policy_, central_, host_);
    for (uint32_t rounds = 0; rounds < kMostRounds; ++rounds) {
      for (uint32_t m = 0; m < script_.managers(); ++m) manage(ManagerId{m});
      if (host_.in_messages() == 0) return;
    }
    if (!options_.chaos) host_.complain("messages without end");
  }

  void manage(ManagerId me) {
    ManagerContext& context = manager_contexts_[me.value];
    host_.call_as(HookContext::manager(me));
    const Instant due = hook::manage(policy_, context.state, me, host_);
    if (due != Instant::never() && due <= script_.now()) host_.complain("a step due in the past");
    if (due == Instant::never() || unfinished() == 0) return;
    // One step is pending per manager, else what each schedules would multiply. An early one does
    // no harm: managers step after every event anyway.
    const bool pending = context.due > script_.now() && context.due <= due;
    if (pending) return;
    context.due = std::max(due, script_.now() + Nanos(1));
    schedule(context.due, Kind::kManage);
  }

  void arrive(uint32_t index) {
    const Arrival& arrival = arrivals_[index];
    DrivenJob& job = jobs_[index];
    job.arrival = index;
    job.arrived = script_.now();
    job.flow = arrival.flow;
    job.left = arrival.service;
    job.size_hint = arrival.type != 0 ? arrival.service : Nanos();
    job.deadline = arrival.deadline;
    job.priority = arrival.priority;
    job.type = arrival.type;
    job.group = arrival.group;
    has_groups_ |= job.group != kPolicyGroup;
    const WorkerId at = script_.arrives_at(job.flow, arrival.worker);
    host_.call_as(HookContext::worker(at));
    host_.admit(&job);
    workers_[at.value].core.admit(job);
  }

  void refuse(DrivenJob& job) {
    host_.retire(&job);
    report_.refused.push_back(job.arrival);
  }

  void give_work_to_idle_workers() {
    for (bool somebody_got_work = true; somebody_got_work;) {
      somebody_got_work = false;
      bool somebody_found_nothing = false;
      for (uint32_t w = 0; w < options_.workers; ++w) {
        if (workers_[w].running != nullptr) continue;
        const bool has_own = owns_waiting(w);
        const bool found = ask_next(WorkerId{w});
        if (found && somebody_found_nothing && !has_own) claim_broken();
        somebody_got_work |= found;
        // A worker that took of its own may have told the others where to find something (SBB's
        // hints).
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
    for (uint32_t declaration = 0; declaration < P::kQueues.size(); ++declaration) {
      if (P::kQueues[declaration].scope != Scope::kPerWorker) continue;
      if (!script_.waiting(QueueRef{declaration, worker}).empty()) return true;
    }
    return false;
  }

  // Is there nothing in the queues for which the policy says that it cuts?
  bool nothing_to_cut_for(uint32_t worker) {
    const CutsFor cause = cuts_for(policy_);
    if (options_.chaos || has_groups_ || cause == CutsFor::kUnknown) return false;
    if (cause == CutsFor::kOwnQueues) return !owns_waiting(worker);
    for (uint32_t declaration = 0; declaration < P::kQueues.size(); ++declaration) {
      const QueueDeclaration& declared = P::kQueues[declaration];
      const uint32_t count = queue_count_of(declared, options_.workers, script_.managers());
      for (uint32_t index = 0; index < count; ++index) {
        if (!script_.waiting(QueueRef{declaration, index}).empty()) return false;
      }
    }
    return true;
  }

  // What chaos hides from one worker it may show to the next.
  void claim_broken() {
    if (!interchangeable(policy_) || options_.chaos) return;
    host_.complain("an idle worker found what another had not, against kInterchangeable");
  }

  bool ask_next(WorkerId me) {
    DrivenWorker& context = workers_[me.value];
    host_.call_as(HookContext::worker(me));
    DrivenJob* const job = context.core.next();
    if (job == nullptr) return false;
    if (!host_.held(job)) {
      host_.complain("next gave a job that is not held");
      return false;
    }
    start(*job, me);
    return true;
  }

  void start(DrivenJob& job, WorkerId me) {
    DrivenWorker& context = workers_[me.value];
    context.running = &job;
    ++running_;
    script_.set_busy(me, true);
    static_cast<void>(context.core.start(job));  // nothing is refused for its wait
    begin_slice(me);
  }

  void take_up(DrivenJob& job, WorkerId me) {
    const bool is_long = arrivals_[job.arrival].job_class == JobClass::kLong;
    if (!job.has_started && is_long) workers_[me.value].core.mark_long(job, job.priority);
  }

  void check_slice(Nanos quantum) {
    if (quantum <= Nanos()) host_.complain("a quantum of nothing");
    report_.slices += quantum != Nanos::max() ? 1u : 0u;
  }

  void begin_slice(WorkerId me) {
    DrivenWorker& context = workers_[me.value];
    context.slice = std::min(context.core.quantum(), context.running->left);
    schedule(script_.now() + context.slice, Kind::kSliceEnd, me.value);
  }

  void end_slice(uint32_t worker) {
    const WorkerId me{worker};
    DrivenWorker& context = workers_[worker];
    DrivenJob& job = *context.running;
    job.left -= context.slice;
    const Nanos late = std::max(Nanos(), script_.now() - arrivals_.back().at);
    report_.service[job.group] += std::max(Nanos(), context.slice - late);
    const Nanos service = job.attained + context.slice;
    if (job.left == Nanos()) return finish(job, service, me);
    host_.call_as(HookContext::observer());
    const bool idle_end = nothing_to_cut_for(me.value);
    const bool leaves = context.core.expire(job, service);
    if (leaves && idle_end) host_.complain("a slice was cut for nobody, against cuts_for");
    job.attained = service;
    report_.kept_on += leaves ? 0 : 1;
    leaves ? put_back(job, me) : begin_slice(me);
  }

  void put_back(DrivenJob& job, WorkerId me) {
    host_.call_as(HookContext::worker(me));
    leave(me);
    if (workers_[me.value].core.requeue(job)) {
      ++report_.preemptions;
    } else {
      start(*workers_[me.value].core.next(), me);  // its queue is full: it goes on
    }
  }

  void finish(DrivenJob& job, Nanos service, WorkerId me) {
    host_.call_as(HookContext::worker(me));
    workers_[me.value].core.finish(job, service, Nanos());
    leave(me);
  }

  void depart(DrivenJob& job) {
    host_.retire(&job);
    report_.departures.push_back({job.arrival, script_.now(), job.preemptions});
  }

  // The worker has no job any more.
  void leave(WorkerId me) {
    workers_[me.value].running = nullptr;
    script_.set_busy(me, false);
    --running_;
  }

  void adapt() {
    host_.call_as(HookContext::central());
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
  std::vector<DrivenWorker> workers_;
  size_t running_ = 0;  // of the contexts
  std::vector<ManagerContext> manager_contexts_;
  std::vector<DrivenJob> jobs_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t next_order_ = 0;
  uint64_t mishaps_before_ = 0;  // this step
  bool retry_scheduled_ = false;
  bool has_groups_ = false;  // beside the policy's
  DriveReport report_;
};

template <Policy P>
DriveReport drive(const typename P::Config& config, std::span<const Arrival> arrivals,
                  DriveOptions options = {}) {
  return Driver<P>(config, arrivals, options).run();
}

}  // namespace rubato::testing
