// SPDX-License-Identifier: Apache-2.0
//
// SimWorker<P, Server>: one simulated worker: the choice of requests, their slices, and interrupts.
// Its time is spent in slices and in the price of verbs, switches and interrupts; the price of a
// decision delays the request that the decision was for. An idle worker looks again when a request
// is put where it could find it (sim/worker_pool.h), and sees it after Costs::Worker::notice. On an
// elastic server a worker parks when its core is taken, and wakes up when it is granted one. Every
// worker has one event ahead at most. One owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "metrics/trace.h"
#include "policy/archetype.h"
#include "policy/contract.h"
#include "sched/core.h"
#include "sched/look_stride.h"
#include "sim/context.h"
#include "sim/core_allocation.h"
#include "sim/critical_sections.h"
#include "sim/platform.h"
#include "sim/request.h"

namespace rubato::sim {

template <Policy P, class Server>
class WorkerPool;

template <Policy P, class Server>
class alignas(limits::kCacheLineBytes) SimWorker {
 public:
  // All references outlive this.
  SimWorker(SimContext<P, Server>& context, WorkerPool<P, Server>& pool, uint32_t id)
      : context_(context),
        pool_(pool),
        id_(id),
        group_(context.group_of(id)),
        core_(context.policy, {context.setup.classify, context.setup.refusal_rule},
              SimPlatform<P, Server>(*this)) {}
  SimWorker(const SimWorker&) = delete;
  SimWorker& operator=(const SimWorker&) = delete;

  uint32_t id() const { return id_; }
  SimContext<P, Server>& context() const { return context_; }
  WorkerPool<P, Server>& pool() const { return pool_; }

  // ---- Requests that arrive here --------------------------------------------------------------

  void admit(SimRequest& request) {
    const bool declared = context_.setup.classify == Classify::kDeclared;
    if (declared || context_.setup.tells_sizes) request.size_hint = request.service;
    if (declared && context_.long_types[request.true_type]) request.job_class = JobClass::kLong;
    if (context_.polled()) return into_ring(request);
    host().call_as(id_);
    core_.admit(request);
  }

  // The worker reads its clock, by which it counts what follows (WorkerClock::kReadings).
  void read_clock() {
    if (!Server::kIdeal) read_ = now() + meter().spent();
  }
  Instant served_from() const { return served_from_; }
  bool has_just_cut() const { return has_just_cut_; }
  bool counts_readings() const { return context_.host.counts_readings(); }
  // The service of the request that it turns to counts from now on.
  void serve_from_last_reading() {
    if (!Server::kIdeal) served_from_ = read_;
  }

  void poll() {
    take_from(ring(), std::exchange(found_, kAll));
    picks_since_poll_ = 0;
    last_poll_ = now() + meter().spent();
    pool_.rings().note_polled();
  }

  // When an idle worker may take from its ring; never = it will come to it itself, or has.
  Instant needs_help() const {
    return ring().empty() ? Instant::never() : stuck_from();
  }
  bool is_stuck(Instant at) const { return stuck_from() <= at; }

  // The queue that the worker polls into.
  QueueRef own_queue() const {
    if (P::kQueues[0].scope == Scope::kPerManager) return {0, group_.value};
    return {0, kOwnQueue ? id_ : 0};
  }

  // ---- An idle worker -------------------------------------------------------------------------

  // An idle worker asks its ring in each round, but where it sees at once that its queue has run
  // full: it has asked it until then.
  void note_idle_poll(Instant at) {
    last_poll_ = std::max(last_poll_, at);
    picks_since_poll_ = 0;
  }
  // When the worker, which goes round and round, looks next after `at`. Requires an idle worker.
  Instant next_look(Instant at) const {
    if (context_.looks_in_step()) return at;
    const int64_t beyond_ns = (at - next_round_).count();
    if (beyond_ns <= 0) return next_round_;
    const int64_t round_ns = (round_ + beside_stuck(at)).count();
    return next_round_ + Nanos((beyond_ns + round_ns - 1) / round_ns * round_ns);
  }
  bool will_look() const { return context_.events.due(id_) != Instant::never(); }
  void look_at(Instant at) { schedule(Next::kLook, at); }

  // Looks around; the worker can have what it finds `after` a while, and once it has noticed it,
  // which one that goes round has. False = it found nothing, which costs nothing: it was looking
  // anyway. Requires an idle worker.
  bool wake(Nanos after) {
    host().call_as(id_);
    read_clock();
    if (!Server::kIdeal && !context_.goes_round()) after += context_.until_idle_looks();
    if (context_.polled()) return wake_at_ring(after);
    SimRequest* const request = look();
    if (request != nullptr) go_on(*request, after);
    return request != nullptr;
  }

  // Takes a burst from the ring of each worker that does not come to it. Requires an idle worker.
  void help() {
    host().call_as(id_);
    note_idle_poll(now());
    for (uint32_t w = 0; w < pool_.size(); ++w) {
      if (pool_[w].needs_help() <= now()) take_from(pool_[w].ring(), kAll);
    }
    SimRequest* const request = look();
    request != nullptr ? go_on(*request, context_.until_idle_looks()) : has_worked_for_others();
  }

