// SPDX-License-Identifier: Apache-2.0
//
// Runtime: the live host. It runs an Application's requests from a Datapath on worker threads under
// one policy, chosen by name. Create, run (blocks), stop from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "datapath/datapath.h"
#include "metrics/histogram.h"
#include "overload/cores/contract.h"
#include "overload/limiter.h"
#include "policy/explanation.h"
#include "runtime/app.h"
#include "runtime/blocked_pairs.h"
#include "runtime/arrival_slots.h"
#include "runtime/request_ring.h"
#include "runtime/live_settings.h"
#include "runtime/options.h"
#include "runtime/trace_ring.h"

namespace rubato {

class Waits;

// Sums over all workers since the start.
struct RuntimeStats {
  uint64_t requests = 0;
  uint64_t refused = 0;  // including those that a CreditSource refused
  std::array<std::array<uint64_t, 2>, kRefusals> refusals{};  // by Refusal and JobClass
  uint64_t cancelled = 0;   // started, and told to end early; finished by then or not
  uint32_t overloaded = 0;  // workers that now refuse requests which waited too long
  std::optional<overload::LimiterReport> limiter{};  // where there is one
  uint64_t preemptions = 0;
  uint64_t preemptions_avoided = 0;
  uint64_t preemptions_denied = 0;
  uint64_t preemptions_deferred = 0;
  uint64_t lock_yields = 0;
  uint64_t waits = 0;      // times that a request gave its worker away to wait for something
  uint64_t came_back = 0;  // waits of those that are over
  uint64_t stuck_left = 0;
  uint64_t moved = 0;  // requests that a manager sent to another group
  uint64_t resumed = 0;
  uint64_t long_by_feedback = 0;
  uint64_t long_by_age = 0;
  uint64_t long_learned = 0;
  uint64_t steals = 0;
  uint64_t stolen = 0;
  uint64_t helped = 0;
  uint64_t parked = 0;
  uint64_t woken = 0;              // times a sleep was ended for work that was queued
  uint64_t busy_ns = 0;
  uint64_t awake_ns = 0;           // time that workers did not sleep, summed
  uint64_t cores_granted = 0;      // workers that have a core now
  uint64_t core_parks = 0;         // times a worker gave its core up
  uint64_t core_grants = 0;        // times the allocator gave a core back
  uint64_t core_self_unparks = 0;         // times a parked worker took its core back
  uint64_t changes = 0;            // of the policy or its options, while the runtime served
  uint64_t changes_given_up = 0;   // as requests took too long
  std::vector<Nanos> quanta;       // of the last slice, one per worker
  uint64_t fibers = 0;             // made so far, suspended or running
};

// What one worker does.
struct WorkerActivity {
  bool asleep = false;
  bool busy = false;  // runs a request; with these two:
  uint32_t type = 0;
  Nanos busy_for;     // since the request started, or went on after a preemption
  Nanos unpolled;     // how long it has not looked for requests; 0 = it sleeps
  int64_t suspended = 0;  // requests put away here, less those resumed here
  uint64_t requests = 0;  // since the start: finished,
  uint64_t preemptions = 0;  // put back before they were done,
  Nanos busy_total;          // time spent on requests
};

// Of the requests of one type that the policy's queues held, over all workers since the start.
struct ServedFigures {
  uint64_t finished = 0;  // and of those in all:
  Nanos service;          //   time on workers
  Nanos waited;           //   time from arrival to the first slice
};

// Of one group of requests (sched/group_shares.h), over all workers since the start.
struct GroupFigures {
  uint64_t arrived = 0;   // refused or not
  uint64_t refused = 0;   // after they had arrived
  uint64_t finished = 0;  // and of those in all:
  Nanos service;          //   time on workers
  Nanos waited;           //   time from arrival to the first slice
};

// One declared queue and how much waits in it now.
struct QueueDepth {
  std::string name;
  uint32_t index = 0;
  uint32_t depth = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  // `datapath` must have options.workers queues; it and `application` outlive the runtime. Fails
  // with one line for a policy that is unknown or simulated only, an unknown setting, or bounds
  // that do not fit.
  static Result<std::unique_ptr<Runtime>> create(const RuntimeOptions& options, Datapath& datapath,
                                                 Application& application);

  // Sets the loop that a worker's fiber runs instead of the default one, which calls recv, handle,
  // send until recv returns null. Set before run(). Synergy, Algorithm 5.1.
  virtual void set_server_loop(std::function<void()> loop) = 0;

  // Starts the workers and blocks until they have stopped. True = everything in flight was answered
  // before the drain limit.
  virtual bool run() = 0;

  // In place of run(), on the calling thread, without a thread of the runtime's own: runs that
  // worker until the datapath recalls the thread, and goes on there when it is called again, for
  // each worker always by the same thread. A value: the runtime has stopped; true as for run().
  // There are no changes then.
  virtual std::optional<bool> run_here(WorkerId worker) = 0;
  // In place of workers that no thread may run any more: stops the runtime if its drain is over.
  // Returns as run_here(). Any thread.
  virtual std::optional<bool> stop_if_drained() = 0;

  // Drain: no new requests, finish those in flight, then stop; at the latest after the drain limit.
  // Any thread, any number of times; safe in a signal handler.
  virtual void stop() = 0;

