// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "calibrate/measurements.h"
#include "spin_server/spin_server.h"

namespace rubato::calibrate {
namespace {

using sim::Costs;
using sim::Price;

constexpr std::array<OperationInfo, static_cast<size_t>(Operation::kCount)> kInfos{{
    {"read the clock", "an empty batch; taken off everything else"},
    {"put", "16 jobs into the own inbox"},
    {"take", "16 jobs from the own inbox"},
    {"put by word", "16 jobs into a queue in the order of their words"},
    {"take by word", "16 jobs from such a queue"},
    {"look", "the depths of 16 inboxes that nobody has changed, 16 times"},
    {"look at a head", "when the first one in a queue of several workers arrived, 16 times"},
    {"look at what changed", "the depths of 16 inboxes that another CPU has just filled"},
    {"take a turn",
     "16 steps that one worker at a time runs for all; they see that the plan is the same"},
    {"see that a worker is awake", "16 of them, after a put"},
    {"steal 1", "one job from each of 16 inboxes that another CPU has just filled"},
    {"steal 8", "eight jobs from each of 16 such inboxes into the own"},
    {"switch fibers", "16 times into a fiber and back"},
    {"resume", "into each of 16 fibers and back, 512 bytes of stack touched"},
    {"resume from afar", "the same after another CPU has run them"},
    {"ask by a flag", "an atomic exchange on a line that another CPU polls"},
    {"see the flag",
     "half of a round trip of two such lines, less a store, a look and half a round of who waits"},
    {"poll, nothing there", "the loopback datapath's queue, 16 times"},
    {"poll between requests",
     "what the way in below takes longer with a poll that finds nothing, that poll included"},
    {"way in, with a poll",
     "from a reply to the begin of the next request, of 512 that waited: one of 32, after a poll"},
    {"way in", "the same of the other 31"},
    {"way out", "from the begin of a request of no service time to its reply, likewise"},
    {"after a reply", "from a reply to the worker's next reading of its clock"},
    {"submit", "on the client, one request at a time, the worker spinning"},
    {"submit to reply, idle", "the same, from its begin to the reply on the worker"},
    {"round of one", "of an idle worker under cfcfs, polling a queue without requests, 16 times"},
    {"round of two", "the same beside another one"},
    {"round beside a stuck one", "the same beside one that does not come to its queue"},
    {"start a slice", "256 times"},
    {"look at a slice", "16 checkpoints, at each of which the worker looks and the slice goes on"},
    {"long_begin, long_end", "16 times, in a request"},
    {"slice ends, goes on", "16 checkpoints, at each of which the slice was over"},
    {"slice ends, next one begins",
     "from one of those to the reading that the next slice counts from"},
    {"preempt and resume", "the same with two requests that take turns"},
    {"preempt and begin",
     "from a checkpoint at which a slice is over to the begin of another request"},
    {"reply and resume", "from a reply to where a request that was cut before goes on"},
    {"overshoot",
     "from the end of 10 us slices to the checkpoint that noticed; checkpoints 0.1 us"},
    {"park a core", "CPU time of a worker from its parking until it runs again"},
    {"wake a core", "from a grant until a parked worker on another CPU runs"},
    {"place a thread", "the affinity of a thread that sleeps, from two CPUs to one and back"},
}};

Nanos nanos(double ns) { return Nanos(std::lround(std::max(0.0, ns))); }

// What is left of a sample when others that are part of it are taken off.
Price price(const Sample& sample, double others_ns = 0) {
  const Price both{nanos(sample.median_ns - others_ns), nanos(sample.tail_ns - others_ns)};
  return both.tail > both.typical ? both : Price{both.typical, Nanos()};
}

double median(const Samples& samples, Operation operation) { return samples[operation].median_ns; }

// How far from their mean single operations are, if uniformly, whose batches have these quartiles.
Nanos spread(const Sample& sample) {
  constexpr double kQuartile = 0.6745;  // of a normal distribution, in standard deviations
  const double deviation = (sample.median_ns - sample.lower_ns) / kQuartile * std::sqrt(kBatch);
  return nanos(deviation * std::sqrt(3.0));
}

// Of each request of a burst, its put included.
double admission(const Samples& s) {
  const double burst = median(s, Operation::kPollBurst) - median(s, Operation::kReceive) -
                       median(s, Operation::kPoll);
  return burst / limits::kBurst;
}

void set_rounds(const Samples& s, Costs::Worker& worker) {
  const bool two = s[Operation::kRoundOfTwo].batches > 0;
  const double one = median(s, Operation::kRoundOfOne);
  const double each = two ? std::max(0.0, median(s, Operation::kRoundOfTwo) - one) : 0;
  worker.idle_round = nanos(one - each - median(s, Operation::kLook));
  worker.idle_round_each = nanos(each);
  if (!two) return;
  worker.idle_round_stuck =
      nanos(median(s, Operation::kRoundBesideStuck) - median(s, Operation::kRoundOfTwo));
}

// `rest`: of the way of a request to an idle worker and out, all else that is known. To submit is
// the client's. What is left may be less than nothing: of a poll that finds something a part was
// over when the worker looked.
void set_notice(const Samples& s, double rest, Costs::Worker& worker) {
  if (s[Operation::kIdle].batches == 0) return;
  const auto between = static_cast<double>(worker.poll_between.count());
  const double left =
      median(s, Operation::kIdle) - median(s, Operation::kSubmit) - between - rest;
  worker.notice = nanos(left);
  worker.poll_look = std::min(nanos(-left), worker.poll.typical);
}

void set_worker(const Samples& s, Costs::Worker& worker) {
  const double queued = median(s, Operation::kPut) + median(s, Operation::kTake);
  const double steal_more = median(s, Operation::kStealEight) - median(s, Operation::kStealOne);
  const double afar = median(s, Operation::kResumeThere) - median(s, Operation::kResumeHere);
  const double lone = median(s, Operation::kReceive) - median(s, Operation::kAfterReply) +
                      admission(s) + median(s, Operation::kPoll) +
                      median(s, Operation::kSend);
  const double half_a_round = (median(s, Operation::kRoundOfOne) + median(s, Operation::kPoll)) / 2;
  worker.poll = price(s[Operation::kPoll]);
  worker.poll_between = nanos(median(s, Operation::kPollBetween) - median(s, Operation::kPoll));
  worker.receive = price(s[Operation::kReceive],
                         median(s, Operation::kTake) + median(s, Operation::kAfterReply));
  worker.send = price(s[Operation::kSend]);
  worker.after_send = nanos(median(s, Operation::kAfterReply));
  worker.clock = sim::WorkerClock::kReadings;
  worker.read_clock = nanos(median(s, Operation::kClock));
  worker.admit = nanos(admission(s) - median(s, Operation::kPut));
  worker.put = price(s[Operation::kPut]);
  worker.take = price(s[Operation::kTake]);
  worker.ordered_put = price(s[Operation::kOrderedPut]);
  worker.ordered_take = price(s[Operation::kOrderedTake]);
  worker.ordered_alone = nanos(median(s, Operation::kOrderedPut) - median(s, Operation::kFlagSend));
  worker.look = nanos(median(s, Operation::kLook));
  worker.look_head = nanos(median(s, Operation::kLookHead) - median(s, Operation::kLook));
  worker.turn = nanos(median(s, Operation::kTurn));
  worker.push = nanos(median(s, Operation::kAwake));
  set_rounds(s, worker);
  worker.steal = price(s[Operation::kStealOne]);
  worker.steal_each = nanos(steal_more / 7);
  worker.cache_transfer = nanos(afar);
  worker.feedback = nanos(median(s, Operation::kFeedback) - median(s, Operation::kArm));
  set_notice(s, lone + half_a_round, worker);
  // A preemption is the end of a slice, a put, a take, and two switches with what belongs to them.
  const double both = median(s, Operation::kPreemption) - median(s, Operation::kSliceEnd) - queued;
  const double least = median(s, Operation::kSwitch);
  const double tail = s[Operation::kPreemption].tail_ns - s[Operation::kPreemption].median_ns;
  const double half = std::max(both / 2, least);
  // That and the way in of the next request have parts in common.
  const double begin =
      std::max(0.0, median(s, Operation::kCut) - median(s, Operation::kSliceEnd) - queued);
  const double fresh = std::min(half, begin);
  const double resume = 2 * half - fresh;
  worker.fresh_fiber = price({.median_ns = fresh, .tail_ns = fresh, .batches = 1});
  worker.resume =
      price({.median_ns = resume, .tail_ns = resume + std::max(0.0, tail), .batches = 1});
  worker.cut_saves = std::max(Nanos(), worker.receive.typical - nanos(begin - fresh));
  worker.resume_alone = nanos(median(s, Operation::kReplyResume) -
                              median(s, Operation::kAfterReply) - median(s, Operation::kTake) -
                              median(s, Operation::kArm) - resume);
}

void set_preemption(const Samples& s, Costs::Preemption& preemption) {
  const double parts = median(s, Operation::kPoll) + median(s, Operation::kLook) +
                       median(s, Operation::kArm);
  preemption.clock = sim::Clock::kSelf;
  preemption.arm = price(s[Operation::kArm]);
  preemption.checkpoints = spin::kWorkUnit;
  preemption.check = nanos(median(s, Operation::kCheck));
  preemption.check_spread = std::min(preemption.check, spread(s[Operation::kCheck]));
  preemption.overshoot = price(s[Operation::kOvershoot]);
  preemption.receive = price(s[Operation::kSliceEnd], parts);
  preemption.receive_read = nanos(median(s, Operation::kClock) +
                                  median(s, Operation::kSliceBegins) -
                                  median(s, Operation::kPoll));
  preemption.done = price(s[Operation::kArm]);
  preemption.scan = nanos(median(s, Operation::kLook) + median(s, Operation::kClock));
  preemption.send = price(s[Operation::kFlagSend]);
  preemption.propagation = price(s[Operation::kFlagSeen]);
}

void set_cores(const Samples& s, Costs::Cores& cores) {
  cores.park = nanos(median(s, Operation::kParkCore));
  cores.wake = nanos(median(s, Operation::kWakeCore) + median(s, Operation::kPlaceThread));
}

std::string figures(const Samples& samples, Operation operation) {
  const Sample& sample = samples[operation];
  if (sample.batches == 0)
    return fmt::format("{}: not measured, needs two CPUs", info_of(operation).name);
  return fmt::format("{}: {:.1f} ns, p99.9 {:.1f} ns ({})", info_of(operation).name,
                     sample.median_ns, sample.tail_ns, info_of(operation).how);
}

}  // namespace

const OperationInfo& info_of(Operation operation) { return kInfos[static_cast<size_t>(operation)]; }

Costs costs_of(const Samples& samples) {
  Costs costs;
  costs.nic.delivery = sim::Delivery::kPolled;
  costs.nic.steering = sim::Steering::kRoundRobin;
  costs.nic.ring_capacity = limits::kInboxCapacity;
  costs.nic.burst = limits::kBurst;
  costs.nic.poll_every = limits::kPollEvery;
  costs.nic.poll_picks = limits::kPollPicks;
  costs.nic.help_after = limits::kHelpAfter;
  costs.queue_capacity = limits::kInboxCapacity;
  costs.dispatch_by = sim::DispatchBy::kWorkers;
  set_worker(samples, costs.worker);
  set_preemption(samples, costs.preemption);
  set_cores(samples, costs.cores);
  return costs;
}

sim::CostNotes notes_of(const Samples& samples) {
  const auto is = [&](Operation operation) { return figures(samples, operation); };
  return {
      {"nic.delivery", "The loopback datapath: workers poll, flows go to them by turns."},
      {"worker.poll", is(Operation::kPoll)},
      {"worker.poll_between", is(Operation::kPollBetween) + "\nless a poll."},
      {"worker.receive", is(Operation::kReceive) + "\nless a take and what comes after a reply."},
      {"worker.send", is(Operation::kSend)},
      {"worker.after_send", is(Operation::kAfterReply)},
      {"worker.clock", "Slices and services count from the last reading (runtime/slice_clock.h)."},
      {"worker.read_clock", is(Operation::kClock)},
      {"worker.admit", is(Operation::kPollBurst) +
                           "\nless that way in and a poll, 1/32, and a put."},
      {"worker.put", is(Operation::kPut)},
      {"worker.take", is(Operation::kTake)},
      {"worker.ordered_put", is(Operation::kOrderedPut)},
      {"worker.ordered_take", is(Operation::kOrderedTake)},
      {"worker.ordered_alone", "A put by word less an atomic exchange, which takes the lock."},
      {"worker.look", is(Operation::kLook) + "\n" + is(Operation::kLookChanged)},
      {"worker.look_head", is(Operation::kLookHead) + "\nless a look."},
      {"worker.steal", is(Operation::kStealOne)},
      {"worker.steal_each", "A seventh of what this takes longer:\n" + is(Operation::kStealEight)},
      {"worker.cache_transfer",
       "The difference of\n" + is(Operation::kResumeHere) + "\n" + is(Operation::kResumeThere)},
      {"worker.feedback", is(Operation::kFeedback) + "\nless starting a slice."},
      {"worker.fresh_fiber",
       "Half of what is left of a preemption without the slice's end, a put and a take; at "
       "least:\n" +
           is(Operation::kSwitch) + "\nbut not more than what is left so of\n" +
           is(Operation::kCut)},
      {"worker.resume", "The other part, with the tail of\n" + is(Operation::kPreemption)},
      {"worker.cut_saves", "The way in less what is left of that."},
      {"worker.resume_alone", is(Operation::kReplyResume) +
                                  "\nless what comes after a reply, a take, starting a slice, and "
                                  "the resume of a preemption."},
      {"worker.turn", is(Operation::kTurn)},
      {"worker.push", is(Operation::kAwake)},
      {"worker.notice",
       is(Operation::kIdle) + "\n" + is(Operation::kSubmit) +
           "\nless the second, one poll and what else it takes, put, take, admit, receive, send "
           "and half a round; not less than nothing."},
      {"worker.poll_look", "What that would be less than nothing."},
      {"worker.idle_round", is(Operation::kRoundOfOne) + "\nless a look and the next."},
      {"worker.idle_round_each", "What a round takes longer beside another worker:\n" +
                                     is(Operation::kRoundOfTwo)},
      {"worker.idle_round_stuck", is(Operation::kRoundBesideStuck) + "\nless a round of two."},
      {"preemption.clock", "Each worker looks at the clock at checkpoints of the request."},
      {"preemption.scan",
       "A look and a reading of the clock (timer core only).\n" + is(Operation::kClock)},
      {"preemption.arm", is(Operation::kArm)},
      {"preemption.checkpoints", "Those of the spin server."},
      {"preemption.check", is(Operation::kCheck)},
      {"preemption.check_spread", "By how far the quartile of those batches is from their median."},
      {"preemption.overshoot", is(Operation::kOvershoot)},
      {"preemption.send", is(Operation::kFlagSend)},
      {"preemption.propagation", is(Operation::kFlagSeen)},
      {"preemption.receive",
       is(Operation::kSliceEnd) + "\nless a poll, a look and starting a slice."},
      {"preemption.receive_read", is(Operation::kSliceBegins) +
                                      "\nwith the reading that sees the end, less a poll."},
      {"preemption.done", "Starting the next slice."},
      {"cores.park", is(Operation::kParkCore)},
      {"cores.wake", "A core that comes from another server (rubato cores): placing and waking.\n" +
                         is(Operation::kPlaceThread) + "\n" + is(Operation::kWakeCore)},
  };
}

}  // namespace rubato::calibrate
