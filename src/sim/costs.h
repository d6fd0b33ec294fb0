// SPDX-License-Identifier: Apache-2.0
//
// Costs: the machine that a simulated run stands on. How requests come in, and the price of every
// verb of policy/contract.h, of every switch, steal, timer and preemption. `Costs{}` is the `ideal`
// machine: every price is nothing. Others come from cost files (sim/cost_file.h). Prices are what a
// run reads of it. Plain values; read-only while a run uses them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/limits.h"
#include "base/picos.h"
#include "base/time.h"

namespace rubato::sim {

// The cost of one operation: `typical` most of the time, `tail` one time in kTailEvery (the median
// and the 99.9th percentile of a measurement). A tail not above the typical price is never drawn.
struct Price {
  static constexpr uint32_t kTailEvery = 1000;
  Nanos typical;
  Nanos tail;
  bool operator==(const Price&) const = default;
};

enum class Delivery : uint8_t {
  kDirect,  // a request is in the policy's queue as soon as it has arrived
  kPolled,  // it waits in a ring of its worker's until that worker polls
};

enum class Steering : uint8_t {
  kRss,         // Toeplitz hash of the flow's addresses and ports, through the indirection table
  kRoundRobin,  // by turns, whatever the flow
  kRandom,      // uniformly random, whatever the flow
  kFlowDirector,  // RSS, until a rule of the flow's own is in force; rules spread flows evenly
};

// Where a request's latency begins.
enum class LatencyFrom : uint8_t {
  kClient,     // when it was sent
  kReception,  // when a worker took it from its ring: the wait in the ring is not seen
};

// The core that looks at the end of a slice.
enum class Clock : uint8_t {
  kTimerCore,   // one core scans the deadlines of all workers and notifies (Synergy 5.1.3.2)
  kSelf,        // each worker has a timer of its own and preempts itself (SBB 4.3)
  kDispatcher,  // the dispatcher, between its other work (Shinjuku, NSDI 2019, section 3.2)
};

// The slices that end with a cut.
enum class Cuts : uint8_t {
  kIfGained,  // those at whose end another request gains, as the policy says
  kAll,       // every one: nobody looks whether a request waits (Shinjuku, Concord, SBB 4.3)
};

// From when a worker counts waits, slices and the service of a request.
enum class WorkerClock : uint8_t {
  kExact,     // from the moment at which the request runs
  kReadings,  // from its last reading of the clock: after a poll, a reply, or the end of a slice
};

// Who runs the `dispatch` of a policy that has one, and the steps of its managers.
enum class DispatchBy : uint8_t {
  kCore,     // a core of its own, which arrivals pass; each manager has one
  kWorkers,  // the worker whose turn it is; it delays what that worker does next
};

// What a dispatcher does that has nothing to hand out.
enum class IdleDispatcher : uint8_t {
  kWaits,
  kServes,  // requests, as the last of the workers, between all that it does for the others
};

// Which of several idle workers looks first when a queue that they share gets a request.
enum class IdleOrder : uint8_t {
  kByTurns,
  kLowestFirst,  // the one with the lowest number
};

// Which hardware thread a worker gets that is given one.
enum class Placement : uint8_t {
  kPack,    // beside a worker that is alone on its core (Caladan's allocator "simple")
  kSpread,  // one on a core of its own (Caladan's allocator "ias")
};

// What a request does that comes to a critical section.
enum class Lock : uint8_t {
  kNone,   // nothing: its sections are its own, such as calls of an allocator
  kSpin,   // it takes the lock of all workers, for which it waits on its worker
  kYield,  // the same, but where a long one finds it taken, its worker first serves another one
};

// How long a stall lasts.
enum class StallLengths : uint8_t { kConstant, kExponential };

// The part of the machine that a stall stops.
enum class StallsHit : uint8_t {
  kCore,     // one core: an interrupt, a hypervisor that runs another machine
  kMachine,  // all cores at once, workers or not: firmware, a virtual machine that moves
};

struct Prices {
  // Arrival path.
  struct Nic {
    Delivery delivery = Delivery::kDirect;
    Steering steering = Steering::kRandom;
    uint32_t ring_capacity = 1024;  // requests per ring; more are lost (kPolled only)
    uint32_t burst = limits::kBurst;      // taken by one poll (kPolled only)
    // A worker polls when its own queue has run dry and, if poll_every > 0, before a request when
    // its last poll was so long or so many requests ago (kPolled only).
    Nanos poll_every;
    uint32_t poll_picks = 32;
    // Idle workers take from the ring of one that has not polled for so long, unless requests are
    // for their own worker only; 0 = they leave them there (kPolled only; ZygOS).
    Nanos help_after;
    Nanos help_looks;  // idle workers look for such rings at multiples of this; 0 = all the time
    uint32_t indirection_entries = 512;   // of the RSS table (XL710, E810)
    Nanos pcie;                           // from the wire to where software can see it, and back
    Nanos rule_update;                    // until a flow-director rule is in force (SBB 4.2: 10 us)
    bool operator==(const Nic&) const = default;
  } nic;
  LatencyFrom latency_from = LatencyFrom::kClient;
  Nanos network_rtt;      // client to NIC and back; part of every latency
  // Clients with sessions (sim/clients.h) know the 99th percentile as well; 0 = it is the same.
  Nanos network_rtt_p99;
  // Per request that arrives, in a serial dispatcher before the workers, or in the manager of a
  // group of them; 0 = none.
  Nanos dispatcher;
  DispatchBy dispatch_by = DispatchBy::kCore;
  IdleOrder idle_order = IdleOrder::kByTurns;
  // Further work of that dispatcher, which no machine without one has. A worker that takes requests
  // from a queue that all share gets its next one when the dispatcher is through with the last.
  struct Dispatching {
    Nanos completion;   // per request that a worker has done
    Nanos put_back;     // per request that was cut, which it takes back and hands out again
    uint32_t ring_capacity = 0;  // requests that wait for it; more are lost. 0 = any number
    IdleDispatcher idle = IdleDispatcher::kWaits;
    bool operator==(const Dispatching&) const = default;
  } dispatching;
  // A thread of its own that receives for all, before the dispatcher (Persephone 4.3.1).
  struct NetWorker {
    Nanos receive;               // per request; 0 = there is none
    uint32_t ring_capacity = 0;  // as the dispatcher's
    bool operator==(const NetWorker&) const = default;
  } net_worker;
  uint32_t queue_capacity = 1u << 20;  // requests per policy queue; more are refused