  // The worker has found nothing: it idles.
  void rest() {
    if (context_.setup.refusal_rule || context_.limiter || context_.looks_in_step()) {
      pool_.note_found_nothing(id_);
    }
    free_at_ = now() + meter().spent();
    overhead_ += meter().spent();
    if (!context_.idle.has(id_)) begin_idling();
    if (!Server::kIdeal && std::exchange(serves_, false)) context_.hyperthreads.end(id_, now());
    context_.events.cancel(id_);
    if (context_.goes_round()) {
      next_round_ =
          free_at_ + rest_of_round() + beside_stuck(free_at_) + costs().worker.poll_look;
    }
    pool_.rings().note_idle(free_at_);
    if (counts_looks_) pool_.rings().look_on(id_);
    if constexpr (Server::kElastic) {
      cores().polls(id_, free_at_);
      if (kParksWhenEmpty<P> && cores().leaving(id_)) return schedule(Next::kAsk, free_at_);
      if (cores().rule_parks()) schedule(Next::kAsk, free_at_ + cores().before_asking());
    }
  }

  // The worker is still idle after the event in which it found nothing.
  void ran_out() { core_.ran_out(); }

  // ---- Events ---------------------------------------------------------------------------------

  void on_event() {
    RUBATO_DCHECK(!is_parked());
    if constexpr (kManages<P>) context_.pending_managers.add(group_);
    if (!Server::kIdeal && context_.hyperthreads.any() && loses_to_sibling()) return;
    switch (next_) {
      case Next::kFinish:
        return finish();
      case Next::kSliceEnd:
        return come_to_slice_end();
      case Next::kNotified:
        notice_at_ = Instant::never();
        host().call_as(id_);
        meter().spend(costs().preemption.receive);
        return preempt();
      case Next::kSection:
        return come_to_section();
      case Next::kChoose:
        host().call_as(id_);
        return come_to_ring();
      case Next::kPoll:
        return poll_and_choose();
      case Next::kPolled:
        host().call_as(id_);
        return choose_now(false);
      case Next::kPollAtEnd:
        return slice_end();
      case Next::kPollIdle:
        return poll_for_all();
      case Next::kNotice:
        return look_around();
      case Next::kLook:
        return come_round();
      case Next::kAsk:
        if constexpr (Server::kElastic) ask();
        return;
      case Next::kAwake:
        if constexpr (Server::kElastic) awake();
        return;
      case Next::kReleased:
        return released();
    }
  }

  // The machine keeps the core from the worker for `length`. Whatever is due comes that much later;
  // two stalls at once last as long as one after the other. After the last arrival only a worker
  // with a request can lose anything.
  void stall(Nanos length) {
    const bool idle = context_.idle.has(id_);
    if (idle && context_.all_arrived()) return;
    stalled_until_ = std::max(stalled_until_, now()) + length;
    if (is_parked()) return;  // the core is another's
    stalled_ += length;
    if (context_.trace() != nullptr) context_.trace()->mark(id_, "stalled", now());
    if (idle) {
      end_idling();
      last_poll_ = now();
      stop_idling();
      return schedule(Next::kReleased, free_at_ + length);
    }
    if (running_ != nullptr) postpone_slice(length);
    context_.events.postpone(id_, length);
  }

  // Is the worker the dispatcher, which serves while it has nothing to hand out?
  bool is_dispatcher() const {
    return costs().dispatching.idle == IdleDispatcher::kServes && id_ + 1 == pool_.size();
  }
  // The worker has done something for all between two steps of its own.
  void spend_for_all(Nanos cost) {
    if (running_ == nullptr || cost == Nanos()) return;
    overhead_ += cost;
    postpone_slice(cost);
    context_.events.postpone(id_, cost);
  }

  // ---- Its core, of an elastic server ---------------------------------------------------------

  // What waits at the worker is found by others, or nothing does.
  bool may_park() const {
    if (!kParksWhenEmpty<P>) return true;
    if (context_.polled() && !ring().empty()) return false;
    for (uint32_t d = 0; d < P::kQueues.size(); ++d) {
      if (P::kQueues[d].scope == Scope::kPerWorker && waiting_in({d, id_}) > 0) return false;
    }
    return true;
  }

  // Requests in its ring or its queue are for others. Requires a worker without a request that
  // may_park().
  void park() {
    RUBATO_DCHECK(running_ == nullptr);
    RUBATO_CHECK(may_park());  // what waits where nobody else looks would wait for ever
    host().call_as(id_);
    while (context_.polled() && !ring().empty()) poll();
    if (context_.idle.has(id_)) {
      end_idling();
      idle_ += std::max(free_at_, now()) - free_at_;
    }
    free_at_ = now();
    context_.events.cancel(id_);
    cores().park(id_, now(), costs().cores.park);
    if (context_.hyperthreads.any()) {
      if (std::exchange(serves_, false)) context_.hyperthreads.end(id_, now());
      context_.hyperthreads.leave(id_);
    }
    ++context_.counters.parked;
    pool_.offer_polled();
    if (kOwnQueue && waiting_in(own_queue()) > 0) pool_.offer(own_queue());
  }

  // A parked worker is granted its core, and looks for work after a while.
  void grant(Nanos after) {
    cores().wake(id_, now());
    if (context_.hyperthreads.any()) context_.hyperthreads.place(id_);
    idle_ += now() - free_at_;
    free_at_ = now();
    schedule(Next::kAwake, std::max(now(), stalled_until_) + after);
  }

