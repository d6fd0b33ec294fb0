// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "cli/calibrate.h"

namespace rubato::cli {
namespace {

using sim::Costs;
using sim::Price;

constexpr std::array<WhatInfo, static_cast<size_t>(What::kCount)> kInfos{{
    {"read the clock", "an empty batch; taken off everything else"},
    {"put", "16 jobs into the own inbox"},
    {"take", "16 jobs from the own inbox"},
    {"look", "the depths of 16 inboxes that nobody has changed, 16 times"},
    {"look at what changed", "the depths of 16 inboxes that another CPU has just filled"},
    {"steal 1", "one job from each of 16 inboxes that another CPU has just filled"},
    {"steal 8", "eight jobs from each of 16 such inboxes into the own"},
    {"switch fibers", "16 times into a fiber and back"},
    {"resume", "into each of 16 fibers and back, 512 bytes of stack touched"},
    {"resume from afar", "the same after another CPU has run them"},
    {"ask by a flag", "an atomic exchange on a line that another CPU polls"},
    {"see the flag", "half of a round trip of two such lines"},
    {"poll, nothing there", "the loopback datapath's queue, 16 times"},
    {"way in", "from a reply to the begin of the next request, 16 of 512 that waited"},
    {"way out", "from the begin of a request of no service time to its reply, likewise"},
    {"there and back, idle", "from submit to reply, one request at a time, the worker spinning"},
    {"start a slice", "256 times"},
    {"long_begin, long_end", "16 times, in a request"},
    {"slice ends, goes on", "16 checkpoints, at each of which the slice was over"},
    {"preempt and resume", "the same with two requests that take turns"},
    {"overshoot",
     "from the end of 10 us slices to the checkpoint that noticed; checkpoints 0.1 us"},
}};

Nanos nanos(double ns) { return Nanos(std::lround(std::max(0.0, ns))); }

// What is left of a sample when others that are part of it are taken off.
Price price(const Sample& sample, double others_ns = 0) {
  const Price both{nanos(sample.median_ns - others_ns), nanos(sample.tail_ns - others_ns)};
  return both.tail > both.typical ? both : Price{both.typical, Nanos()};
}

double median(const Samples& samples, What what) { return samples[what].median_ns; }

// One poll feeds a whole burst when there is much to do.
double share_of_poll(const Samples& s) { return median(s, What::kPoll) / limits::kBurst; }

void set_worker(const Samples& s, Costs::Worker& worker) {
  const double queued = median(s, What::kPut) + median(s, What::kTake);
  const double steal_more = median(s, What::kStealEight) - median(s, What::kStealOne);
  const double afar = median(s, What::kResumeThere) - median(s, What::kResumeHere);
  const double lone = median(s, What::kReceive) - share_of_poll(s) + median(s, What::kPoll) +
                      median(s, What::kSend);
  worker.poll = price(s[What::kPoll]);
  worker.receive = price(s[What::kReceive], queued + share_of_poll(s));
  worker.send = price(s[What::kSend]);
  worker.put = price(s[What::kPut]);
  worker.take = price(s[What::kTake]);
  worker.look = nanos(median(s, What::kLook));
  worker.steal = price(s[What::kStealOne]);
  worker.steal_each = nanos(steal_more / 7);
  worker.cache_transfer = nanos(afar);
  worker.feedback = nanos(median(s, What::kFeedback) - median(s, What::kArm));
  // The way back is as long as the way there, and no part of it.
  worker.notice = nanos((median(s, What::kIdle) - lone) / 2);
  // A preemption is the end of a slice, a put, a take, and two switches with what belongs to them.
  const double both = median(s, What::kPreemption) - median(s, What::kSliceEnd) - queued;
  const double least = median(s, What::kSwitch);
  const double tail = s[What::kPreemption].tail_ns - s[What::kPreemption].median_ns;
  const double half = std::max(both / 2, least);
  worker.fresh_fiber = price({.median_ns = half, .tail_ns = half, .batches = 1});
  worker.resume = price({.median_ns = half, .tail_ns = half + std::max(0.0, tail), .batches = 1});
}

void set_preemption(const Samples& s, Costs::Preemption& preemption) {
  const double parts = median(s, What::kPoll) + median(s, What::kLook) + median(s, What::kArm);
  preemption.clock = sim::Clock::kSelf;
  preemption.arm = price(s[What::kArm]);
  preemption.overshoot = price(s[What::kOvershoot]);
  preemption.receive = price(s[What::kSliceEnd], parts);
  preemption.done = price(s[What::kArm]);
  preemption.scan = nanos(median(s, What::kLook) + median(s, What::kClock));
  preemption.send = price(s[What::kFlagSend]);
  preemption.propagation = price(s[What::kFlagSeen]);
}

std::string figures(const Samples& samples, What what) {
  const Sample& sample = samples[what];
  if (sample.batches == 0)
    return fmt::format("{}: not measured, needs two CPUs", info_of(what).name);
  return fmt::format("{}: {:.1f} ns, p99.9 {:.1f} ns ({})", info_of(what).name, sample.median_ns,
                     sample.tail_ns, info_of(what).how);
}

}  // namespace

const WhatInfo& info_of(What what) { return kInfos[static_cast<size_t>(what)]; }

Costs costs_of(const Samples& samples) {
  Costs costs;
  costs.nic.delivery = sim::Delivery::kPolled;
  costs.nic.steering = sim::Steering::kRoundRobin;
  costs.nic.ring_capacity = limits::kInboxCapacity;
  costs.nic.burst = limits::kBurst;
  costs.queue_capacity = limits::kInboxCapacity;
  set_worker(samples, costs.worker);
  set_preemption(samples, costs.preemption);
  return costs;
}

sim::CostNotes notes_of(const Samples& samples) {
  const auto is = [&](What what) { return figures(samples, what); };
  return {
      {"nic.delivery", "The loopback datapath: workers poll, flows go to them by turns."},
      {"worker.poll", is(What::kPoll)},
      {"worker.receive", is(What::kReceive) + "\nless a put, a take, and 1/32 of a poll."},
      {"worker.send", is(What::kSend)},
      {"worker.put", is(What::kPut)},
      {"worker.take", is(What::kTake)},
      {"worker.look", is(What::kLook) + "\n" + is(What::kLookChanged)},
      {"worker.steal", is(What::kStealOne)},
      {"worker.steal_each", "A seventh of what this takes longer:\n" + is(What::kStealEight)},
      {"worker.cache_transfer",
       "The difference of\n" + is(What::kResumeHere) + "\n" + is(What::kResumeThere)},
      {"worker.feedback", is(What::kFeedback) + "\nless starting a slice."},
      {"worker.fresh_fiber",
       "Half of what is left of a preemption without the slice's end, a put and a take; at "
       "least:\n" +
           is(What::kSwitch)},
      {"worker.resume", "The other half, with the tail of\n" + is(What::kPreemption)},
      {"worker.notice",
       "Half of\n" + is(What::kIdle) + "\nless one poll, put, take, receive and send."},
      {"preemption.clock", "Each worker looks at the clock at checkpoints of the request."},
      {"preemption.scan",
       "A look and a reading of the clock (timer core only).\n" + is(What::kClock)},
      {"preemption.arm", is(What::kArm)},
      {"preemption.overshoot", is(What::kOvershoot)},
      {"preemption.send", is(What::kFlagSend)},
      {"preemption.propagation", is(What::kFlagSeen)},
      {"preemption.receive", is(What::kSliceEnd) + "\nless a poll, a look and starting a slice."},
      {"preemption.done", "Starting the next slice."},
  };
}

}  // namespace rubato::cli
