// SPDX-License-Identifier: Apache-2.0
#include "fleet/population.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rubato::fleet {
namespace {

enum Stream : uint64_t { kSource = 1, kDraws, kBalancers };
constexpr uint64_t kEnoughAnswers = 100;  // for a percentile to hedge by

uint64_t seed_of(uint64_t seed, uint64_t stream, uint64_t number) {
  Prng mixer(seed + stream * 0xd6e8feb86659fd93u + number * 0xa0761d6478bd642fu);
  return mixer.next();
}

SlotName name_in(const Appointment& event) { return {event.number, event.generation}; }

Appointment at(Instant when, Happening what, SlotName name, uint32_t other = 0) {
  return {when, what, name.index, name.generation, other, Nanos()};
}

uint64_t token_of(SlotName name) { return uint64_t{name.generation} << 32 | name.index; }
SlotName name_of(uint64_t token) {
  return {static_cast<uint32_t>(token), static_cast<uint32_t>(token >> 32)};
}

// Surges are phases of another rate.
WorkloadSpec with_surges(const ClientGroup& group) {
  WorkloadSpec workload = group.workload;
  const Mix mix = workload.mixes.front();
  for (const Episode& surge : group.surges) {
    workload.phases.push_back({surge.from, mix, workload.rate * surge.factor});
    workload.phases.push_back({surge.until, mix, workload.rate});
  }
  return workload;
}

}  // namespace

Population::Group::Group(const ClientGroup& the_spec, const Stretches& stretches, uint64_t seed)
    : spec(the_spec),
      prng(seed_of(seed, kDraws, 0)),
      hedge_after(the_spec.hedge_after),
      tally(types_of(the_spec.workload).size(), stretches) {
  const double retries = spec.retry_budget.value_or(0);
  machines.assign(spec.machines, {Budget(retries), Budget(spec.hedge_budget), {}});
  if (spec.users == 0) source.emplace(with_surges(spec), seed_of(seed, kSource, 0));
  for (const RequestType& type : types_of(spec.workload)) {
    uint8_t priority = 0;
    for (const auto& [name, value] : spec.priorities) {
      if (name == type.name) priority = value;
    }
    priorities.push_back(priority);
    outcome.types.emplace_back(type.name, Histogram());
  }
  outcome.name = spec.name;
}

Population::Population(const WorldSpec& spec, const Mix& types, Agenda& agenda)
    : spec_(spec),
      agenda_(agenda),
      end_at_(spec.length.count()) {
  const uint32_t servers = servers_in(spec);
  const Stretches stretches(spec);
  groups_.reserve(spec.clients.size());
  for (const ClientGroup& client : spec.clients) {
    Group& group = groups_.emplace_back(client, stretches,
                                         seed_of(spec.seed, kSource, groups_.size()));
    for (const RequestType& type : types_of(client.workload)) {
      const auto named = [&type](const RequestType& other) { return other.name == type.name; };
      const auto found = std::find_if(types.types().begin(), types.types().end(), named);
      group.types.push_back(static_cast<uint32_t>(found - types.types().begin()));
    }
    for (Machine& machine : group.machines) {
      machine.heard.resize(client.heeds_levels ? servers : 0);
    }
    group.first_balancer = static_cast<uint32_t>(balancers_.size());
    for (uint32_t i = 0; i < (client.shared ? 1 : client.machines); ++i) {
      balancers_.emplace_back(client.balancing, servers,
                              seed_of(spec.seed, kBalancers, balancers_.size()));
    }
  }
}

void Population::start() {
  for (uint32_t number = 0; number < groups_.size(); ++number) {
    Group& group = groups_[number];
    if (group.source) next_call_of(number);
    // Users begin as if they had thought before.
    for (uint32_t user = 0; user < group.spec.users; ++user) {
      const Nanos first = group.spec.think ? group.spec.think->sample(group.prng) : Nanos();
      agenda_.put({Instant() + first, Happening::kUserCall, number, 0, user, Nanos()});
    }
  }
}

void Population::next_call_of(uint32_t number) {
  Group& group = groups_[number];
  group.coming = group.source->next();
  if (group.coming.at < end_at_) {
    agenda_.put({group.coming.at, Happening::kCall, number, 0, 0, Nanos()});
  }
}

