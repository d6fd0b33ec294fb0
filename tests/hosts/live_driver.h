// SPDX-License-Identifier: Apache-2.0
//
// LiveDriver<P>: what the live host is made of (its queues, contexts and statistics, and
// sched::Core over them), driven by a test's clock instead of threads. Requests arrive when the
// test says so and take the service that it says; nothing else takes time. Single-threaded and
// deterministic.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "policy/contract.h"
#include "runtime/shared_state.h"
#include "runtime/live_host.h"
#include "runtime/plan_cell.h"
#include "runtime/queue_set.h"
#include "runtime/worker_stats.h"
#include "sched/core.h"

namespace rubato::testing {

struct LiveArrival {
  Instant at;
  Nanos service;
  uint32_t type = 0;
  bool is_long = false;
};

// What became of one arrival.
struct Fate {
  static constexpr int64_t kRefused = -1;
  int64_t latency_ns = kRefused;
  friend bool operator==(const Fate&, const Fate&) = default;
};

template <Policy P>
class LiveDriver {
 public:
  LiveDriver(const typename P::Config& config, uint32_t workers, uint32_t capacity,
             const sched::CoreOptions& options, uint64_t seed,
             const std::optional<overload::LimiterSettings>& limits = {})
      : policy_(config),
        queues_(policy_, workers, capacity, capacity),
        shared_state_(workers, managers(policy_, workers), nullptr),
        workers_(workers),
        seed_(seed),
        central_host_(*this, workers) {
    classify_ = options.classify;
    if (limits) limiter_.emplace(*limits, workers, seed);
    plan_.publish(hook::initial_plan(policy_));
    for (uint32_t w = 0; w < workers; ++w) {
      stats_.push_back(std::make_unique<WorkerStats>());
      stats_of_all_.push_back(stats_.back().get());
    }
    for (uint32_t w = 0; w < workers; ++w) worker_states_.emplace_back(*this, w, options);
    for (uint32_t m = 0; m < managers(policy_, workers); ++m) managers_.emplace_back(*this);
  }

  // Arrivals come in by the workers in turn, at first by worker 1.
  std::vector<Fate> run(const std::vector<LiveArrival>& arrivals) {
    fates_.assign(arrivals.size(), {});
    requests_.resize(arrivals.size());
    left_ = arrivals.size();
    for (uint32_t i = 0; i < arrivals.size(); ++i) {
      const LiveArrival& arrival = arrivals[i];
      DrivenRequest& request = requests_[i];
      request.arrived = arrival.at;
      request.type = arrival.type;
      request.flow = 1;
      request.index = i;
      request.left = arrival.service;
      request.is_long = arrival.is_long;
      if (classify_ == Classify::kDeclared) {
        request.size_hint = arrival.service;
        if (arrival.is_long) request.job_class = JobClass::kLong;
      }
      schedule(arrival.at, Kind::kArrival, i);
    }
    const Nanos period = hook::adapt_period(policy_);
    if (period != Nanos::max()) schedule(Instant() + period, Kind::kAdapt, 0);
    while (left_ > 0 && !events_.empty()) step();
    return fates_;
  }

 private:
  struct DrivenRequest : RequestState {
    uint32_t index = 0;
    Nanos left;
    bool is_long = false;
  };

  struct Host : LiveHost<P> {
    Host(LiveDriver& driver, uint32_t caller)
        : LiveHost<P>(driver.queues_, driver.plan_, hook::initial_plan(driver.policy_),
                      driver.workers_, driver.stats_of_all_, driver.shared_state_,
                      sched::Draws(driver.seed_, caller)) {}
  };

  struct Platform : sched::PlainPlatform {
    using Request = DrivenRequest;