  // The NIC interrupts the core of a parked worker, which first leaves it if it is about to.
  void interrupt() { grant(cores().leaving_for(id_, now()) + costs().cores.interrupt); }

  // Messages that the server sends besides replies delay the worker's next request.
  void pay_for_messages() {
    const auto messages = static_cast<int64_t>(context_.server.take_messages());
    owe(costs().cores.credit_message * messages);
  }
  void owe(Nanos cost) { debt_ += cost; }
  Nanos take_debt() { return Server::kIdeal ? Nanos() : std::exchange(debt_, Nanos()); }

  // The application says that the request is long.
  void mark_long(SimRequest& request) { core_.mark_long(request, request.priority); }

  // A request waits for which the worker may cut its own, so the next end of a slice matters. Of
  // events at the same time that of the lower source came first. Requires a worker that skips them.
  void stop_skipping() {
    const bool was_before = id_ < context_.source;
    end_skipping(was_before ? now() : now() - Nanos(1));
    schedule_slice();
  }

  // ---- After the run --------------------------------------------------------------------------

  struct Times {
    Nanos useful;    // in requests
    Nanos overhead;  // in prices
    Nanos idle;
    Nanos stalled;
  };
  // Of a run that ended at `end`.
  Times times(Instant end) const {
    const Nanos beyond = std::max(free_at_, end) - end;
    const Nanos stalled_beyond = std::max(stalled_until_, end) - end;
    Times times{useful_, overhead_ - beyond, idle_, std::max(stalled_ - stalled_beyond, Nanos())};
    if (context_.idle.has(id_) || is_parked()) times.idle += std::max(free_at_, end) - free_at_;
    return times;
  }

 private:
  // The meaning of the worker's event.
  enum class Next : uint8_t {
    kFinish,
    kSliceEnd,
    kNotified,
    kSection,
    kChoose,
    kPoll,       // what it has taken in between two requests is there for all,
    kPolled,     // and it comes to it itself
    kPollAtEnd,  // the first of these at the end of a slice
    kPollIdle,   // both in a worker that idles
    kNotice,
    kLook,
    kAsk,
    kAwake,
    kReleased
  };

  static constexpr bool kPreempts = P::kPreempts != Preempts::kNothing;
  static constexpr bool kSkips = Server::kIdeal && kPreempts;
  static constexpr bool kMayBeGiven = kDispatches<P> || kManages<P>;
  static constexpr uint32_t kAll = std::numeric_limits<uint32_t>::max();
  static constexpr bool kOwnQueue = P::kQueues[0].scope == Scope::kPerWorker;

  typename SimContext<P, Server>::Host& host() const { return context_.host; }
  auto& meter() const { return context_.host.meter(); }
  JobQueue& ring() const { return context_.host.queues().ring(id_); }
  uint32_t waiting_in(QueueRef q) const { return context_.host.queues().at(q).depth(); }
  const Prices& costs() const { return context_.costs(); }
  Instant now() const { return context_.now(); }
  CoreAllocation& cores() const { return context_.server.cores(); }

  void schedule(Next next, Instant at) {
    RUBATO_DCHECK(at >= now());
    if constexpr (!Server::kIdeal) {
      ahead_ = Nanos();
      found_ = kAll;
    }
    next_ = next;
    context_.events.schedule(id_, at);
  }

  // A worker asks its ring when its own queue has run dry, and every now and then otherwise.
  bool runs_dry() const { return context_.polled() && waiting_in(own_queue()) == 0; }
  bool polls_first() {
    if (runs_dry()) return true;
    const Costs::Nic& nic = costs().nic;
    if (!context_.polled() || nic.poll_every == Nanos()) return false;
    return ++picks_since_poll_ >= nic.poll_picks || now() - last_poll_ >= nic.poll_every;
  }

  // Takes a burst, of the `first` in the ring. Others see the requests once the poll is over.
  void take_from(JobQueue& ring, uint32_t first) {
    meter().spend(costs().worker.poll);
    const uint32_t most = std::min(costs().nic.burst, first);
    for (uint32_t n = 0; n < most && !ring.empty(); ++n) {
      auto* const request = static_cast<SimRequest*>(ring.take());
      if (costs().latency_from == LatencyFrom::kReception) request->sent = now();
      meter().spend(costs().worker.admit);
      core_.admit(*request);
    }
    read_clock();
  }

  void into_ring(SimRequest& request) {
    if (!ring().put(&request, costs().nic.ring_capacity)) {
      if constexpr (Server::kElastic) return context_.departures.refuse(request, now());
      return context_.departures.lose(request);
    }
    if (found_ != kAll && now() < finds_until_) ++found_;
    if (!context_.idle.has(id_)) return pool_.rings().note_in_ring(id_);
    if (!context_.looks_round()) return static_cast<void>(wake(Nanos()));
    pool_.has_look(id_, now());
  }

  // Of an idle worker's, beside its poll and its looks at queues. One that does not help others
  // does not look at what they do.
  Nanos rest_of_round() const {
    const uint32_t looks = context_.helps() ? pool_.size() : 1;
    return costs().worker.idle_round + costs().worker.idle_round_each * int64_t{looks};
  }