  // On a worker.
  struct Worker {
    Price poll;           // asking the ring, per burst
    Nanos poll_look;      // until it looks there, a part of that
    Nanos poll_between;   // beside that, from a poll to the next look at a queue
    Price receive;        // per request, before it runs for the first time
    Price send;           // per response
    Nanos after_send;     // once it has left, before the worker goes on
    WorkerClock clock = WorkerClock::kExact;
    Nanos read_clock;     // part of the prices of looks at checkpoints and of slices' ends
    Nanos admit;          // per request of a burst, beside its put; the poll lasts longer by it
    Price put, take;      // a policy queue
    // The same of a queue in the order of its words, a heap under a lock: each keeps other workers
    // from that queue for `ordered_alone`. 0 = such a queue is like any other.
    Price ordered_put, ordered_take;
    Nanos ordered_alone;
    Nanos look;           // reading a depth, a counter, or an empty queue
    Nanos look_head;      // more than that: when the head of a queue arrived
    Price steal;          // a successful steal, with its first job
    Nanos steal_each;     // every further job of the batch
    // On the victim: its next put into or take from a queue of its own out of which another worker
    // has stolen since waits for that steal to end, and for the lines that changed hands. 0 =
    // neither.
    Nanos stolen_from;
    Nanos cache_transfer; // a request goes on on another worker than the one that had it last
    // A put into or take from a queue that another worker used last, or the lock of critical
    // sections, whose line comes from that one's cache. A queue's line goes to one worker after the
    // other. Steals and what arrives by itself have prices of their own. 0 = lines are everywhere.
    Nanos shared_line;
    Nanos feedback;       // long_begin and long_end together (Synergy 5.2.1)
    Price fresh_fiber;    // going on with another fiber after a preemption
    Price resume;         // switching into a preempted request
    Nanos cut_saves;      // of `receive`, for a request that begins where another one was cut
    Nanos resume_alone;   // what a resume takes longer where none was cut just before
    // What is put into a worker's queue by a dispatch or a manager's step that another one runs, or
    // sent to a manager: whether who it is for sleeps.
    Nanos push;
    Nanos turn;           // beginning and ending a step that one worker at a time runs for all
    Nanos notice;         // what it takes an idle worker longer to see that something arrived
    // An idle worker looks round and round: at its ring, as the policy says, and at what every
    // other worker does, if it may help them. A round takes the prices of those looks, idle_round,
    // and idle_round_each for every worker. 0, 0 = idle workers see at once what they look for.
    Nanos idle_round, idle_round_each;
    // What a round takes longer for each worker that does not come to its ring, and may be helped.
    Nanos idle_round_stuck;
    bool operator==(const Worker&) const = default;
  } worker;

  // Workers that share cores, two hardware threads on each.
  struct Hyperthreads {
    uint32_t threads = 0;     // of the machine, for workers; 0 = every worker has a core of its own
    uint32_t slowdown = 100;  // what work takes beside a busy sibling, in % of what it takes alone
    Placement placement = Placement::kPack;
    bool operator==(const Hyperthreads&) const = default;
  } hyperthreads;