    WorkerId me() const { return {worker}; }
    Host& host() const { return driver.worker_states_[worker].host; }
    Instant now() const { return driver.now_; }
    Instant look_at_clock() const { return now(); }
    bool enqueue(QueueRef q, Request& request) {
      driver.offered_.push_back(q);
      return host().put(q, &request);
    }
    bool put_back(QueueRef q, Request& request) {
      ++driver.suspended_;
      return enqueue(q, request);
    }
    Limiter* limiter() const { return driver.limiter_ ? &*driver.limiter_ : nullptr; }
    sched::Replied<Request> reply(Request& request) {
      driver.fates_[request.index].latency_ns = (now() - request.arrived).count();
      --driver.left_;
      return {};
    }
    Request* refuse(Request&) {
      --driver.left_;
      return nullptr;
    }
    void take_up(Request& request) {
      if (request.has_started) --driver.suspended_;
      const bool says_so = driver.classify_ == Classify::kFeedback && request.is_long;
      if (!request.has_started && says_so) worker_state().core.mark_long(request, request.priority);
    }
    Instant begin(const Request&) const { return now(); }
    void begin_look() const { host().begin_look(); }
    void end_look(bool found) const { host().end_look(found); }
    int64_t suspended() const { return driver.suspended_; }
    void note_arrived(const Request& request) {
      ++stats().arrived[std::min(request.type, limits::kTypes - 1)];
    }
    void note_finished(const Request& request) {
      const Nanos waited = request.started - request.arrived;
      stats().of_type(request.type).add(waited, request.attained);
      stats().of_class(request.job_class).add(waited, request.attained);
    }

    auto& worker_state() const { return driver.worker_states_[worker]; }
    WorkerStats& stats() const { return *driver.stats_[worker]; }

    LiveDriver& driver;
    uint32_t worker;
  };

  struct DrivenWorker {
    DrivenWorker(LiveDriver& driver, uint32_t w, const sched::CoreOptions& options)
        : host(driver, w), core(driver.policy_, options, Platform{{}, driver, w}) {}
    Host host;
    sched::Core<P, Platform> core;
    DrivenRequest* running = nullptr;
    Nanos slice;
  };
  struct ManagerContext {
    explicit ManagerContext(LiveDriver& driver) : host(driver, driver.workers_) {}
    Host host;
    ManagerState<P> state{};
  };

  // Of events at one instant the first of these is first, and of its own the one of the lowest
  // worker, as in the simulator.
  enum class Kind : uint8_t { kSliceEnd, kArrival, kAdapt, kManage };
  struct Event {
    Instant at;
    Kind kind;
    uint32_t index;
    bool operator>(const Event& o) const {
      return std::tie(at, kind, index) > std::tie(o.at, o.kind, o.index);
    }
  };

  static constexpr uint32_t kRounds = 8;  // of managers that answer each other

  void schedule(Instant at, Kind kind, uint32_t index) {
    events_.push({at, kind, index});
  }

  void step() {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    for (DrivenWorker& worker_state : worker_states_) worker_state.host.set_now(now_);
    switch (event.kind) {
      case Kind::kArrival:
        worker_states_[comes_in_by(event.index)].core.admit(requests_[event.index]);
        break;
      case Kind::kSliceEnd:
        end_slice(event.index);
        give_work(event.index, true);
        break;
      case Kind::kAdapt:
        adapt();
        for (uint32_t w = 0; w < workers_; ++w) give_work(w, false);
        break;
      case Kind::kManage: break;
    }
    for (const QueueRef q : std::exchange(offered_, {})) offer(q);
    push();
  }

  uint32_t comes_in_by(uint32_t arrival) const { return (arrival + 1) % workers_; }

  // Idle workers look at a queue that something was put into: whose it is, then by turns or from
  // the lowest on, as those of the simulator do.
  void offer(QueueRef q) {
    if (P::kQueues[q.declaration].scope == Scope::kPerWorker) give_work(q.index, false);
    if (P::kQueues[q.declaration].sharing == Sharing::kOwner) return;
    uint32_t w = kAsksLowestFirst<P> ? 0 : turn_;
    for (uint32_t asked = 0; asked < workers_; ++asked, w = (w + 1) % workers_) {
      if (central_host_.depth(q) == 0) return;
      if (worker_states_[w].running != nullptr) continue;
      turn_ = (w + 1) % workers_;
      if (!give_work(w, false) && interchangeable(policy_)) return;
    }
  }