  // What a round takes longer beside workers that do not come to their rings.
  Nanos beside_stuck(Instant at) const {
    const Nanos each = costs().worker.idle_round_stuck;
    return each > Nanos() && context_.helps() ? each * pool_.rings().stuck(at) : Nanos();
  }
  // From when on others may help it; never = it idles.
  Instant stuck_from() const {
    return context_.idle.has(id_) ? Instant::never() : last_poll_ + costs().nic.help_after;
  }

  // An idle worker looks at its ring and its queues, and at those that need help.
  void come_round() {
    if (!context_.goes_round() || !runs_dry() || ring().empty()) return look_around();
    note_idle_poll(now());
    const Nanos ahead = time_to_poll();
    work_for_others(ahead - costs().worker.poll_look);
    next_round_ = free_at_;
    schedule_ahead(Next::kPollIdle, ahead, costs().worker.poll_look);
  }
  // What it polls others may be faster to take.
  void poll_for_all() {
    context_.events.cancel(id_);
    begin_step();
    poll();
    meter().catch_up();
    work_for_others(meter().spent());
    next_round_ = free_at_ + context_.until_idle_looks();
    schedule(Next::kNotice, next_round_);
    pool_.offer_polled();
  }
  void work_for_others(Nanos time) {
    stop_idling();
    free_at_ = free_at_ + time;
    overhead_ += time;
  }
  void look_around() {
    context_.events.cancel(id_);
    const uint64_t moved = host().moved();
    const uint64_t polled = ring().consumed();
    if (!wake(Nanos())) {
      // The policy may be about to give it what it has just polled.
      const bool may_be_given =
          kMayBeGiven && context_.looks_in_step() && ring().consumed() != polled;
      if (!may_be_given) pool_.rings().help_by(*this);
      next_round_ = std::max(now() + round_ + beside_stuck(now()), free_at_);
    }
    if (host().moved() != moved) pool_.offer(own_queue());
    pool_.rings().note_idle(now());
    if (counts_looks_ && context_.idle.has(id_)) pool_.rings().look_on(id_);
  }

  bool wake_at_ring(Nanos after) {
    const uint64_t polled_before = ring().consumed();
    if (runs_dry()) {
      note_idle_poll(now());
    } else if (!context_.looks_in_step()) {
      note_idle_poll(std::max(now(), free_at_));
    }
    if (runs_dry() && !ring().empty()) poll();
    SimRequest* const request = look();
    if (request != nullptr) {
      go_on(*request, after);
    } else if (ring().consumed() != polled_before) {
      has_worked_for_others();
    }
    return request != nullptr;
  }

  // An idle worker has found a request, `after` a while.
  void go_on(SimRequest& request, Nanos after) {
    end_idling();
    if constexpr (Server::kIdeal) {
      idle_ += now() - free_at_;
    } else {
      // Work that is not done yet counted as overhead when it began; to notice is to idle.
      const Nanos still_busy = std::max(free_at_, now()) - now();
      const Nanos pause = std::max(still_busy, after);
      meter().spend(pause);
      overhead_ -= pause;
      idle_ += now() + pause - free_at_;
    }
    if (!begin(request)) choose();
    pool_.offer_polled();
  }
  // An idle worker has polled, and others may have what it found.
  void has_worked_for_others() {
    work_for_others(meter().spent());
    pool_.offer_polled();
  }

  void stop_idling() {
    const Instant free_at = std::max(free_at_, now());
    idle_ += free_at - free_at_;
    free_at_ = free_at;
  }

  // ---- Choice ---------------------------------------------------------------------------------

  // The worker is free at now() and has spent() so far. By readings of the clock it comes to its
  // ring and its queues when that is over, and finds there what has come meanwhile.
  void choose() {
    const Nanos spent = meter().spent();
    if (!counts_readings() || spent == Nanos()) return choose_now(polls_first());
    overhead_ += spent;
    schedule(Next::kChoose, now() + spent);
  }
  // It has left its request, and seems free to others. What it polls they may be faster to take.
  void come_to_ring() {
    seems_busy(false);
    const Nanos ahead = polls_first() ? time_to_poll() : Nanos();
    if (ahead == Nanos()) return choose_now(false);
    overhead_ += ahead;
    schedule_ahead(Next::kPoll, ahead);
  }
  void poll_and_choose() {
    begin_step();
    const uint64_t polled = ring().consumed();
    poll();
    meter().catch_up();
    meter().spend(costs().worker.poll_between);
    if (ring().consumed() == polled) return choose_now(false);
    overhead_ += meter().spent();
    schedule(Next::kPolled, now() + meter().spent());
    pool_.offer_polled();
  }
  void choose_now(bool polls) {
    if (polls) poll_between_requests();
    SimRequest* request = look();
    while (request != nullptr && !begin(*request)) request = look();
    if (request == nullptr) rest();
    has_just_cut_ = false;
    pool_.offer_polled();
  }

