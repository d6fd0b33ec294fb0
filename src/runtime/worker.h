// SPDX-License-Identifier: Apache-2.0
//
// LiveWorker<P>: one worker thread of the live host. It takes bursts from its datapath queue,
// routes them, asks the policy for the next job and runs it on a reused fiber (Synergy 5.2.2):
//
//   * short requests run on the fiber that called recv(), no switch at all;
//   * a preempted request keeps its fiber; the worker goes on with a parked or a new one, and that
//     one publishes the request, so nobody can resume it before it has been left;
//   * resuming switches straight into the request's fiber; the loop fiber that did it is parked
//     inside recv() and used again later, perhaps by another worker;
//   * where requests can be interrupted at any instruction, every loop fiber has an identity
//     (mechanism/preempt/identity.h), and the worker becomes it before it switches there;
//   * with checkpoints, the fibers of a worker share one, and a request that is left half-way
//     through code that knows nothing of fibers, because it waits or a section has ended, keeps it
//     until the next checkpoint or its end; the worker goes on by another.
//
// Everything here runs on the worker's thread, except the const accessors named "any thread".
// Members that may switch end by looking the worker up again: `this` may be another one afterwards.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "mechanism/clock/clock.h"
#include "mechanism/clock/cpu_loss.h"
#include "mechanism/cpu/pin.h"
#include "mechanism/cpu/relax.h"
#include "mechanism/preempt/identity.h"
#include "mechanism/preempt/interposed.h"
#include "mechanism/preempt/mechanism.h"
#include "mechanism/preempt/timer.h"
#include "policy/archetype.h"
#include "runtime/arrival_slots.h"
#include "runtime/idling.h"
#include "runtime/live_platform.h"
#include "runtime/seat.h"
#include "runtime/shared.h"
#include "runtime/slice_clock.h"
#include "runtime/worker_stats.h"

namespace rubato {

template <Policy P>
class LiveWorker final : public Seat, private InterruptTarget {
 public:
  LiveWorker(Shared<P>& shared, WorkerId id, uint64_t seed)
      : Seat(id),
        shared_(shared),
        id_(id),
        host_(shared.queues, shared.plan, hook::initial_plan(shared.policy),
              shared.options.workers, shared.worker_stats, shared.commons, seed),
        datapath_(shared.datapath.queue(id)),
        control_(*shared.control[id.value]),
        arrivals_(shared.options.record_arrivals ? std::make_unique<ArrivalSlots>() : nullptr),
        asynchronous_(is_asynchronous(shared.options.preempt)),
        slice_(slice_watch(shared.options)),
        idling_(shared.options.idle, shared.options.idle_spin),
        core_(shared.policy, core_options(shared.options), LivePlatform<P>(*this)) {}

  // The thread's main function: returns when the runtime has stopped. detach() when nobody
  // interrupts it any more.
  void run();
  void detach();

  Request* recv() override { return recv_here(); }
  void send(Request& request) override;
  bool checkpoint_slow(bool half_way) override;
  bool yield_for_lock() override;
  void long_begin(uint8_t priority) override;
  void long_end() override;
  FiberLocals& locals() override { return running_->locals; }

  // Any thread.
  const WorkerStats& stats() const { return stats_; }
  const LiveHost<P>& host() const { return host_; }
  ArrivalSlots* arrivals() const { return arrivals_.get(); }  // null = they are not recorded
  TimerSlot& timer_slot() { return slice_.slot(); }
  void interrupt() { line_->send(); }  // after its slice was seen armed

  // Set once by the runtime before the threads start.
  std::vector<LiveWorker*> others;

 private:
  friend class LivePlatform<P>;

  static constexpr uint32_t kPicksPerPoll = 32;
  static constexpr Nanos kPollInterval = Nanos::micros(50);
  // The longest sleep: while a worker is stuck, and otherwise.
  static constexpr Nanos kWatchfulSleep = Nanos::millis(2);
  static constexpr Nanos kQuietSleep = Nanos::millis(250);
  static constexpr size_t kParkedHere = 16;
  // Between two tries to preempt a request where it must not be left.
  static constexpr Nanos kRetryFirst = Nanos::micros(50);
  static constexpr Nanos kRetryMost = Nanos::millis(1);
  // A request that does not end where it was told to is told again after so many checkpoints.
  static constexpr int32_t kTellAgain = 64;
  // How often a running request is looked up at its client's end of the connection.
  static constexpr Nanos kClientLook = Nanos::millis(1);
  // Beyond so much a slice that ended late, or a request that went on, may have lost its CPU.
  static constexpr Nanos kSuspicious = Nanos::micros(100);
  // A timer so little early, or so little late for a new slice, is left as it is.
  static constexpr Nanos kTimerSlack = Nanos::micros(2);

  static LiveWorker& here() { return static_cast<LiveWorker&>(*this_seat()); }
  static void fiber_main(void* argument);
  static Request* recv_here();

  uint32_t own_lane() const { return shared_.arrival_lane(id_); }

  Instant step() {
    const Instant at = now();
    host_.set_now(at);
    return at;
  }

  static SliceWatch slice_watch(const RuntimeOptions& options) {
    if (options.preempt == PreemptMechanism::kNone) return SliceWatch::kNobody;
    if (is_asynchronous(options.preempt)) return SliceWatch::kInterrupts;
    return options.preemption_clock == PreemptionClock::kSelf ? SliceWatch::kSelf
                                                              : SliceWatch::kTimerCore;
  }

