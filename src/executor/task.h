// SPDX-License-Identifier: Apache-2.0
//
// Task: a request without a connection: a closure that a worker runs. A program hands tasks to an
// Executor (executor/executor.h); the scheduler treats them like any other request.
//
// A task has one owner at a time: who has reserved it, the queue that holds it, the worker that
// runs it. Its end is told once, by `done`.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include "base/limits.h"
#include "datapath/request.h"
#include "mechanism/queue/free_list.h"
#include "runtime/waiter.h"

namespace rubato {

enum class TaskOutcome : uint8_t {
  kFinished,
  kFailed,     // the closure has said so
  kRefused,    // it was not started: the queues are full, it waited too long, or a stop
  kExpired,    // its deadline has passed: it was not started, or told to end
  kCancelled,  // as the one before, by a Cancellation, or by a stop that does not wait any more
};

// The outcome of a task that was refused, or told to end.
constexpr TaskOutcome outcome_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::kAbandoned: return TaskOutcome::kCancelled;
    case Refusal::kExpired: return TaskOutcome::kExpired;
    case Refusal::kFull:
    case Refusal::kDelay:
    case Refusal::kShare:
    case Refusal::kLimit: break;
  }
  return TaskOutcome::kRefused;
}

// Tells any number of tasks that their results are not wanted any more. Shared by its maker and
// those tasks; the last of them frees it. Any thread.
class Cancellation {
 public:
  // A wait that begins meanwhile sees the state, or is found in the list, whose lock orders the
  // two.
  void cancel() {
    state_.store(ClientState::kGone, std::memory_order_relaxed);
    waits_.cancel();
  }
  bool is_cancelled() const {
    return state_.load(std::memory_order_relaxed) == ClientState::kGone;
  }
  // To Request::client.
  const std::atomic<ClientState>& state() const { return state_; }
  CancelList& waits() { return waits_; }

  void share() { sharers_.fetch_add(1, std::memory_order_relaxed); }
  // The release of each sharer pairs with the acquire of the last.
  void leave() {
    if (sharers_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  ~Cancellation() = default;

  std::atomic<ClientState> state_{ClientState::kOpen};
  std::atomic<uint32_t> sharers_{1};
  CancelList waits_;  // of those tasks
};

struct Task : Request {
  static constexpr size_t kClosureBytes = size_t{2} * limits::kCacheLineBytes;

  // Runs the closure; anything but zero: it has failed. On a fiber, so it may switch.
  using Run = int (*)(void* closure);
  // Destroys the closure and tells its owner. `retry_after_ns` is 0 or, after an overload, the time
  // before which a retry is useless. On a worker, not always on a fiber, or on the thread that
  // destroys the executor; brief.
  using Done = void (*)(void* closure, int outcome, int64_t retry_after_ns);

  Cancellation* cancellation = nullptr;
  uint64_t trace = 0;
  // One cache line of all that the usual submission reads and writes.
  alignas(limits::kCacheLineBytes) Run run = nullptr;
  Done done = nullptr;  // null = there is nobody to tell, or he was told
  void* argument = nullptr;  // what both are given: `closure`, or memory of the submitter's
  Task* next_in_list = nullptr;
  uint64_t submitted_cycles = 0;  // by Clock::cycles(); who polls the task makes `arrived` of it
  FreeLink<> free_link;       // the pool's
  bool beyond_bound = false;  // the pool's
  alignas(limits::kCacheLineBytes) std::byte closure[kClosureBytes];

  Task() { renew(); }
  // Forgets the task that this one was. Who is through with a task does so, not who submits the
  // next one.
  void renew();

  // Tells the end, once.
  void tell(TaskOutcome outcome, Nanos wait = {}) {
    if (const Done teller = std::exchange(done, nullptr)) {
      teller(argument, static_cast<int>(outcome), wait.count());
    }
  }
  // No worker looks at the task any more.
  void end(TaskOutcome outcome, Nanos wait = {}) {
    tell(outcome, wait);
    if (Cancellation* shared = std::exchange(cancellation, nullptr)) shared->leave();
  }
};

// Null unless the request is a task.
Task* as_task(Request* request);

}  // namespace rubato