  // No worker idles before its ring is empty, even if the requests in there are for others.
  SimRequest* look() {
    SimRequest* request = look_at_queues();
    while (request == nullptr && context_.polled() && !ring().empty()) {
      poll_between_requests();
      request = look_at_queues();
    }
    return request;
  }
  // Others, and the hooks that the poll calls, see a worker that is not busy.
  void poll_between_requests() {
    const bool was_busy = seems_busy(false);
    meter().spend(costs().worker.poll_between);
    poll();
    if (was_busy) seems_busy(true);
  }
  // Was it?
  bool seems_busy(bool busy) {
    BitRing& free = context_.seem_free();
    const bool was_busy = !free.has(id_);
    if (busy && !was_busy) free.remove(id_);
    if (!busy && was_busy) free.add(id_);
    return was_busy;
  }
  void begin_idling() {
    context_.idle.add(id_);
    if constexpr (!Server::kIdeal) seems_busy(false);
  }
  void end_idling() {
    context_.idle.remove(id_);
    if constexpr (!Server::kIdeal) seems_busy(true);
  }
  SimRequest* look_at_queues() {
    const Nanos before = meter().spent();
    SimRequest* const request = context_.looks_in_step() ? next_in_step() : core_.next();
    if (request == nullptr && context_.goes_round()) {
      round_ = costs().worker.poll.typical + (meter().spent() - before) + rest_of_round();
    }
    return request;
  }

  // A policy may count the looks that find nothing, such as those after which a worker is Light.
  [[gnu::noinline]] SimRequest* next_in_step() {
    const auto state = core_.state_bytes();
    SimRequest* const request = core_.next();
    counts_looks_ = request == nullptr && core_.state_bytes() != state;
    return request;
  }

  // The request starts, or goes on, once the worker has paid for its decision. False: the request
  // was refused instead.
  bool begin(SimRequest& request) {
    RUBATO_DCHECK(running_ == nullptr && !context_.idle.has(id_));
    if constexpr (!Server::kIdeal) seems_busy(true);
    if (!Server::kIdeal && is_dispatcher()) meter().spend(busy_dispatching());
    if (!core_.start(request)) {
      pool_.note_refused_a_start();
      if constexpr (kManages<P>) context_.pending_managers.add(group_);
      return false;
    }
    overhead_ += meter().spent();
    running_ = &request;
    if (!Server::kIdeal && context_.hyperthreads.any()) share_core();
    slice_start_ = now() + meter().spent();
    begin_traced_slice();
    if (!Server::kIdeal && !counts_readings()) read_ = served_from_ = slice_start_;
    if (context_.trace() != nullptr && slice_start_ > now()) {
      context_.trace()->span(id_, "overhead", now(), slice_start_);
    }
    finish_at_ = slice_start_ + request.left;
    const Nanos quantum = core_.quantum();
    if (kPreempts) {
      slice_end_ = quantum == Nanos::max() ? Instant::never() : last_reading() + quantum;
    }
    request.last_on = id_;
    schedule_slice();
    return true;
  }

  // ---- Slices ---------------------------------------------------------------------------------

  // The end of the slice is seen late: by the timer core on its next scan, or as late as timers
  // are.
  void schedule_slice() {
    if (!Server::kIdeal) looked_ = Nanos();
    if (costs().preemption.checkpoints > Nanos()) return schedule_checkpoint();
    Instant seen = kPreempts ? slice_end_ : Instant::never();
    if (seen < finish_at_) {
      const bool self = costs().preemption.clock == Clock::kSelf;
      seen = seen + (self ? meter().draw(costs().preemption.overshoot)
                          : context_.timer_core.until_seen());
    }
    const bool cut = seen < finish_at_ && !skips_slices();
    schedule_step(cut ? Next::kSliceEnd : Next::kFinish, cut ? seen : finish_at_);
  }

  // A critical section that begins before the step is the next one; a cut waits for the end of the
  // section that it falls into.
  void schedule_step(Next next, Instant at) {
    has_sections() ? schedule_by_sections(next, at) : schedule(next, at);
  }
  [[gnu::noinline]] void schedule_by_sections(Next next, Instant at) {
    at = std::max(at, section_end_);
    if (at >= finish_at_) {
      next = Next::kFinish;
      at = finish_at_;
    }
    const Nanos work = work_to_section();
    work < at - slice_start_ ? schedule(Next::kSection, slice_start_ + work) : schedule(next, at);
  }

  // At an end of a slice at which nothing waits nothing happens, so it needs no event: until a
  // request is put where the policy would look. On an ideal machine, where such an end costs
  // nothing either.
  bool skips_slices() {
    if (!kSkips) return false;
    if (P::kPreempts == Preempts::kLong && running_->job_class == JobClass::kShort) return false;
    if (somebody_to_cut_for()) return false;
    context_.skips.add(id_);
    return true;
  }
  bool somebody_to_cut_for() const {
    const CutsFor cause = cuts_for(context_.policy);
    if (cause == CutsFor::kAnyQueue) return context_.host.queues().waiting() > 0;
    if (cause == CutsFor::kUnknown) return true;
    for (uint32_t d = 0; d < P::kQueues.size(); ++d) {
      if (P::kQueues[d].scope == Scope::kPerWorker && waiting_in({d, id_}) > 0) return true;
    }
    return false;
  }
  // No end of a slice up to that moment cut anything.
  void end_skipping(Instant until) {
    context_.skips.remove(id_);
    if (slice_end_ > until) return;
    const int64_t ends = (until - slice_end_).count() / core_.quantum().count() + 1;
    context_.counters.preemptions_avoided += static_cast<uint64_t>(ends);
    slice_end_ = slice_end_ + core_.quantum() * ends;
  }