  // Cores that park, and overload control (sim/elastic_server.h only).
  struct Cores {
    Nanos park;            // giving a core away
    Nanos wake;            // from the decision until a parked core looks for work
    // From the arrival of a packet of a parked worker's own, at which the NIC interrupts its core,
    // until that worker looks for work (SBB 4.2). 0 = it does not: the packet goes to another.
    Nanos interrupt;
    Nanos refuse;          // dropping a request and saying so
    Nanos credit_message;  // one that only has credits or demand, sent or received
    // From the moment at which an update of the credits has read them until it writes them: what
    // idle cores withhold or return in between is lost. 0 = nothing is, as in a server of ours.
    Nanos credit_update;
    bool operator==(const Cores&) const = default;
  } cores;

  // On a manager, which is a core of its own beside the workers (Altocumulus). Its looks and takes
  // are part of these: it reads lengths "within a few cycles" (IX-A).
  struct Manager {
    Nanos step;     // a prediction, once a period
    Price send;     // per message; one without jobs may go to several managers at once
    Price receive;  // per message with jobs; others are read from a register
    Price put;      // handing a request to a worker; Costs::dispatcher comes on top
    bool operator==(const Manager&) const = default;
  } manager;

  // The network on chip adds to cache_transfer: hops between the two workers in a mesh. Messages
  // between managers, which stand beside the first worker of their group, take the hops alone.
  struct Noc {
    uint32_t columns = 0;  // workers per row of the mesh; 0 = no mesh, no hops
    Nanos per_hop;
    bool operator==(const Noc&) const = default;
  } noc;

  // Causes that take cores away from their workers (sim/stalls.h).
  struct Stalls {
    Nanos every;   // mean time between two of one core, or of the machine; exponential. 0 = none
    Nanos length;  // the mean, if they differ
    StallLengths lengths = StallLengths::kConstant;
    StallsHit hits = StallsHit::kCore;
    bool operator==(const Stalls&) const = default;
  } stalls;

  // Parts of each request's work, evenly from its beginning to its end, in which it may not be cut:
  // a slice that ends there ends when the section does.
  struct CriticalSections {
    uint32_t count = 0;  // per request, however long it is; 0 = a request may be cut anywhere
    Nanos length;        // of each; less in requests that are too short for so many
    Lock lock = Lock::kNone;
    bool operator==(const CriticalSections&) const = default;
  } critical_sections;

  // Time slices.
  struct Preemption {
    Clock clock = Clock::kTimerCore;
    Cuts cuts = Cuts::kIfGained;
    Nanos scan;         // timer core or dispatcher: looking at one worker's deadline
    Price arm;          // starting (and stopping) a slice, on the worker
    // Own timer by checkpoints: how far apart those of the requests are, in work, and what a look
    // at one costs that finds the slice not over (sched/look_stride.h says at which of them a
    // worker looks), uniformly up to `check_spread` less or more. 0 = the timer is an interrupt.
    // Without a spread all slices of a kind end at the same checkpoint, as those of no machine do.
    Nanos checkpoints, check, check_spread;
    Price overshoot;    // own timer without checkpoints: from the deadline to the interrupt
    Price send;         // timer core or dispatcher: per notification, one at a time
    Price propagation;  // from there to the worker
    Price receive;      // on the worker, until it acts
    Nanos receive_read; // of that, until the reading from which its next slice counts (kReadings)
    Price done;         // on the worker, going back to its request (also when none would gain)
    bool operator==(const Preemption&) const = default;
  } preemption;
  bool operator==(const Prices&) const = default;
};

// Those of the machine `ideal`.
inline constexpr Prices kIdealPrices{};

struct Costs : Prices {
  std::string name = "ideal";
  std::string source = "every operation is free";  // where the figures are from

  // What the live runtime's own steps take in virtual time (virtual/world.h), each on average. No
  // simulation reads it: what the steps of a verb take together is a price above.
  struct World {
    Picos access;       // an atomic one, to memory
    Picos clock_read;
    Picos system_call;
    Picos wake_up;      // from the call that wakes to the first step of the woken
    Picos pause;        // of a loop that waits
    bool operator==(const World&) const = default;
    bool ideal() const { return *this == World{}; }  // only the work of requests takes time
  };
  std::optional<World> world;  // nothing = the file does not say
};

// Is there a core before the workers that handles one request after the other, or two?
constexpr bool has_dispatcher(const Prices& costs) {
  const Prices::Dispatching& more = costs.dispatching;
  return costs.dispatcher > Nanos() || more.completion > Nanos() || more.put_back > Nanos() ||
         more.ring_capacity > 0 || more.idle == IdleDispatcher::kServes ||
         costs.net_worker.receive > Nanos() || costs.preemption.clock == Clock::kDispatcher;
}

// Steps between two workers' tiles; 0 without a mesh.
inline int64_t mesh_hops(const Costs::Noc& noc, uint32_t a, uint32_t b) {
  if (noc.columns == 0) return 0;
  const auto distance = [](uint32_t x, uint32_t y) { return int64_t{x > y ? x - y : y - x}; };
  return distance(a % noc.columns, b % noc.columns) + distance(a / noc.columns, b / noc.columns);
}

}  // namespace rubato::sim