  void push() {
    central_host_.set_now(now_);
    hook::dispatch(policy_, central_, central_host_);
    for (uint32_t round = 0; round < kRounds; ++round) {
      for (uint32_t m = 0; m < managers_.size(); ++m) {
        managers_[m].host.set_now(now_);
        const Instant due =
            hook::manage(policy_, managers_[m].state, ManagerId{m}, managers_[m].host);
        if (round == 0 && due != Instant::never() && due > now_) schedule(due, Kind::kManage, m);
        wake_pushed(managers_[m].host);
      }
    }
    wake_pushed(central_host_);
  }

  void wake_pushed(Host& host) {
    host.take_pushed([this](WorkerId w) { give_work(w.value, false); });
  }

  // `had_work`: else it has been idle before, and says only once that it runs out. False: it found
  // nothing.
  bool give_work(uint32_t w, bool had_work) {
    DrivenWorker& worker_state = worker_states_[w];
    bool found = false;
    while (worker_state.running == nullptr) {
      DrivenRequest* const request = worker_state.core.next();
      if (request == nullptr) {
        if (had_work) worker_state.core.ran_out();
        return found;
      }
      found = had_work = true;
      if (!worker_state.core.start(*request)) {
        push();  // a live worker comes by the dispatcher and its manager before each choice
        continue;
      }
      stats_[w]->busy_since_ns.store(1, std::memory_order_relaxed);
      worker_state.running = request;
      begin_slice(w);
    }
    return found;
  }

  void begin_slice(uint32_t w) {
    DrivenWorker& worker_state = worker_states_[w];
    worker_state.slice = std::min(worker_state.core.quantum(), worker_state.running->left);
    schedule(now_ + worker_state.slice, Kind::kSliceEnd, w);
  }

  void end_slice(uint32_t w) {
    DrivenWorker& worker_state = worker_states_[w];
    DrivenRequest& request = *worker_state.running;
    request.left -= worker_state.slice;
    const Nanos service = request.attained + worker_state.slice;
    if (request.left == Nanos()) {
      leave(w);
      return worker_state.core.finish(request, service, Nanos());
    }
    const bool leaves = worker_state.core.expire(request, service);
    request.attained = service;
    if (!leaves) return begin_slice(w);
    leave(w);
    worker_state.core.requeue(request);
  }

  void leave(uint32_t w) {
    stats_[w]->busy_since_ns.store(0, std::memory_order_relaxed);
    worker_states_[w].running = nullptr;
  }

  void adapt() {
    central_host_.set_now(now_);
    plan_.publish(hook::adapt(policy_, central_, central_host_));
    for (DrivenWorker& worker_state : worker_states_) worker_state.host.refresh_plan();
    for (ManagerContext& manager : managers_) manager.host.refresh_plan();
    central_host_.refresh_plan();
    schedule(now_ + hook::adapt_period(policy_), Kind::kAdapt, 0);
  }

  P policy_;
  QueueSet<P> queues_;
  PlanCell<typename P::Plan> plan_;
  SharedState shared_state_;
  std::vector<const WorkerStats*> stats_of_all_;
  uint32_t workers_;
  const uint64_t seed_;
  Host central_host_;
  typename P::Central central_{};
  std::vector<std::unique_ptr<WorkerStats>> stats_;
  std::optional<overload::Limiter<overload::OneThread>> limiter_;
  std::deque<DrivenWorker> worker_states_;
  std::deque<ManagerContext> managers_;
  Classify classify_ = Classify::kAge;
  std::vector<DrivenRequest> requests_;
  std::vector<Fate> fates_;
  size_t left_ = 0;
  int64_t suspended_ = 0;
  Instant now_;
  std::vector<QueueRef> offered_;  // by the event at hand
  uint32_t turn_ = 0;              // whom to ask first
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace rubato::testing