  // The worker looks at some of the request's checkpoints, also where its slice has no end; there
  // is none at its very end.
  void schedule_checkpoint() {
    const Costs::Preemption& price = costs().preemption;
    const bool to_section = has_sections() && work_to_section() < running_->left;
    const Nanos left = to_section ? work_to_section() : running_->left;
    const bool ends = slice_end_ != Instant::never();
    Instant last_look = read_;
    int64_t stride = ends ? 0 : sched::kFirstRareStride;
    for (Nanos work = first_look(price.checkpoints * (stride + 1)); work < left;
         work += price.checkpoints * (stride + 1)) {
      const Instant at = slice_start_ + work + looked_;
      const Instant reading = at + costs().worker.read_clock;
      if (reading >= slice_end_) {
        looked_ += costs().preemption.receive_read;
        return schedule(Next::kSliceEnd, at + costs().preemption.receive_read);
      }
      const int64_t each_ns = sched::per_checkpoint(reading - last_look, stride);
      stride = ends ? sched::look_stride(slice_end_ - reading, each_ns)
                    : sched::rare_look_stride(each_ns);
      last_look = reading;
      looked_ += meter().draw(price.check, price.check_spread);
    }
    finish_at_ = slice_start_ + left + looked_;
    schedule(to_section ? Next::kSection : Next::kFinish, finish_at_);
  }
  // After so much work, or that much after the critical section that the slice begins with: at its
  // end already if the slice is over by then.
  Nanos first_look(Nanos work) const {
    if (!has_sections() || section_end_ <= slice_start_) return work;
    const Nanos in_section = section_end_ - slice_start_;
    return section_end_ >= slice_end_ ? in_section : in_section + work;
  }

  // ---- Critical sections ----------------------------------------------------------------------

  bool has_sections() const { return !Server::kIdeal && costs().critical_sections.count > 0; }
  // From the beginning of the slice; without end after the last one.
  Nanos work_to_section() const {
    const Prices::CriticalSections& sections = costs().critical_sections;
    const SimRequest& request = *running_;
    if (request.sections == sections.count) return Nanos::max();
    const Nanos done = request.service - request.left;
    return section_start(sections, request.service, request.sections) - done;
  }

  // The slice goes on in the section, once the worker has the lock.
  [[gnu::noinline]] void come_to_section() {
    SimRequest& request = *running_;
    const Prices::CriticalSections& sections = costs().critical_sections;
    SectionLock& lock = context_.section_lock;
    const bool yields = sections.lock == Lock::kYield && request.job_class == JobClass::kLong &&
                        lock.is_taken(now());
    if (yields && !std::exchange(request.has_yielded, true)) return yield_for_lock();
    counts_readings() ? count_work(request) : leave_slice(request);
    const Nanos length = section_length(sections, request.service);
    slice_start_ = now();
    if (sections.lock != Lock::kNone) {
      slice_start_ = lock.take(id_, now(), length, costs().worker.shared_line);
    }
    overhead_ += slice_start_ - now();
    if (!counts_readings()) read_ = served_from_ = slice_start_;
    request.has_yielded = false;
    ++request.sections;
    section_end_ = slice_start_ + length;
    finish_at_ = slice_start_ + request.left;
    notice_at_ == Instant::never() ? schedule_slice() : schedule_notice();
  }

  // Once per section: two that wait would else take turns without end, where that is for free.
  void yield_for_lock() {
    context_.section_lock.note_yield();
    host().call_as(id_);
    read_clock();
    feel_late_notice();
    SimRequest* const request = std::exchange(running_, nullptr);
    leave_slice(*request);
    ++context_.suspended;
    trace_slice(*request, Trace::End::kPreempted);
    core_.wait_for_lock(*request, false);
    meter().spend(costs().worker.fresh_fiber);
    has_just_cut_ = true;
    choose();
    pool_.offer_polled();
  }

  // ---- Ends of requests and slices ------------------------------------------------------------

  void finish() {
    if (!Server::kIdeal) feel_late_notice();
    SimRequest* const request = std::exchange(running_, nullptr);
    RUBATO_DCHECK(request != nullptr && worked() == request->left);
    if (kSkips && context_.skips.has(id_)) end_skipping(finish_at_ - Nanos(1));
    useful_ += worked();
    overhead_ += looked();
    trace_slice(*request, Trace::End::kFinished);
    host().call_as(id_);
    core_.finish(*request, counts_readings() ? counted(*request) : request->service, Nanos());
    context_.pool.give_back(request);
    if constexpr (Server::kElastic) {
      if (cores().leaving(id_) && may_park()) return park();
    }
    wait_for_dispatcher(costs().dispatching.completion);
    choose();
  }

