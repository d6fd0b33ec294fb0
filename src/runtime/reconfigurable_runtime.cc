// SPDX-License-Identifier: Apache-2.0
#include "runtime/reconfigurable_runtime.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/option_text.h"
#include "mechanism/clock/clock.h"
#include "runtime/current_worker.h"

namespace rubato {
namespace {

void add_refusals(const WorkerStats& one, RuntimeStats& sum) {
  for (uint32_t why = 0; why < kRefusals; ++why) {
    for (const JobClass job_class : {JobClass::kShort, JobClass::kLong}) {
      sum.refusals[why][static_cast<size_t>(job_class)] +=
          one.refused_for(static_cast<Refusal>(why), job_class).value();
    }
  }
  sum.overloaded += one.overloaded.load(std::memory_order_relaxed) ? 1u : 0u;
}

void add_refusals(const CreditReport& credits, RuntimeStats& sum) {
  for (uint32_t why = 0; why < kRefusals; ++why) {
    for (size_t job_class = 0; job_class < sum.refusals[why].size(); ++job_class) {
      sum.refusals[why][job_class] += credits.refusals[why][job_class];
      sum.refused += credits.refusals[why][job_class];
    }
  }
}

void add(const WorkerStats& one, RuntimeStats& sum) {
  sum.requests += one.requests.value();
  sum.refused += one.refused.value();
  add_refusals(one, sum);
  sum.cancelled += one.cancelled.value();
  sum.preemptions += one.preemptions.value();
  sum.preemptions_avoided += one.preemptions_avoided.value();
  sum.preemptions_denied += one.preemptions_denied.value();
  sum.preemptions_deferred += one.preemptions_deferred.value();
  sum.lock_yields += one.lock_yields.value();
  sum.stuck_left += one.stuck_left.value();
  sum.waits += one.waits.value();
  sum.came_back += one.came_back.value();
  sum.resumed += one.resumed.value();
  sum.long_by_feedback += one.long_by_feedback.value();
  sum.long_by_age += one.long_by_age.value();
  sum.long_learned += one.long_learned.value();
  sum.helped += one.helped.value();
  sum.parked += one.parked.value();
  sum.woken += one.woken.value();
  sum.busy_ns += one.busy_ns.value();
}

WorkerActivity activity_of(const WorkerStats& worker, Instant at) {
  WorkerActivity one;
  const int64_t polled = worker.polled_ns.load(std::memory_order_relaxed);
  const int64_t since = worker.busy_since_ns.load(std::memory_order_relaxed);
  one.asleep = polled == WorkerStats::kAsleep;
  one.busy = since != 0;
  one.type = worker.busy_type.load(std::memory_order_relaxed);
  if (one.busy) one.busy_for = std::max(at - Instant(since), Nanos());
  if (!one.asleep) one.unpolled = std::max(at - Instant(polled), Nanos());
  one.suspended = worker.suspended();
  return one;
}

Nanos longest_delay(const PolicyRuntime& runtime, JobClass job_class) {
  Nanos longest;
  for (const WorkerStats* worker : runtime.worker_stats()) {
    longest = std::max(longest, worker->delay.of(job_class));
  }
  return longest;
}

bool all_refuse(const PolicyRuntime& runtime) {
  const auto& workers = runtime.worker_stats();
  return std::all_of(workers.begin(), workers.end(), [](const WorkerStats* worker) {
    return worker->overloaded.load(std::memory_order_relaxed);
  });
}

// Options that are more than the scheduler's.
Status check_restart(const SchedulerOptions& from, const SchedulerOptions& to) {
  const bool credits = from.overload == Overload::kCredits;
  const char* fixed = from.workers != to.workers                       ? "workers"
                      : from.foreign_runtime != to.foreign_runtime     ? "foreign_runtime"
                      : credits != (to.overload == Overload::kCredits) ? "overload"
                      : from.credits_settings != to.credits_settings   ? "credits_set"
                                                                       : nullptr;
  if (fixed != nullptr) return Error{std::string(fixed) + ": takes a restart"};
  if (from.refusal_rule == to.refusal_rule || to.refuses_late()) return Done{};
  return Error{credits ? "target_delay: with credits takes a restart"
                       : "target_delay: needs overload aqm, which refuses what is late"};
}

// What a manager of cores was told when the server joined it.
Status check_managed(const RuntimeOptions& from, const SchedulerOptions& to) {
  if (!from.cores_managed) return Done{};
  const char* fixed = from.cores != to.cores                         ? "cores"
                      : from.cores_settings != to.cores_settings     ? "cores_set"
                      : from.guaranteed_cores != to.guaranteed_cores ? "guaranteed_cores"
                                                                     : nullptr;
  if (fixed == nullptr) return Done{};
  return Error{std::string(fixed) +
               ": the manager of cores goes by what the server started with: takes a restart"};
}

// Is the difference one that LiveSettings does not have?
bool differ(SchedulerOptions from, const SchedulerOptions& to) {
  from.drain_limit = to.drain_limit;
  from.refusal_rule = to.refusal_rule;
  if (from.policy_settings != to.policy_settings) return true;
  if (from.cores_settings != to.cores_settings) return true;
  if (from.overload_settings != to.overload_settings) return true;
  const auto was = describe<SchedulerOptions>(from);
  const auto is = describe<SchedulerOptions>(to);
  return !std::equal(was.begin(), was.end(), is.begin(), [](const auto& one, const auto& other) {
    return one.default_value == other.default_value;
  });
}

}  // namespace

ReconfigurableRuntime::ReconfigurableRuntime(std::unique_ptr<HostState> host_state,
                                             std::unique_ptr<PolicyRuntime> first,
                                             Datapath& datapath, Application& application,
                                             PreemptionClock asked_clock)
    : host_state_(std::move(host_state)),
      datapath_(datapath),
      application_(application),
      asked_clock_(asked_clock),
      current_(std::move(first)),
      past_(current_.owned().options().workers),
      options_{current_.owned().options()} {
  const bool foreign = options().foreign_runtime;
  host_state_->server_loop = [this, foreign] {
    while (Request* request = rubato::recv()) {
      foreign ? handle_on_thread(application_, *request) : application_.handle(*request);
      rubato::send(*request);
    }
  };
}

Result<std::unique_ptr<Runtime>> Runtime::create(const RuntimeOptions& options, Datapath& datapath,
                                                 Application& application) {
  auto host_state = std::make_unique<HostState>(options, datapath);
  auto first = PolicyRuntime::make(options, *host_state, datapath, application);
  if (!first.ok()) return Error{first.error()};
  return std::unique_ptr<Runtime>(std::make_unique<ReconfigurableRuntime>(
      std::move(host_state), std::move(*first), datapath, application, options.preemption_clock));
}

void ReconfigurableRuntime::set_server_loop(std::function<void()> loop) {
  host_state_->server_loop = std::move(loop);
}

// ---- Serving ------------------------------------------------------------------------------------

void ReconfigurableRuntime::starts() {
  const std::scoped_lock lock(changing_);
  if (std::exchange(started_, true)) return;
  RUBATO_CHECK(current_.owned().prepare());
  started_ns_.store(now().ns(), std::memory_order_release);
}

bool ReconfigurableRuntime::run() {
  starts();
  current_.owned().run();
  while (host_state_->shutdown.changed()) {
    take_next();
    current_.owned().run();
  }
  return !host_state_->shutdown.failed();
}

std::optional<bool> ReconfigurableRuntime::run_here(WorkerId worker) {
  if (started_ns_.load(std::memory_order_acquire) == 0) starts();
  if (!current_.owned().run_here(worker)) return std::nullopt;
  return !host_state_->shutdown.failed();
}

std::optional<bool> ReconfigurableRuntime::stop_if_drained() {
  Shutdown& shutdown = host_state_->shutdown;
  if (shutdown.serving()) return std::nullopt;
  if (shutdown.state() == RunState::kDraining) {
    if (!shutdown.stop_if_drained(now())) return std::nullopt;
    current_.use([](PolicyRuntime& runtime) { runtime.wake_all(); });
  }
  return !shutdown.failed();
}

void ReconfigurableRuntime::stop() {
  host_state_->shutdown.ask_to_stop();
  current_.use([](PolicyRuntime& runtime) { runtime.wake_all(); });
}

bool ReconfigurableRuntime::serving() const { return host_state_->shutdown.serving(); }

void ReconfigurableRuntime::poll_timer() {
  current_.use([](PolicyRuntime& runtime) { runtime.poll_timer(); });
}

overload::CoreSignals ReconfigurableRuntime::manage_cores(std::optional<uint32_t> most,
                                                          bool fresh) {
  return current_.use([&](PolicyRuntime& runtime) { return runtime.manage_cores(most, fresh); });
}

// ---- Changes ------------------------------------------------------------------------------------

SchedulerOptions ReconfigurableRuntime::scheduler_options() const {
  const std::scoped_lock lock(changing_);
  return asked_of_scheduler();
}

// Requires the lock.
SchedulerOptions ReconfigurableRuntime::asked_of_scheduler() const {
  SchedulerOptions asked = asked_for();
  asked.drain_limit = settings().drain_limit();
  asked.refusal_rule = settings().refusal_rule();
  return asked;
}

// Requires the lock.
const RuntimeOptions& ReconfigurableRuntime::asked_for() const {
  const Shutdown& shutdown = host_state_->shutdown;
  const bool underway = next_ != nullptr && shutdown.serving() && !shutdown.running();
  return underway ? next_->options() : options();
}

Status ReconfigurableRuntime::change(const SchedulerOptions& wanted) {
  const std::scoped_lock lock(changing_);
  return change_locked(wanted);
}

Status ReconfigurableRuntime::change(
    const std::function<Status(SchedulerOptions& options)>& edit) {
  const std::scoped_lock lock(changing_);
  SchedulerOptions wanted = asked_of_scheduler();
  if (Status edited = edit(wanted); !edited.ok()) return edited;
  return change_locked(wanted);
}

Status ReconfigurableRuntime::change_locked(const SchedulerOptions& wanted) {
  RuntimeOptions options = asked_for();
  SchedulerOptions before = options;
  before.refusal_rule = settings().refusal_rule();
  if (Status may = check_restart(before, wanted); !may.ok()) return may;
  if (Status may = check_managed(options, wanted); !may.ok()) return may;
  const bool anew = differ(options, wanted);
  const bool another_clock = wanted.preemption_clock != options.preemption_clock;
  static_cast<SchedulerOptions&>(options) = wanted;
  if (!another_clock) options.preemption_clock = asked_clock_;
  const PreemptionClock asked_clock = options.preemption_clock;
  if (anew) {
    auto next = PolicyRuntime::make(options, *host_state_, datapath_, application_);
    if (!next.ok()) return Error{next.error()};
    if (!(*next)->prepare()) return Error{"policy: no memory for the stacks of its workers"};
    if (!host_state_->shutdown.serving()) return Error{"policy: the runtime stops"};
    next_ = std::move(*next);
    asked_clock_ = asked_clock;
  }
  settings().set_drain_limit(wanted.drain_limit);
  settings().set_refusal_rule(wanted.refusal_rule);
  if (anew && !started_) begin_with(std::move(next_));
  if (anew && started_ && host_state_->shutdown.hold()) {
    current_.use([](PolicyRuntime& runtime) { runtime.wake_all(); });
  }
  return Done{};
}

// The threads of the old policy have ended.
void ReconfigurableRuntime::take_next() {
  const std::scoped_lock lock(changing_);
  RUBATO_CHECK(next_ != nullptr);
  begin_with(std::move(next_));
  host_state_->shutdown.go_on();
}

void ReconfigurableRuntime::begin_with(std::unique_ptr<PolicyRuntime> next) {
  const std::unique_lock lock(mutex_);
  const PolicyRuntime& old = current_.owned();
  for (size_t i = 0; i < past_.size(); ++i) past_[i].add(*old.worker_stats()[i]);
  old.add_to(past_sums_);
  past_sums_.cores_granted = past_sums_.fibers = 0;  // of the present alone
  options_.push_back(next->options());
  current_.replace(std::move(next));
  changes_.fetch_add(1, std::memory_order_relaxed);
}

// ---- Counters -----------------------------------------------------------------------------------

// f(index, stats) for each worker, those of earlier policies too.
template <class F>
void ReconfigurableRuntime::each_worker(F&& f) const {
  const std::shared_lock lock(mutex_);
  const auto& workers = current_.owned().worker_stats();
  for (size_t i = 0; i < past_.size(); ++i) {
    f(i, past_[i]);
    f(i, *workers[i]);
  }
}

RuntimeStats ReconfigurableRuntime::stats() const {
  RuntimeStats sum;
  {
    const std::shared_lock lock(mutex_);
    sum = past_sums_;
    current_.owned().add_to(sum);
    for (const WorkerStats* worker : current_.owned().worker_stats()) {
      sum.quanta.emplace_back(worker->quantum_ns.load(std::memory_order_relaxed));
    }
  }
  if (options().credits != nullptr) add_refusals(options().credits->report(), sum);
  each_worker([&](size_t, const WorkerStats& worker) { add(worker, sum); });
  sum.awake_ns = awake_ns();
  sum.changes = changes_.load(std::memory_order_relaxed);
  sum.changes_given_up = host_state_->shutdown.holds_given_up();
  return sum;
}

// Time that all workers together were awake since the start.
uint64_t ReconfigurableRuntime::awake_ns() const {
  const int64_t started = started_ns_.load(std::memory_order_relaxed);
  if (started == 0) return 0;
  const int64_t at = now().ns();
  int64_t sum = static_cast<int64_t>(past_.size()) * (at - started);
  each_worker([&](size_t, const WorkerStats& worker) {
    const int64_t since = worker.asleep_since_ns.load(std::memory_order_relaxed);
    if (since != 0) sum -= at - since;
    sum -= static_cast<int64_t>(worker.asleep_ns.value());
  });
  return static_cast<uint64_t>(std::max<int64_t>(sum, 0));
}

std::vector<WorkerActivity> ReconfigurableRuntime::activity() const {
  const std::shared_lock lock(mutex_);
  std::vector<WorkerActivity> all;
  const Instant at = now();
  const auto& workers = current_.owned().worker_stats();
  for (size_t i = 0; i < workers.size(); ++i) {
    all.push_back(activity_of(*workers[i], at));
    for (const WorkerStats* stats : {&past_[i], workers[i]}) {
      all.back().requests += stats->requests.value();
      all.back().preemptions += stats->preemptions.value();
      all.back().busy_total += Nanos(static_cast<int64_t>(stats->busy_ns.value()));
    }
    all.back().busy_total += all.back().busy_for;
  }
  return all;
}

std::vector<QueueDepth> ReconfigurableRuntime::queue_depths() const {
  const std::shared_lock lock(mutex_);
  return current_.owned().queue_depths();
}

size_t ReconfigurableRuntime::stack_high_water_bytes() const {
  const std::shared_lock lock(mutex_);
  return current_.owned().stack_high_water_bytes();
}

size_t ReconfigurableRuntime::stack_resident_bytes(bool release) {
  const std::shared_lock lock(mutex_);
  return current_.owned().stack_resident_bytes(release);
}

Nanos ReconfigurableRuntime::queue_delay(JobClass job_class) const {
  return current_.use([&](PolicyRuntime& runtime) { return longest_delay(runtime, job_class); });
}

Nanos ReconfigurableRuntime::refuses_for(JobClass job_class) const {
  return current_.use([&](PolicyRuntime& runtime) {
    if (!runtime.options().refuses_late() || !all_refuse(runtime)) return Nanos();
    const Nanos least = settings().refusal_rule().refuse_delay(job_class == JobClass::kLong);
    return std::max(longest_delay(runtime, job_class), least);
  });
}

Histogram ReconfigurableRuntime::latency(uint32_t type) const {
  Histogram sum;
  each_worker([&](size_t, const WorkerStats& worker) {
    if (const TypeStats* stats = worker.find_type(type)) sum.merge(stats->latency.snapshot());
  });
  return sum;
}

Histogram ReconfigurableRuntime::service(uint32_t type) const {
  Histogram sum;
  each_worker([&](size_t, const WorkerStats& worker) {
    if (const TypeStats* stats = worker.find_type(type)) sum.merge(stats->service.snapshot());
  });
  return sum;
}

ServedFigures ReconfigurableRuntime::served(uint32_t type) const {
  ServedFigures sum;
  each_worker([&](size_t, const WorkerStats& worker) {
    const TypeStats* const stats = worker.find_type(type);
    if (stats == nullptr) return;
    sum.finished += stats->served.value();
    sum.service += Nanos(static_cast<int64_t>(stats->service_ns.value()));
    sum.waited += Nanos(static_cast<int64_t>(stats->waited_ns.value()));
  });
  return sum;
}

std::vector<BlockedPair> ReconfigurableRuntime::blocked() const {
  std::map<std::pair<uint32_t, uint32_t>, BlockedPair> sums;
  each_worker([&](size_t, const WorkerStats& worker) {
    worker.blocked.for_each([&](const BlockedPair& pair) {
      BlockedPair& sum = sums[{pair.victim, pair.blocker}];
      sum = {pair.victim, pair.blocker, sum.requests + pair.requests, sum.held + pair.held};
    });
  });
  std::vector<BlockedPair> all;
  for (const auto& [types, sum] : sums) all.push_back(sum);
  return all;
}

GroupFigures ReconfigurableRuntime::group(uint32_t group) const {
  GroupFigures sum;
  each_worker([&](size_t, const WorkerStats& worker) {
    const GroupStats& stats = worker.groups[group];
    sum.arrived += stats.arrived.value();
    sum.refused += stats.refused.value();
    sum.finished += stats.served.value();
    sum.service += Nanos(static_cast<int64_t>(stats.service_ns.value()));
    sum.waited += Nanos(static_cast<int64_t>(stats.waited_ns.value()));
  });
  return sum;
}

uint64_t ReconfigurableRuntime::finished(WorkerId worker, uint32_t type) const {
  uint64_t sum = 0;
  each_worker([&](size_t index, const WorkerStats& one) {
    const TypeStats* stats = index == worker.value ? one.find_type(type) : nullptr;
    if (stats != nullptr) sum += stats->latency.snapshot().count();
  });
  return sum;
}

Histogram ReconfigurableRuntime::overrun() const {
  Histogram sum;
  each_worker([&](size_t, const WorkerStats& worker) { sum.merge(worker.overrun.snapshot()); });
  return sum;
}

std::vector<ArrivalSlots*> ReconfigurableRuntime::arrivals() {
  std::vector<ArrivalSlots*> slots;
  for (const auto& worker : host_state_->arrivals) slots.push_back(worker.get());
  return slots;
}

std::vector<RequestRing*> ReconfigurableRuntime::request_rings() {
  std::vector<RequestRing*> rings;
  for (const auto& worker : host_state_->requests) rings.push_back(worker.get());
  return rings;
}

std::vector<TraceRing*> ReconfigurableRuntime::trace_rings() {
  std::vector<TraceRing*> rings;
  for (const auto& worker : host_state_->traces) rings.push_back(worker.get());
  return rings;
}

const RuntimeOptions& ReconfigurableRuntime::options() const {
  const std::shared_lock lock(mutex_);
  return options_.back();
}

std::vector<std::string> ReconfigurableRuntime::explain_policy(const TypeNames& name_of,
                                                               uint32_t types) const {
  const std::shared_lock lock(mutex_);
  return current_.owned().explain(name_of, types);
}

}  // namespace rubato