void Population::on_event(const Appointment& event) {
  const Instant now = event.at;
  switch (event.what) {
    case Happening::kCall: {
      const Offer offer = groups_[event.number].coming;
      next_call_of(event.number);
      return make_call(event.number, kNobody, offer, now);
    }
    case Happening::kUserCall: {
      if (now >= end_at_) return;
      Group& group = groups_[event.number];
      const Mix::Draw draw = group.spec.workload.mixes.front().sample(group.prng);
      return make_call(event.number, event.other,
                       {now, draw.service, event.other, draw.type, draw.type}, now);
    }
    case Happening::kArrive: return arrive(name_in(event), now);
    case Happening::kAnswer:
      return receive(name_in(event), static_cast<sim::Fate>(event.other), now);
    case Happening::kTimeout: return time_out(name_in(event), now);
    case Happening::kCancel: return cancel(name_in(event));
    case Happening::kRetry:
      if (requests_.find(name_in(event)) != nullptr) send_attempt(name_in(event), false, now);
      return;
    case Happening::kHedge: return hedge(name_in(event), now);
    case Happening::kProbe: {
      const overload::ServerLoad load = servers_->probe(event.number, now);
      return agenda_.put({now + event.latency, Happening::kProbed, event.number,
                          load.in_flight, event.other, load.latency});
    }
    case Happening::kProbed:
      return balancers_[event.other].learn(
          {event.number, {event.generation, event.latency}}, now);
    case Happening::kLook: return;
  }
}

// ---- Calls --------------------------------------------------------------------------------------

void Population::make_call(uint32_t number, uint32_t user, const Offer& offer, Instant now) {
  Group& group = groups_[number];
  const ClientGroup& spec = group.spec;
  const SlotName name = calls_.take();
  Call& call = calls_.at(name);
  call.group = number;
  call.user = user;
  call.machine = static_cast<uint32_t>((user != kNobody ? user : offer.flow) % spec.machines);
  call.type = offer.type;
  call.flow = offer.flow;
  call.made = now;
  call.cell = group.tally.begin(now);
  call.left = spec.fan_out;
  ++slice_of(group, now).calls;
  open_calls_ += call.cell != Stretches::kNoCell ? 1 : 0;
  if (spec.fan_out == 1) return begin_request(name, offer, Balancer::kNone, now);
  const uint32_t first = group.prng.below(servers_->size());
  for (uint32_t i = 0; i < spec.fan_out; ++i) {
    const Mix::Draw draw = spec.workload.mixes.front().sample(group.prng);
    Offer part = offer;
    if (i > 0) {
      part.service = draw.service;
      part.type = part.seen_type = draw.type;
    }
    begin_request(name, part, (first + i) % servers_->size(), now);
  }
}

void Population::end_call(SlotName name, bool served, Instant now) {
  Call call = std::move(calls_.at(name));
  calls_.give_back(name);
  for (const SlotName request : call.requests) {
    if (requests_.find(request) != nullptr) forget(request, now);
  }
  Group& group = groups_[call.group];
  const Nanos latency = now - call.made;
  FleetSlice& slice = slice_of(group, now);
  ++(served ? slice.served : slice.failed);
  if (served) slice.latency_ns += static_cast<double>(latency.count());
  open_calls_ -= call.cell != Stretches::kNoCell ? 1 : 0;
  served ? group.tally.serve(call.cell, call.type, latency) : group.tally.fail(call.cell);
  if (call.user == kNobody) return;
  const Nanos think = group.spec.think ? group.spec.think->sample(group.prng) : Nanos();
  agenda_.put({now + think, Happening::kUserCall, call.group, 0, call.user, Nanos()});
}

// ---- Requests -----------------------------------------------------------------------------------

void Population::begin_request(SlotName call, const Offer& offer, uint32_t home, Instant now) {
  const SlotName name = requests_.take();
  Request& request = requests_.at(name);
  Call& of = calls_.at(call);
  Group& group = groups_[of.group];
  of.requests.push_back(name);
  request.call = call;
  request.service = offer.service;
  request.type = group.types[offer.type];
  request.priority = group.priorities[offer.type];
  request.home = home;
  ++group.tally.counts(of.cell).requests;
  group.tally.add_work(offer.service);
  Machine& machine = group.machines[of.machine];
  machine.retries.earn();
  machine.hedges.earn();
  send_attempt(name, false, now);
  if (group.hedge_after < Nanos::max()) {
    agenda_.put(at(now + group.hedge_after, Happening::kHedge, name));
  }
}