  void come_to_slice_end() {
    const bool polls = counts_readings() && context_.polled() && !ring().empty() &&
                       costs().preemption.clock == Clock::kSelf;
    const Nanos ahead = polls ? time_to_poll() : Nanos();
    if (ahead == Nanos()) return slice_end();
    looked_ += ahead;
    schedule_ahead(Next::kPollAtEnd, ahead);
  }
  // Until what a poll takes in is in the queues.
  Nanos time_to_poll() const {
    const auto taken = static_cast<int64_t>(std::min(costs().nic.burst, ring().depth()));
    return costs().worker.poll.typical + costs().worker.admit * taken;
  }
  // A step that polls, began `since` ago, and of which others see something `ahead` after that.
  // What comes to the ring between its look there and then waits for the next poll.
  void schedule_ahead(Next next, Nanos ahead, Nanos since = Nanos()) {
    schedule(next, now() + ahead - since);
    ahead_ = ahead;
    found_ = ring().depth();
    finds_until_ = now() + costs().worker.poll_look - since;
  }
  void begin_step() {
    host().call_as(id_);
    meter().begin_before(std::exchange(ahead_, Nanos()));
  }

  // The end of the slice is seen by the worker itself, in its timer's interrupt, or by the timer
  // core, which the worker does not feel unless it is notified.
  void slice_end() {
    SimRequest& request = *running_;
    const bool self = costs().preemption.clock == Clock::kSelf;
    host().call_as(self ? id_ : SimContext<P, Server>::Host::kCentralCaller);
    const Nanos ahead = std::exchange(ahead_, Nanos());
    meter().begin_before(ahead);
    // By readings: a part of the price is paid, and the next slice begins with the poll's reading.
    const bool late = counts_readings();
    const Nanos receive = self ? meter().draw(costs().preemption.receive) : Nanos();
    if (!late) meter().spend(receive);
    read_clock();
    const bool leaves = core_.expire(request, counted(request) - ahead - since_seen());
    meter().catch_up();
    if (late) meter().spend(std::max(Nanos(), receive - costs().preemption.receive_read));
    if (request.cancelled) [[unlikely]] return end_cancelled(request);
    if (leaves || is_always_cut()) return self ? preempt() : notify();
    ++context_.counters.preemptions_avoided;
    if (!Server::kIdeal) ++avoided_;
    slice_end_ = now() + core_.quantum();
    if (self) {
      meter().spend(costs().preemption.done);
      const Nanos lost = meter().spent();
      overhead_ += lost;
      late ? count_work(request) : leave_slice(request);
      slice_start_ = now() + lost;
      if (!late) read_ = served_from_ = slice_start_;
      slice_end_ = last_reading() + core_.quantum();
      finish_at_ = slice_start_ + request.left;
    }
    schedule_slice();
    pool_.offer_polled();
  }

  // Its slice is over, and nobody wants the rest.
  void end_cancelled(SimRequest& request) {
    request.left = worked();
    request.service = request.attained + request.left;
    finish();
  }

  void notify() {
    const Costs::Preemption& price = costs().preemption;
    const Nanos send = meter().draw(price.send);
    const Instant sent = price.clock == Clock::kDispatcher
                             ? pool_.dispatch(now(), send)
                             : context_.timer_core.occupy(now(), send);
    notice_at_ = sent + meter().draw(price.propagation);
    slice_end_ = Instant::never();
    schedule_notice();
  }
  void schedule_notice() {
    const bool late = notice_at_ >= finish_at_;
    schedule_step(late ? Next::kFinish : Next::kNotified, late ? finish_at_ : notice_at_);
  }
  // One that comes after the request is done, or has left, interrupts the next request.
  void feel_late_notice() {
    if (std::exchange(notice_at_, Instant::never()) == Instant::never()) return;
    context_.timer_core.note_late();
    owe(costs().preemption.receive.typical + costs().preemption.done.typical);
  }

  // The request goes back, and the worker chooses again; others may be faster to find it. If its
  // queue is full it keeps the worker for another slice.
  void preempt() {
    SimRequest* const request = std::exchange(running_, nullptr);
    leave_slice(*request);
    ++context_.suspended;
    trace_slice(*request, Trace::End::kPreempted);
    const std::optional<QueueRef> q = core_.requeue(*request);
    if (!q) return choose();
    SchedulerCounters& counters = context_.counters;
    ++counters.preemptions;
    if (P::kQueues[q->declaration].scope == Scope::kGlobal) {
      counters.wait_queue_max = std::max<uint64_t>(counters.wait_queue_max, waiting_in(*q));
    }
    meter().spend(costs().worker.fresh_fiber);
    wait_for_dispatcher(costs().dispatching.put_back);
    has_just_cut_ = true;
    choose();
    pool_.offer(*q);
    pool_.offer_polled();
  }

  // The dispatcher has work with the request that has left the worker. It gives one out of a queue
  // that all share only then.
  void wait_for_dispatcher(Nanos work) {
    if (kManages<P> || work == Nanos()) return;
    const Instant ready = now() + meter().spent();
    const Instant done = pool_.dispatch(ready, work);
    if constexpr (!kOwnQueue && !kDispatches<P>) meter().spend(done - ready);
  }

  // A dispatcher cuts others only.
  bool is_always_cut() const {
    return costs().preemption.cuts == Cuts::kAll && !is_dispatcher();
  }
  Nanos busy_dispatching() const {
    const Instant ready = now() + meter().spent();
    return std::max(context_.dispatcher.free_at(), ready) - ready;
  }

  // On an ideal machine, where the two are the same, only the slice is kept.
  Instant last_reading() const { return Server::kIdeal ? slice_start_ : read_; }

