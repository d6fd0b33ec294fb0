// SPDX-License-Identifier: Apache-2.0
//
// SliceClock: tells when the running request's slice ends. One per worker. Its watcher is chosen at
// start:
//   * self: the worker looks at the clock at checkpoints. It does so after a stride of checkpoints,
//     fitted to their measured distance.
//   * timer core: the worker publishes each slice in a slot on a cache line of its own, the timer
//     core compares deadlines and, when the policy agrees, asks for the preemption by writing the
//     slice's number and the worker's checkpoint budget (Synergy 5.1.3).
//   * interrupts: published in the same way, but the preemption is requested through
//     mechanism/preempt/state.h, and an interrupt follows, sent by the timer core or a timer of the
//     worker's own.
//   * nobody: slices have no end.
// With every watcher the worker comes to the slow path of a checkpoint every now and then, after a
// stride fitted in the same way, so that a running request learns that its reply is not wanted any
// more. The worker's calls come from its thread; the timer core uses TimerSlot only.
//
// Ordering: `armed` is stored with release after deadline and job and loaded with acquire by the
// timer core. `asked` is stored with release and loaded with acquire by the worker; it names the
// slice, so a request that comes too late names a past slice and is ignored. The budget store can
// be lost against the worker's own decrement, in a tight loop nearly always: each decrement there
// takes the word from the store buffer, which still holds the decrement before, and the timer
// core's store in between goes unseen. Repeating it does not help. So the worker also looks at
// `asked` by itself every kLooksAfter checkpoints, and no request for preemption is lost.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"
#include "mechanism/preempt/checkpoint.h"
#include "mechanism/preempt/state.h"
#include "runtime/published_job.h"
#include "sched/look_stride.h"

namespace rubato {

struct alignas(limits::kCacheLineBytes) TimerSlot {
  std::atomic<uint64_t> armed{0};  // number of the running slice, 0 = none
  std::atomic<uint64_t> asked{0};  // number of the slice that shall end
  std::atomic<int64_t> deadline_ns{0};
  std::atomic<int64_t> quantum_ns{0};
  std::atomic<int32_t*> budget{nullptr};
  PreemptState state;  // with interrupts, instead of the first two
  PublishedJob job;
};
static_assert(sizeof(TimerSlot) == 2 * limits::kCacheLineBytes);

enum class SliceWatch : uint8_t { kSelf, kTimerCore, kInterrupts, kNobody };

class SliceClock {
 public:
  explicit SliceClock(SliceWatch watch) : watch_(watch) {}

  // Called on the worker's own thread, before its first slice.
  void attach() { slot_.budget.store(checkpoint_budget_address(), std::memory_order_relaxed); }

  // A slice of the job starts; the job has been served for `attained` by now. Nanos::max() = the
  // slice never ends.
  void start(Instant now, Nanos quantum, const Job& job, Nanos attained) {
    if (quantum == Nanos::max() || watch_ == SliceWatch::kNobody) return start_without_end(now);
    quantum_ = quantum;
    watch_until(now + quantum, now, job, attained);
  }

  // Starts a slice that has no end.
  void start_without_end(Instant now) {
    stop();
    look_after(sched::kFirstRareStride, now);
  }

  // The slice goes on, to `end`. Requires that a slice was started.
  void extend(Instant end, Instant now, const Job& job, Nanos attained) {
    RUBATO_DCHECK(end_ != Instant::never());
    watch_until(end, now, job, attained);
  }

  // No slice runs.
  [[gnu::always_inline]] void stop() {
    end_ = Instant::never();
    if (watch_ == SliceWatch::kTimerCore) slot_.armed.store(0, std::memory_order_release);
    if (watch_ == SliceWatch::kInterrupts) slot_.state.stop();
    checkpoint_budget_set(kCheckpointNever);
  }

  // Called when the budget is used up: true if the slice is over. If not, the next look is
  // scheduled.
  bool over(Instant now) {
    if (watch_ == SliceWatch::kTimerCore && end_ != Instant::never()) return asked_to_end();
    if (watch_ == SliceWatch::kInterrupts && slot_.state.take()) return true;
    if (watch_ == SliceWatch::kSelf && now >= end_) return true;
    schedule_look(now);
    return false;
  }

  Nanos quantum() const { return quantum_; }
  Instant end() const { return end_; }
  // The same; for a slice that a timer core has renewed, its latest end.
  Instant due() const {
    const bool published = watch_ == SliceWatch::kTimerCore || watch_ == SliceWatch::kInterrupts;
    return published ? Instant(slot_.deadline_ns.load(std::memory_order_relaxed)) : end_;
  }
  TimerSlot& slot() { return slot_; }

 private:
  static constexpr int32_t kLooksAfter = 64;

  void watch_until(Instant end, Instant now, const Job& job, Nanos attained) {
    end_ = end;
    if (watch_ == SliceWatch::kSelf) {
      look_after(0, now);
    } else {
      publish(now, job, attained);
      look_after(sched::kFirstRareStride, now);
    }
  }

  void publish(Instant now, const Job& job, Nanos attained) {
    slot_.deadline_ns.store(end_.ns(), std::memory_order_relaxed);
    slot_.quantum_ns.store(quantum_.count(), std::memory_order_relaxed);
    slot_.job.store(now, job, attained);
    if (watch_ == SliceWatch::kTimerCore) {
      slot_.armed.store(++slice_, std::memory_order_release);
    } else {
      slot_.state.start();
    }
  }

  bool asked_to_end() {
    if (slot_.asked.load(std::memory_order_acquire) == slice_) return true;
    checkpoint_budget_set(kLooksAfter);
    return false;
  }

  void schedule_look(Instant now) {
    const int64_t each_ns = sched::per_checkpoint(now - last_look_, stride_);
    const bool rarely = watch_ != SliceWatch::kSelf || end_ == Instant::never();
    look_after(
        rarely ? sched::rare_look_stride(each_ns) : sched::look_stride(end_ - now, each_ns), now);
  }

  void look_after(int64_t stride, Instant now) {
    stride_ = stride;
    last_look_ = now;
    checkpoint_budget_set(static_cast<int32_t>(stride));
  }

  const SliceWatch watch_;
  Nanos quantum_ = Nanos::max();
  Instant end_ = Instant::never();
  Instant last_look_;
  int64_t stride_ = 0;
  uint64_t slice_ = 0;
  TimerSlot slot_;
};

}  // namespace rubato