void Population::send_attempt(SlotName name, bool is_hedge, Instant now) {
  const SlotName attempt_name = attempts_.take();
  Request& request = requests_.at(name);
  const Call& call = calls_.at(request.call);
  Group& group = groups_[call.group];
  const ClientGroup& spec = group.spec;
  Attempt& attempt = attempts_.at(attempt_name);
  attempt.request = name;
  attempt.balancer = group.first_balancer + (spec.shared ? 0 : call.machine);
  attempt.group = call.group;
  attempt.cell = call.cell;
  attempt.is_waited_for = true;
  attempt.is_cancelled = false;
  attempt.machine = call.machine;
  attempt.place = kNowhere;
  attempt.sent = {.offer = {now, request.service, call.flow * 8191 + call.machine, request.type,
                            request.type},
                  .token = token_of(attempt_name),
                  .priority = request.priority,
                  .deadline = spec.deadlines ? now + spec.timeout : Instant::never()};
  Balancer& balancer = balancers_[attempt.balancer];
  const bool at_home = request.home != Balancer::kNone && request.tries == 0 && !is_hedge;
  if (at_home) balancer.send(request.home);
  attempt.server = at_home ? request.home : balancer.pick(now, request.last_server);
  request.last_server = attempt.server;
  request.waiting.push_back(attempt_name);
  CallCounts& counts = group.tally.counts(call.cell);
  request.tries += is_hedge ? 0 : 1;
  attempt.is_withheld = group.machines[call.machine].withholds(attempt, now);
  if (attempt.is_withheld) {
    return agenda_.put(at(now, Happening::kAnswer, attempt_name,
                          static_cast<uint32_t>(sim::Fate::kRefused)));
  }
  counts.hedges += is_hedge ? 1 : 0;
  counts.retries += !is_hedge && request.tries > 1 ? 1 : 0;
  ++counts.attempts;
  ++slice_of(group, now).attempts;
  agenda_.put(at(now + way_of(group), Happening::kArrive, attempt_name));
  if (spec.timeout < Nanos::max()) {
    agenda_.put(at(now + spec.timeout, Happening::kTimeout, attempt_name));
  }
  for (uint32_t i = 0; balancer.probes() && i < Balancer::kProbesPerRequest; ++i) {
    agenda_.put({now + way_of(group), Happening::kProbe, balancer.draw(), 0, attempt.balancer,
                 spec.rtt / 2});
  }
}

bool Population::Machine::withholds(const Attempt& attempt, Instant now) {
  if (heard.empty()) return false;
  const overload::Urgency urgency{.priority = attempt.sent.priority,
                                  .user = attempt.sent.offer.flow};
  const uint32_t level = overload::level_of(urgency, attempt.sent.token, now);
  return heard[attempt.server].withholds(level, now);
}

void Population::arrive(SlotName name, Instant now) {
  Attempt& attempt = attempts_.at(name);
  if (attempt.is_cancelled) return attempts_.give_back(name);  // the cancellation was faster
  sim::SentRequest sent = attempt.sent;
  sent.offer.at = now;
  attempt.place = servers_->send(attempt.server, sent);
}

// Nobody tells the client that a request was lost: it waits until it is tired of that, or, if it
// never is, hears of it at once.
void Population::answered(uint64_t token, sim::Fate fate, Instant when) {
  const SlotName name = name_of(token);
  Attempt& attempt = attempts_.at(name);
  attempt.place = kNowhere;
  attempt.levels = servers_->admitted_levels(attempt.server);
  Group& group = groups_[attempt.group];
  Instant heard = when;
  if (fate != sim::Fate::kLost) {
    heard = when + way_of(group);
  } else if (group.spec.timeout < Nanos::max()) {
    heard = std::max(when, attempt.sent.offer.at + group.spec.timeout);
  }
  agenda_.put(at(heard, Happening::kAnswer, name, static_cast<uint32_t>(fate)));
}

void Population::stop_waiting(SlotName name) {
  Attempt& attempt = attempts_.at(name);
  attempt.is_waited_for = false;
  balancers_[attempt.balancer].ended(attempt.server);
}

// Before its answer: the server may be told.
void Population::give_up(SlotName name, Instant now) {
  stop_waiting(name);
  const Attempt& attempt = attempts_.at(name);
  Group& group = groups_[attempt.group];
  if (!group.spec.cancels) return;
  ++group.tally.counts(attempt.cell).cancelled;
  agenda_.put(at(now + way_of(group), Happening::kCancel, name));
}

// It may have been answered meanwhile.
void Population::cancel(SlotName name) {
  Attempt* const attempt = attempts_.find(name);
  if (attempt == nullptr) return;
  attempt->is_cancelled = true;
  if (attempt->place != kNowhere) servers_->cancel(attempt->place);
}

void Population::receive(SlotName name, sim::Fate fate, Instant now) {
  const Attempt attempt = attempts_.at(name);
  Group& group = groups_[attempt.group];
  if (attempt.is_waited_for) stop_waiting(name);
  attempts_.give_back(name);
  auto& heard = group.machines[attempt.machine].heard;
  if (!attempt.is_withheld && !heard.empty()) heard[attempt.server].hear(attempt.levels, now);
  if (!attempt.is_waited_for) {
    group.tally.counts(attempt.cell).wasted += fate == sim::Fate::kServed ? 1 : 0;
    return;
  }
  std::erase(requests_.at(attempt.request).waiting, name);
  if (fate == sim::Fate::kServed) return succeed(attempt.request, now);
  CallCounts& counts = group.tally.counts(attempt.cell);
  ++(attempt.is_withheld ? counts.withheld : counts.refusals);
  fail_attempt(attempt.request, group.spec.retries_refused, now);
}