  static sched::CoreOptions core_options(const RuntimeOptions& options) {
    sched::CoreOptions core{.classify = options.classify, .shedding = {}};
    if (options.sheds()) core.shedding = options.shedding;
    return core;
  }

  // Arrivals.
  void poll_if_due();
  void take_in();
  uint32_t ingest(DatapathQueue& from);
  void queued(QueueRef q);
  void call_for_help();
  void wake_pushed() {
    host_.take_pushed([this](WorkerId worker) { shared_.wake(worker); });
  }

  // Slices and replies.
  void take_up(Request& request);
  void slice_over(bool half_way = false);
  bool is_to_end(Request& request, bool half_way);
  bool slice_was_lost();
  Nanos attained(const Request& request) const;
  Nanos service_of(const Request& request) const {
    return current_ == &request ? attained(request) : request.attained;
  }
  Nanos take_loss(Nanos time);
  Nanos end_slice(const Request& request, Instant at);
  void note_finished(const Request& request);
  sched::Replied<Request> reply(Request& request);

  // Fibers.
  void preempt(Instant at, bool half_way);
  void resume(Request& request);
  LoopFiber* take_fiber();
  void leave_request(LoopFiber* to, Instant at);
  void become(LoopFiber* from, const LoopFiber* to);
  bool shares_identity() const { return identity_ != nullptr; }
  bool keep_identity();
  void share_identity_again();
  void switch_fibers(Fiber& from, Fiber& to);
  void after_switch();

  // Interrupts, and the way back into the application.
  void attach();
  void interrupted(uintptr_t pc) override;
  void timer_went_off();
  void look_at_timer(bool counts);
  void put_off();
  void arm_timer();
  static void back_to_application(bool ended = false);
  void back_from_here();
  static void back_to_interruptible(bool may_leave);

  // Idleness and the end.
  bool stopping();
  Request* idle();
  void help_stuck();
  uint32_t take_over(WorkerId stuck);
  uint32_t take_over(QueueRef theirs, QueueRef mine);
  Request* park();
  Request* last_look();
  void fall_asleep();
  Nanos watch_stuck();
  void wake_next();
  void note_polled() { stats_.polled_ns.store(host_.now().ns(), std::memory_order_relaxed); }
  void note_sleep() {
    stats_.polled_ns.store(WorkerStats::kAsleep, std::memory_order_relaxed);
    stats_.asleep_since_ns.store(now().ns(), std::memory_order_relaxed);
  }
  void note_awake() {
    const Instant since(stats_.asleep_since_ns.exchange(0, std::memory_order_relaxed));
    const Instant at = step();
    stats_.asleep_ns += static_cast<uint64_t>((at - since).count());
    loss_.slept(since, at);
    note_polled();
  }

  // Cores that come and go.
  void found_work();
  Request* idle_without_end(Instant at);
  Request* park_core();
  void look_after_minded();
  void mind_parked();

  Shared<P>& shared_;
  WorkerId id_;
  LiveHost<P> host_;
  DatapathQueue& datapath_;
  StealQueue<Job*>& control_;
  const std::unique_ptr<ArrivalSlots> arrivals_;
  const bool asynchronous_;
  SliceClock slice_;
  Idling idling_;
  sched::Core<P, LivePlatform<P>> core_;
  RecentSlices recent_;
  WorkerStats stats_;

  Instant slice_start_;
  CpuLoss loss_;
  Nanos lost_;  // of the time since slice_start_, this thread had no CPU
  Instant last_poll_;
  Instant last_client_look_;
  Instant workless_since_ = Instant::never();  // of a worker whose core is not guaranteed
  std::vector<DatapathQueue*> minded_;         // they end its sleep as its own does
  std::vector<LiveWorker*> watched_;           // stuck workers among those
  uint32_t next_minded_ = 0;
  uint32_t picks_since_poll_ = 0;
  uint32_t queued_ = 0;       // requests of the last poll, or that followed one of theirs
  bool called_help_ = false;  // for those
  bool woken_ = false;        // and has not found anything to do yet

  Fiber thread_fiber_{};
  LoopFiber* running_ = nullptr;
  std::vector<LoopFiber*> parked_;    // suspended inside recv()
  Request* publish_ = nullptr;        // done by the fiber switched to: put this back
  bool publish_yielded_ = false;      // it waits for a lock
  LoopFiber* shelve_ = nullptr;       // done by the fiber switched to: park this for everybody

  uintptr_t own_thread_pointer_ = 0;
  std::unique_ptr<Identity> identity_;    // of the fibers that have none; null = the thread's own
  std::unique_ptr<InterruptLine> line_;   // null unless asynchronous
  std::unique_ptr<WorkerTimer> timer_;    // null unless it is its own clock
  Instant timer_expiry_ = Instant::never();  // never = it is not armed
  Nanos retry_ = kRetryFirst;
  std::atomic<bool> timer_fired_{false};  // while the runtime was at work; handler and worker
};

}  // namespace rubato

#include "runtime/worker_cores.h"
#include "runtime/worker_fibers.h"
#include "runtime/worker_idle.h"
#include "runtime/worker_interrupts.h"
#include "runtime/worker_slices.h"
