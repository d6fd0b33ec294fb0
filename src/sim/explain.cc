// SPDX-License-Identifier: Apache-2.0
#include "sim/explain.h"

#include <cstdio>

#include "base/name_list.h"
#include "sim/nic.h"
#include "sim/core_allocation.h"

namespace rubato::sim {
namespace {

using Lines = std::vector<std::string>;

std::string text(Nanos time) { return std::to_string(time.count()) + " ns"; }

std::string text(const Price& price) {
  if (price.tail <= price.typical) return text(price.typical);
  return text(price.typical) + " (1 in " + std::to_string(Price::kTailEvery) + ": " +
         text(price.tail) + ")";
}

bool is_free(const Price& price) { return price.typical == Nanos() && price.tail == Nanos(); }

std::string percent(double share) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.3g %%", share * 100);
  return digits;
}

const char* arrivals_line(ArrivalShape shape) {
  switch (shape) {
    case ArrivalShape::kPoisson:
      return "requests come independently of each other (Poisson)";
    case ArrivalShape::kUniform:
      return "requests come at equal distances";
    case ArrivalShape::kOnOff:
      return "requests come for 1 ms at twice the rate (Poisson), then none for 1 ms, and so on";
    case ArrivalShape::kBatch:
      return "requests come in batches of geometric size, the batches independently (Poisson)";
    case ArrivalShape::kBursty:
      return "requests come independently at a rate that jumps between two values (Poisson bursts)";
    case ArrivalShape::kTrace:
      return "requests come as in the trace, which repeats";
    case ArrivalShape::kProfile:
      return "requests come as unevenly as in the profile on each of its time scales, finer ones "
             "apart (a random cascade); another rate stretches time";
  }
  return "";
}

void explain_classifier(const Misclassification& errors, Lines& lines) {
  if (errors.random) {
    lines.emplace_back("the classifier takes each request for any type, all equally likely");
  } else if (errors.error_rate > 0) {
    lines.push_back("the classifier takes " + percent(errors.error_rate) +
                    " of the requests for another type");
  } else {
    lines.emplace_back("the type of every request is known, and known right, at no cost");
  }
}

void explain_workload(const WorkloadSpec& workload, Lines& lines) {
  lines.emplace_back("clients never wait, retry or give up (open loop)");
  if (workload.trace != nullptr) {
    lines.push_back("requests repeat a recording of " + std::to_string(workload.trace->requests()));
  } else {
    lines.emplace_back(arrivals_line(workload.arrivals.shape));
    lines.emplace_back("service times are drawn independently of each other and of the arrivals");
    const FlowSpec& flows = workload.flows;
    lines.push_back("requests belong to " + std::to_string(flows.count) + " flows, " +
                    (flows.in_turn    ? "by turns"
                     : flows.zipf > 0 ? "some more often than others (Zipf)"
                                      : "each equally likely"));
  }
  if (!workload.phases.empty()) {
    lines.push_back("the mix changes " + std::to_string(workload.phases.size()) +
                    " times, from one request to the next");
  }
  explain_classifier(workload.misclassification, lines);
  lines.emplace_back(
      "a service time does not depend on the worker, on what ran before, or on the "
      "load");
}

void explain_clients(const Setup& setup, Lines& lines) {
  const Costs& costs = setup.costs;
  lines.emplace_back(
      "latency runs from the moment a request is due to its reply at the client; "
      "slowdown divides it by the service time that was drawn");
  lines.push_back("arrivals of the first " + percent(setup.warmup) +
                  " of the run's time are not measured");
  lines.push_back(costs.network_rtt == Nanos()
                      ? "there is no network: clients sit at the NIC"
                      : "the network adds " + text(costs.network_rtt) +
                            " to every latency, half on each way; it loses and reorders nothing");
}

const char* steering_line(Steering steering) {
  switch (steering) {
    case Steering::kRss:
      return "the NIC steers by flow: Toeplitz hash of addresses and ports, indirection table "
             "filled by turns";
    case Steering::kRoundRobin:
      return "the NIC hands requests to the workers by turns, whatever their flow";
    case Steering::kRandom:
      return "the NIC hands each request to a worker drawn at random, whatever its flow";
    case Steering::kFlowDirector:
      return "the NIC steers by flow: RSS, until the flow's own rule is in force; rules spread "
             "flows evenly";
  }
  return "";
}

std::string held_by(uint32_t capacity) {
  if (capacity == 0) return "holds any number";
  return "loses what finds " + std::to_string(capacity) + " waiting";
}

void explain_nic(const Setup& setup, Lines& lines) {
  const Costs::Nic& nic = setup.costs.nic;
  if (setup.workers > 1) lines.push_back(steering_line(nic.steering));
  const bool by_flow =
      nic.steering == Steering::kFlowDirector || nic.steering == Steering::kRss;
  lines.push_back(by_flow ? "policies may have a flow steered to another worker; the NIC writes "
                            "one rule at a time, " + text(nic.rule_update) + " each, and holds " +
                                std::to_string(Nic::kMostRules)
                          : "no policy can have a flow steered to another worker");
  if (nic.pcie > Nanos()) {
    lines.push_back("between wire and software lie " + text(nic.pcie) + " on each way");
  }
  if (const Costs::NetWorker& net = setup.costs.net_worker; net.receive > Nanos()) {
    lines.push_back("a net worker receives for all, " + text(net.receive) + " per request, and " +
                    held_by(net.ring_capacity));
  }
  if (has_dispatcher(setup.costs)) {
    const Costs::Dispatching& more = setup.costs.dispatching;
    lines.push_back("a dispatcher in front of the workers takes " + text(setup.costs.dispatcher) +
                    " per request, " + text(more.completion) + " per completion and " +
                    text(more.put_back) + " per request that comes back cut, one at a time, and " +
                    held_by(more.ring_capacity));
    if (more.idle == IdleDispatcher::kServes) {
      lines.emplace_back("the last worker is that dispatcher, between all that it does for others");
    }
  }
  if (setup.costs.dispatching.idle == IdleDispatcher::kWaits) {
    lines.emplace_back(
        "a dispatcher that the policy has is one of its own, not one of the workers; "
        "what it spends delays the arrivals behind it");
  }
  if (nic.delivery == Delivery::kDirect) {
    lines.push_back(
        "a request is in the policy's queue as soon as it has arrived, at no worker's "
        "expense");
    return;
  }
  lines.push_back("each worker has a ring of " + std::to_string(nic.ring_capacity) +
                  " requests; what arrives when it is full is lost");
  lines.push_back(
      "a worker polls its ring when the queue it receives into is empty, and takes up "
      "to " +
      std::to_string(nic.burst) + "; other workers see only what it has taken");
  if (nic.poll_every > Nanos()) {
    lines.push_back("a busy worker polls " + text(nic.poll_every) + " or " +
                    std::to_string(nic.poll_picks) + " requests after its last poll");
  }
  if (nic.help_after > Nanos()) {
    lines.push_back("idle workers take from the ring of one that has not polled for " +
                    text(nic.help_after) + ", unless requests are for their own worker only");
  }
}

void explain_classes(const Setup& setup, Lines& lines) {
  const std::string of_long_type =
      "a request of a type whose mean service is " + text(setup.long_over) + " or more is ";
  switch (setup.classify) {
    case Classify::kFeedback:
      lines.push_back(of_long_type + "announced as long when it starts (" +
                      text(setup.costs.worker.feedback) + ")");
      break;
    case Classify::kDeclared:
      lines.push_back(of_long_type + "known to be long when it arrives");
      break;
    case Classify::kLearned:
      lines.emplace_back("a request is taken to be long if its kind was so before");
      [[fallthrough]];
    case Classify::kAge:
      lines.emplace_back("a request is known to be long once it has run for a whole slice");
      break;
  }
}

void explain_refusals(const Setup& setup, Lines& lines) {
  if (setup.limiter) {
    lines.emplace_back("a limiter decides which requests come in, for all workers together; its "
                       "decisions cost nothing");
  }
  if (!setup.refusal_rule) return;
  lines.push_back("a worker that has not run out of work for " +
                  text(setup.refusal_rule->patience) +
                  " refuses requests that have waited for more than " +
                  text(setup.refusal_rule->refuse_delay()));
}

struct Named {
  const char* name;
  Price price;
};

void explain_prices(const Costs& costs, Lines& lines) {
  const Costs::Worker& w = costs.worker;
  const Named all[] = {{"a poll", w.poll},
                       {"what else a poll between requests takes", {w.poll_between, {}}},
                       {"receiving a request", w.receive},
                       {"sending a reply", w.send},
                       {"a put", w.put},
                       {"a take", w.take},
                       {"a look at another queue", {w.look, {}}},
                       {"what a look at its head takes beside that", {w.look_head, {}}},
                       {"a steal", w.steal},
                       {"each further job of a steal", {w.steal_each, {}}},
                       {"being stolen from", {w.stolen_from, {}}},
                       {"going to a fresh fiber", w.fresh_fiber},
                       {"resuming", w.resume}};
  std::string dear, free;
  for (const Named& verb : all) {
    std::string& list = is_free(verb.price) ? free : dear;
    add_name(list, verb.name);
    if (!is_free(verb.price)) list += ' ' + text(verb.price);
  }
  if (!dear.empty()) lines.push_back("on a worker cost: " + dear);
  if (!free.empty()) lines.push_back("on a worker cost nothing: " + free);
}

void explain_idle(const Costs& costs, Lines& lines) {
  const Costs::Worker& w = costs.worker;
  if (w.idle_round + w.idle_round_each > Nanos()) {
    lines.push_back("idle workers look round, once in " + text(w.idle_round) + " and " +
                    text(w.idle_round_each) +
                    " for every worker, " + text(w.idle_round_stuck) +
                    " more for one that does not come to its ring, with what the looks cost; the "
                    "first to come round to a request takes it, after " +
                    text(w.poll_between + w.notice));
  } else {
    lines.push_back("idle workers notice work after " + text(w.notice) +
                    "; of several that could take it the " +
                    (costs.idle_order == IdleOrder::kByTurns ? "next by turns" : "lowest") +
                    " does");
  }
  if (w.clock == WorkerClock::kReadings) {
    lines.emplace_back(
        "waits, slices and services count from the worker's last reading of its clock: after a "
        "poll, a reply or the end of a slice; it comes to its next step when it has paid for the "
        "last one, and finds what has come meanwhile");
  }
}

// What workers wait for that others have.
std::string but_for(const Costs& costs) {
  const Costs::Worker& w = costs.worker;
  std::string kept;
  if (w.ordered_alone > Nanos()) {
    add_name(kept, "a queue in the order of its words, which each put and take keeps for " +
                       text(w.ordered_alone));
  }
  if (w.shared_line > Nanos()) {
    add_name(kept, "the line of a queue that another worker used last, which costs a put or take " +
                       text(w.shared_line) + " more, one worker after the other");
  }
  if (costs.critical_sections.lock != Lock::kNone) add_name(kept, "that of critical sections");
  return kept.empty() ? kept : " but for " + kept;
}

void explain_hyperthreads(const Costs::Hyperthreads& h, Lines& lines) {
  if (h.threads == 0) return;
  lines.push_back("workers run on " + std::to_string(h.threads) +
                  " hardware threads, two per core; one that gets a thread gets it " +
                  (h.placement == Placement::kPack ? "beside one that is alone on its core"
                                                   : "on a core of its own") +
                  " if it can; work takes " + std::to_string(h.slowdown) +
                  " % of its time while the sibling serves, too, and slices are of work; an idle "
                  "sibling costs nothing, nor does one that only has to send its last reply");
}

void explain_workers(const Setup& setup, Lines& lines) {
  const Costs& costs = setup.costs;
  const bool stalls = costs.stalls.every > Nanos() && costs.stalls.length > Nanos();
  explain_hyperthreads(costs.hyperthreads, lines);
  const char* const place = costs.hyperthreads.threads > 0 ? "workers are all alike, and nothing "
                                                           : "workers have a core each, all alike, "
                                                             "and nothing ";
  lines.push_back(place +
                  std::string(stalls ? "but stalls takes it from them" : "else runs there") +
                  "; they poll and never sleep");
  explain_idle(costs, lines);
  lines.push_back("a policy's queue holds " + std::to_string(costs.queue_capacity) +
                  " requests; what comes when it is full is refused");
  explain_prices(costs, lines);
  lines.push_back("prices do not grow with contention: no lock waits" + but_for(costs) +
                  ", no retry, no memory bandwidth");
  lines.push_back(
      "a decision takes effect when it begins, and its price delays what the worker "
      "does next");
  const bool mesh = costs.noc.columns > 0 && costs.noc.per_hop > Nanos();
  std::string moved = "a request that goes on on another worker costs " +
                      text(costs.worker.cache_transfer) + " there";
  if (mesh) {
    moved += ", and " + text(costs.noc.per_hop) + " per hop in a mesh of " +
             std::to_string(costs.noc.columns) + " columns";
  }
  lines.push_back(moved + "; caches are otherwise as good on any worker");
}

void explain_managers(const Costs& costs, Lines& lines) {
  const Costs::Manager& m = costs.manager;
  lines.push_back("managers that a policy has are cores of their own, beside the first worker of "
                  "their group, and do one thing after the other: " +
                  text(m.step) + " per prediction, " + text(m.send) +
                  " to send a message (once for all who are told the same), " + text(m.receive) +
                  " to receive jobs, " + text(m.put) + " to hand a request to a worker");
  if (costs.noc.columns > 0 && costs.noc.per_hop > Nanos()) {
    lines.push_back("a message between managers takes " + text(costs.noc.per_hop) +
                    " per hop of the mesh, however many requests it carries");
  }
}

void explain_stalls(const Costs& costs, Lines& lines) {
  const Costs::Stalls& s = costs.stalls;
  if (s.every == Nanos() || s.length == Nanos()) return;
  const bool machine = s.hits == StallsHit::kMachine;
  const double share =
      static_cast<double>(s.length.count()) / static_cast<double>(s.every.count());
  lines.push_back(std::string(machine ? "the whole machine stalls" : "each core stalls") +
                  " every " + text(s.every) + " on average (Poisson), for " + text(s.length) +
                  (s.lengths == StallLengths::kExponential ? " on average (exponential)" : "") +
                  ", " + percent(share) +
                  " of the time: what is due there comes that much later, the end of a slice too");
  if (!machine) {
    lines.emplace_back("stalls of different cores are independent; they spare managers, "
                       "dispatcher, timer core and the allocator of cores");
  }
}

void explain_sections(const Costs::CriticalSections& sections, Lines& lines) {
  const std::string cost = "; what a cut costs is not part of its service time";
  if (sections.count == 0) {
    lines.push_back("a request may be cut anywhere: there are no critical sections" + cost);
    return;
  }
  lines.push_back("a request may be cut but in " + std::to_string(sections.count) +
                  " critical sections of " + text(sections.length) +
                  ", evenly from its beginning to its end: a slice that ends in one ends with it" +
                  cost);
  switch (sections.lock) {
    case Lock::kNone:
      lines.emplace_back("critical sections are each request's own: no other one waits for them");
      return;
    case Lock::kSpin:
      lines.emplace_back("critical sections take one lock, in the order in which requests come to "
                         "them; a request that finds it taken waits on its worker");
      return;
    case Lock::kYield:
      lines.emplace_back("critical sections take one lock, in the order in which requests come to "
                         "them; a request that finds it taken waits on its worker, but a long one "
                         "first lets that serve another one");
      return;
  }
}

void explain_slices(const Setup& setup, Lines& lines) {
  const Costs::Preemption& p = setup.costs.preemption;
  if (p.clock == Clock::kTimerCore) {
    lines.push_back("a timer core of its own, not one of the workers, checks one worker every " +
                    text(p.scan) + "; looking is free for the workers");
    lines.push_back("it sends one notification at a time: " + text(p.send) + " to send, " +
                    text(p.propagation) + " on the way, " + text(p.receive) +
                    " on the worker; one that comes too late costs the next request " +
                    text(p.receive.typical + p.done.typical));
  } else {
    const std::string late =
        p.checkpoints > Nanos() ? "at checkpoints, one every " + text(p.checkpoints) +
                                      " of work, a look at which costs " + text(p.check) +
                                      (p.check_spread > Nanos()
                                           ? ", up to " + text(p.check_spread) + " less or more"
                                           : "")
                                : text(p.overshoot) + " late";
    lines.push_back("each worker's own timer ends its slices, " + late + "; the interrupt costs " +
                    text(p.receive) + ", and " + text(p.done) +
                    " more when the request goes on at once");
  }
  lines.push_back("starting a slice costs " + text(p.arm));
  explain_sections(setup.costs.critical_sections, lines);
}

void explain_elastic(const Setup& setup, Lines& lines) {
  if (!setup.elastic) return;
  const ElasticSetup& elastic = *setup.elastic;
  const Costs& costs = setup.costs;
  lines.push_back("the clients are " + std::to_string(elastic.clients.sessions) +
                  " sessions, each of its flows; half a round trip has a fixed part and an "
                  "exponential one" +
                  (costs.network_rtt_p99 > costs.network_rtt
                       ? ", 99 % of round trips take less than " + text(costs.network_rtt_p99)
                       : " that is 0 here"));
  if (elastic.uses_credits) {
    lines.push_back("a session sends what its credits allow, and sheds what waits for one longer "
                    "than " +
                    (elastic.clients.expiry == Nanos::max() ? std::string("forever")
                                                            : text(elastic.clients.expiry)) +
                    "; latencies begin when it has the request");
    lines.push_back("a request is dropped, at " + text(costs.cores.refuse) +
                    " of a worker's time, while others have waited for " +
                    text(elastic.credits.refuse_delay) + "; a message with credits only costs " +
                    text(costs.cores.credit_message));
    if (costs.cores.credit_update > Nanos()) {
      lines.push_back("credits that idle cores withhold or return within " +
                      text(costs.cores.credit_update) + " of an update of the total are lost");
    }
  }
  lines.push_back("cores are allocated by '" + elastic.cores + "'; to wake one takes " +
                  text(costs.cores.wake) + ", to park it " + text(costs.cores.park) +
                  ", and both count as in use; idle ones ask every " +
                  text(CoreAllocation::kAskAgain));
  lines.push_back(costs.cores.interrupt > Nanos()
                      ? "a packet of a parked worker's wakes it, and nobody else, in " +
                            text(costs.cores.interrupt) + "; an idle one asks at once"
                      : "flows of a parked worker go to the next one that is awake, at once");
}

}  // namespace

std::vector<std::string> explain(const Setup& setup) {
  Lines lines;
  lines.push_back("costs are those of '" + setup.costs.name + "': " + setup.costs.source);
  explain_workload(setup.workload, lines);
  explain_clients(setup, lines);
  explain_nic(setup, lines);
  explain_classes(setup, lines);
  explain_refusals(setup, lines);
  explain_workers(setup, lines);
  explain_stalls(setup.costs, lines);
  explain_managers(setup.costs, lines);
  explain_slices(setup, lines);
  explain_elastic(setup, lines);
  lines.emplace_back("replies are never lost, and cost the client nothing");
  return lines;
}

}  // namespace rubato::sim