  // The runtime serves by other options from soon on: a new policy, other settings, quanta, bounds.
  // What was taken in by then is answered under the old ones, while other requests wait; if that
  // takes more than Shutdown::kHoldLimit, the old ones go on, and RuntimeStats::changes_given_up
  // counts. Fails with one line for options that do not fit, as create does, and for those that a
  // restart takes: `workers`, `foreign_runtime`, credits. Does not wait for the change. Any thread,
  // handlers of this runtime too.
  virtual Status change(const SchedulerOptions& options) = 0;
  // The same of what `edit` makes of scheduler_options(), as one step: of changes on several
  // threads none is lost. Fails with the line of `edit`, too; then nothing is changed. `edit` must
  // not use the runtime.
  virtual Status change(const std::function<Status(SchedulerOptions& options)>& edit) = 0;

  // The options that change at once while the runtime runs. Any thread.
  virtual LiveSettings& settings() const = 0;

  // The waits of its requests, until the next change. Any thread.
  virtual Waits& waits() = 0;

  // True until stop(). Any thread.
  virtual bool serving() const = 0;

  // One step of the timer core, for PreemptionClock::kEmbedded. One thread at a time.
  virtual void poll_timer() = 0;

  // A manager of cores, of which there is one at a time, decides in place of the allocator: at most
  // `most` workers have a core, and so many do if the order is `fresh`. Returns what the allocator
  // would have seen since the last call, with the cores that workers have or are about to give up;
  // without an allocator nothing. Null: the allocator decides again, on at most as many cores as
  // before. A change of the policy forgets it all. Any thread.
  virtual overload::CoreSignals manage_cores(std::optional<uint32_t> most, bool fresh) = 0;

  // Any thread.
  virtual RuntimeStats stats() const = 0;
  virtual std::vector<QueueDepth> queue_depths() const = 0;
  // One of each worker, also of workers that are stuck.
  virtual std::vector<WorkerActivity> activity() const = 0;
  // The most that any fiber's stack has held. Takes a system call for each fiber.
  virtual size_t stack_high_water_bytes() const = 0;
  // What the stacks of all fibers have in memory, at the same price. If `release`, those of fibers
  // that no request is on first give back what they have held for earlier ones.
  virtual size_t stack_resident_bytes(bool release) = 0;
  // The time that requests of that class waited for their turn a moment ago, at the worker where
  // they waited longest (see queue_delay.h). Two loads per worker: for hot paths too.
  virtual Nanos queue_delay(JobClass job_class) const = 0;
  // Zero, or, while every worker refuses requests that have waited too long, the time before which
  // a retry with a request of that class is useless. A few loads: for hot paths too.
  virtual Nanos refuses_for(JobClass job_class) const = 0;
  // Arrival-to-reply and on-worker times of one request type over all workers.
  virtual Histogram latency(uint32_t type) const = 0;
  virtual Histogram service(uint32_t type) const = 0;
  virtual ServedFigures served(uint32_t type) const = 0;
  // Which type held up which, over all workers since the start: waits of at least
  // RecentSlices::kWorthNoting behind one slice. The pairs of unknown types come last.
  virtual std::vector<BlockedPair> blocked() const = 0;
  // Requires group < limits::kGroups.
  virtual GroupFigures group(uint32_t group) const = 0;
  // Requests of that type that ended on that worker. Requires worker < options().workers.
  virtual uint64_t finished(WorkerId worker, uint32_t type) const = 0;
  // From the end of a slice to the checkpoint that noticed it: how promptly long requests yield.
  virtual Histogram overrun() const = 0;
  // The slots of each worker, with RuntimeOptions::record_arrivals; otherwise empty. They live as
  // long as the runtime. For one recorder at a time.
  virtual std::vector<ArrivalSlots*> arrivals() = 0;
  // The same for RuntimeOptions::record_requests and the rings of the workers.
  virtual std::vector<RequestRing*> request_rings() = 0;
  // And for RuntimeOptions::record_traces.
  virtual std::vector<TraceRing*> trace_rings() = 0;
  // Those in force; they stay readable as long as the runtime lives.
  virtual const RuntimeOptions& options() const = 0;
  // The scheduler's among them as they were asked for last, with what settings() has: those of a
  // change that is underway.
  virtual SchedulerOptions scheduler_options() const = 0;

  // The part of its usual share of connections that the runtime asks load balancers for, in
  // percent, 0 = none (set by AgentPort); kNoWeight = it asks for nothing. Any thread.
  static constexpr int kNoWeight = -1;
  void advertise(int percent) { advertised_.store(percent, std::memory_order_relaxed); }
  int advertised() const { return advertised_.load(std::memory_order_relaxed); }

  // The policy's explanation of the plan in force (hook::explain), a sentence each; empty if the
  // policy has none. Types from 0 to types-1 have names.
  virtual std::vector<std::string> explain_policy(const TypeNames& name_of,
                                                  uint32_t types) const = 0;

 private:
  std::atomic<int> advertised_{kNoWeight};  // relaxed: a number to show
};

// The two calls of the default server loop, for loops of the application's own. On a worker's fiber
// only. recv returns null when the runtime stops. Between the two calls the request may move to
// another worker. Locals of a loop are kept while another fiber serves.
Request* recv();
void send(Request& request);

}  // namespace rubato