  // What the request has done since its slice began.
  Nanos worked() const { return now() - slice_start_ - looked(); }
  Nanos looked() const { return Server::kIdeal ? Nanos() : looked_; }
  // Its service as the worker counts it.
  Nanos counted(const SimRequest& request) const {
    return request.attained + (counts_readings() ? now() - served_from_ : worked());
  }

  // A live worker asks the policy with the service at the reading that saw the end of the slice,
  // from before it polled.
  Nanos since_seen() const {
    if (!counts_readings()) return {};
    return std::max(Nanos(), costs().preemption.receive_read - costs().worker.read_clock);
  }

  void count_work(SimRequest& request) {
    useful_ += worked();
    overhead_ += looked();
    request.left -= worked();
  }
  void leave_slice(SimRequest& request) {
    request.attained += counts_readings() ? read_ - served_from_ : worked();
    count_work(request);
  }

  void postpone_slice(Nanos length) {
    slice_start_ = slice_start_ + length;
    if (!Server::kIdeal) traced_from_ = traced_from_ + length;
    served_from_ = served_from_ + length;
    read_ = read_ + length;
    finish_at_ = finish_at_ + length;
    section_end_ = section_end_ + length;
    if (notice_at_ != Instant::never()) notice_at_ = notice_at_ + length;
    if (slice_end_ != Instant::never()) slice_end_ = slice_end_ + length;
  }

  // Of the request's time on the worker: the end of a quantum at which it goes on is in it.
  void begin_traced_slice() {
    if (Server::kIdeal) return;
    traced_from_ = slice_start_;
    avoided_ = 0;
  }

  void trace_slice(const SimRequest& request, Trace::End end) const {
    if (context_.trace() == nullptr) return;
    context_.trace()->slice(id_, {request.id, request.true_type, request.arrived, avoided_},
                            traced_from_, now(), end);
  }

  // ---- Its core -------------------------------------------------------------------------------

  bool is_parked() const {
    if constexpr (Server::kElastic) return cores().state(id_) == CoreAllocation::State::kParked;
    return false;
  }
  // An idle worker is asked whether it goes on polling.
  void ask() {
    if (may_park() && (cores().leaving(id_) || cores().parks_now(id_, now()))) return park();
    schedule(Next::kAsk, now() + CoreAllocation::kAskAgain);
  }

  // ---- Its sibling, of a worker that shares its core ------------------------------------------

  void share_core() {
    if (!std::exchange(serves_, true)) context_.hyperthreads.begin(id_, now());
    lost_before_ = context_.hyperthreads.lost(id_, now());
  }
  // Whatever is due comes later by what the worker has lost since it was last due; slices are of
  // work. While that is made up it loses again, a part of it.
  bool loses_to_sibling() {
    if (running_ == nullptr) return false;
    const Nanos lost = context_.hyperthreads.lost(id_, now());
    const Nanos since = lost - std::exchange(lost_before_, lost);
    spend_for_all(since);
    return since > Nanos();
  }

  // The worker has its core again after it was parked.
  void awake() {
    overhead_ += now() - free_at_;
    cores().polls(id_, now());
    host().call_as(id_);
    choose();
  }

  // The stall of a worker that was idle is over.
  void released() {
    free_at_ = now();
    if constexpr (Server::kElastic) {
      if (cores().leaving(id_) && may_park()) return park();
    }
    host().call_as(id_);
    choose();
    context_.dispatcher.look_free_of_charge(context_.idle.has(id_));
  }

  SimContext<P, Server>& context_;
  WorkerPool<P, Server>& pool_;
  const uint32_t id_;
  const ManagerId group_;
  Next next_ = Next::kFinish;
  bool has_just_cut_ = false;                // and looks for the next request
  bool counts_looks_ = false;                // its last look has changed its policy's state
  bool serves_ = false;                      // on a core that it shares
  SimRequest* running_ = nullptr;
  Instant slice_start_;                      // when the request began to run
  Instant finish_at_;                        // when it will be done if it is not cut
  Instant free_at_;                          // of an idle worker: when its last work is done
  Nanos useful_;
  Nanos idle_;                               // but for the pause it may be in
  Instant slice_end_ = Instant::never();
  // Up to here, and to the policy's state, is what a request touches on an ideal machine: three
  // lines at most.
  sched::Core<P, SimPlatform<P, Server>> core_;

  Nanos overhead_;
  Nanos looked_;                             // of this slice, at checkpoints
  Instant notice_at_ = Instant::never();     // when the worker will be told that its slice is over
  Instant section_end_;                      // of the critical section that was entered last
  Instant read_;                             // when the worker read its clock last
  Instant served_from_;                      // the reading from which the request's service counts
  Instant next_round_;                       // of an idle worker that goes round; and how long one
  Nanos round_{1};                           // takes
  Nanos debt_;                               // interrupts that came too late, messages: paid before
                                             // the next request
  Nanos ahead_;                              // of a step: it began so much before its event
  uint32_t found_ = kAll;                    // in the ring when it looks
  Instant finds_until_;                      // and when that is
  Instant last_poll_;
  uint32_t picks_since_poll_ = 0;
  Nanos lost_before_;                        // to its sibling, as it was counted last
  Instant traced_from_;                      // when the slice began, of a trace
  uint32_t avoided_ = 0;                     // in that slice
  Nanos stalled_;
  Instant stalled_until_;                    // end of the last stall
};

}  // namespace rubato::sim