void Population::time_out(SlotName name, Instant now) {
  Attempt* const attempt = attempts_.find(name);
  if (attempt == nullptr || !attempt->is_waited_for) return;
  const SlotName owner = attempt->request;
  Request& request = requests_.at(owner);
  give_up(name, now);
  std::erase(request.waiting, name);
  ++groups_[attempt->group].tally.counts(attempt->cell).timeouts;
  fail_attempt(owner, true, now);
}

void Population::succeed(SlotName name, Instant now) {
  const SlotName call_name = requests_.at(name).call;
  Call& call = calls_.at(call_name);
  Group& group = groups_[call.group];
  if (group.spec.hedge_percentile > 0) group.answers.record(now - call.made);
  forget(name, now);
  if (--call.left == 0) end_call(call_name, true, now);
}

// While another attempt is underway it is waited for; else there is a next one, or the call fails.
void Population::fail_attempt(SlotName name, bool may_retry, Instant now) {
  Request& request = requests_.at(name);
  if (!request.waiting.empty()) return;
  const SlotName call_name = request.call;
  Group& group = groups_[calls_.at(call_name).group];
  const ClientGroup& spec = group.spec;
  bool retries = may_retry && request.tries < spec.attempts;
  if (retries && spec.retry_budget) {
    const Call& call = calls_.at(call_name);
    retries = group.machines[call.machine].retries.spend();
    group.tally.counts(call.cell).over_budget += retries ? 0 : 1;
  }
  if (!retries) return end_call(call_name, false, now);
  const double doubled = std::ldexp(static_cast<double>(spec.backoff.count()),
                                    static_cast<int>(request.tries) - 1);
  const double most = std::min(doubled, static_cast<double>(spec.longest_backoff.count()));
  const Nanos pause(static_cast<int64_t>(group.prng.uniform() * most));  // "full jitter"
  agenda_.put(at(now + pause, Happening::kRetry, name));
}

void Population::hedge(SlotName name, Instant now) {
  Request* const request = requests_.find(name);
  if (request == nullptr || request->is_hedged || request->waiting.empty()) return;
  const Call& call = calls_.at(request->call);
  Group& group = groups_[call.group];
  request->is_hedged = true;
  if (group.machines[call.machine].hedges.spend()) return send_attempt(name, true, now);
  ++group.tally.counts(call.cell).over_budget;
}

// The request is over, for the client. Servers go on with its attempts, unless they are told.
void Population::forget(SlotName name, Instant now) {
  Request& request = requests_.at(name);
  for (const SlotName attempt : request.waiting) give_up(attempt, now);
  request.waiting.clear();
  requests_.give_back(name);
}

// ---- The rest -----------------------------------------------------------------------------------

Nanos Population::way_of(Group& group) {
  const Nanos half = group.spec.rtt / 2;
  return group.spec.jitter ? half + group.spec.jitter->sample(group.prng) : half;
}

FleetSlice& Population::slice_of(Group& group, Instant now) {
  const auto number = static_cast<size_t>(now.ns() / spec_.slice.count());
  std::vector<FleetSlice>& slices = group.outcome.slices;
  if (slices.size() <= number) slices.resize(number + 1);
  return slices[number];
}

void Population::look(Instant) {
  const std::vector<int>& weights = servers_->weights();
  for (Group& group : groups_) {
    if (group.spec.balancing == Balancing::kWeights) {
      for (uint32_t i = 0; i < (group.spec.shared ? 1 : group.spec.machines); ++i) {
        balancers_[group.first_balancer + i].learn_weights(weights);
      }
    }
    if (group.spec.hedge_percentile > 0 && group.answers.count() >= kEnoughAnswers) {
      group.hedge_after = std::max(Nanos(1), group.answers.percentile(group.spec.hedge_percentile));
    }
  }
}

void Population::mark(Instant now) {
  for (Group& group : groups_) group.tally.mark(now);
}

std::vector<GroupOutcome> Population::take_outcomes() {
  std::vector<GroupOutcome> outcomes;
  for (Group& group : groups_) {
    group.outcome.left_out = group.tally.unmeasured();
    group.outcome.batches = group.tally.take();
    outcomes.push_back(std::move(group.outcome));
  }
  return outcomes;
}

}  // namespace rubato::fleet
