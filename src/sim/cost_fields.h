// SPDX-License-Identifier: Apache-2.0
//
// The fields of Costs by section and key, once, for readers and writers of all of them. Pure.
#pragma once

#include <array>
#include <string_view>

#include "sim/costs.h"

namespace rubato::sim {

// The smallest and largest value of a count in a cost file.
struct CountRange {
  uint32_t low, high;
};

inline constexpr Nanos kMostCost = Nanos::seconds(1);
inline constexpr Nanos kMostBetween = Nanos::seconds(3600);  // of two stalls
inline constexpr uint32_t kMostSections = 1000;  // of a request, which counts them in 16 bits
inline constexpr Nanos kMostStep = Nanos::millis(1);  // of [world]
inline constexpr Nanos kMostScan = Nanos::millis(1);  // per worker: a pass must fit 32 bits of ns

template <class Enum>
struct Word {
  std::string_view text;
  Enum value;
};

inline constexpr std::array<Word<Delivery>, 2> kDeliveryWords{
    {{"direct", Delivery::kDirect}, {"polled", Delivery::kPolled}}};
inline constexpr std::array<Word<Steering>, 4> kSteeringWords{
    {{"rss", Steering::kRss},
     {"round-robin", Steering::kRoundRobin},
     {"random", Steering::kRandom},
     {"flow-director", Steering::kFlowDirector}}};
inline constexpr std::array<Word<LatencyFrom>, 2> kLatencyFromWords{
    {{"client", LatencyFrom::kClient}, {"reception", LatencyFrom::kReception}}};
inline constexpr std::array<Word<Clock>, 3> kClockWords{{{"timer-core", Clock::kTimerCore},
                                                         {"self", Clock::kSelf},
                                                         {"dispatcher", Clock::kDispatcher}}};
inline constexpr std::array<Word<Cuts>, 2> kCutsWords{
    {{"if-gained", Cuts::kIfGained}, {"all", Cuts::kAll}}};

inline constexpr std::array<Word<WorkerClock>, 2> kWorkerClockWords{
    {{"exact", WorkerClock::kExact}, {"readings", WorkerClock::kReadings}}};
inline constexpr std::array<Word<DispatchBy>, 2> kDispatchByWords{
    {{"core", DispatchBy::kCore}, {"workers", DispatchBy::kWorkers}}};
inline constexpr std::array<Word<IdleDispatcher>, 2> kIdleDispatcherWords{
    {{"waits", IdleDispatcher::kWaits}, {"serves", IdleDispatcher::kServes}}};
inline constexpr std::array<Word<IdleOrder>, 2> kIdleOrderWords{
    {{"by-turns", IdleOrder::kByTurns}, {"lowest-first", IdleOrder::kLowestFirst}}};

inline constexpr std::array<Word<Placement>, 2> kPlacementWords{
    {{"pack", Placement::kPack}, {"spread", Placement::kSpread}}};
inline constexpr std::array<Word<Lock>, 3> kLockWords{
    {{"none", Lock::kNone}, {"spin", Lock::kSpin}, {"yield", Lock::kYield}}};
inline constexpr std::array<Word<StallLengths>, 2> kStallLengthsWords{
    {{"constant", StallLengths::kConstant}, {"exponential", StallLengths::kExponential}}};
inline constexpr std::array<Word<StallsHit>, 2> kStallsHitWords{
    {{"core", StallsHit::kCore}, {"machine", StallsHit::kMachine}}};

template <class Worker, class Visitor>
void visit_worker_fields(Worker& worker, Visitor& visitor) {
  visitor.section("worker");
  visitor.price("poll", worker.poll);
  visitor.cost("poll_look", worker.poll_look, kMostCost);
  visitor.cost("poll_between", worker.poll_between, kMostCost);
  visitor.price("receive", worker.receive);
  visitor.price("send", worker.send);
  visitor.cost("after_send", worker.after_send, kMostCost);
  visitor.word("clock", worker.clock, kWorkerClockWords);
  visitor.cost("read_clock", worker.read_clock, kMostCost);
  visitor.cost("admit", worker.admit, kMostCost);
  visitor.price("put", worker.put);
  visitor.price("take", worker.take);
  visitor.price("ordered_put", worker.ordered_put);
  visitor.price("ordered_take", worker.ordered_take);
  visitor.cost("ordered_alone", worker.ordered_alone, kMostCost);
  visitor.cost("look", worker.look, kMostCost);
  visitor.cost("look_head", worker.look_head, kMostCost);
  visitor.price("steal", worker.steal);
  visitor.cost("steal_each", worker.steal_each, kMostCost);
  visitor.cost("stolen_from", worker.stolen_from, kMostCost);
  visitor.cost("cache_transfer", worker.cache_transfer, kMostCost);
  visitor.cost("shared_line", worker.shared_line, kMostCost);
  visitor.cost("feedback", worker.feedback, kMostCost);
  visitor.price("fresh_fiber", worker.fresh_fiber);
  visitor.price("resume", worker.resume);
  visitor.cost("cut_saves", worker.cut_saves, kMostCost);
  visitor.cost("resume_alone", worker.resume_alone, kMostCost);
  visitor.cost("push", worker.push, kMostCost);
  visitor.cost("turn", worker.turn, kMostCost);
  visitor.cost("notice", worker.notice, kMostCost);
  visitor.cost("idle_round", worker.idle_round, kMostCost);
  visitor.cost("idle_round_each", worker.idle_round_each, kMostCost);
  visitor.cost("idle_round_stuck", worker.idle_round_stuck, kMostCost);
}

// The way of a request to its worker.
template <class C, class Visitor>
void visit_arrival_fields(C& c, Visitor& visitor) {
  visitor.section("machine");
  visitor.text("name", c.name);
  visitor.text("source", c.source);
  visitor.word("latency_from", c.latency_from, kLatencyFromWords);
  visitor.cost("network_rtt", c.network_rtt, kMostCost);
  visitor.cost("network_rtt_p99", c.network_rtt_p99, kMostCost);
  visitor.cost("dispatcher", c.dispatcher, kMostCost);
  visitor.word("dispatch_by", c.dispatch_by, kDispatchByWords);
  visitor.word("idle_order", c.idle_order, kIdleOrderWords);
  visitor.count("queue_capacity", c.queue_capacity, CountRange{1, 1u << 30});

  visitor.section("nic");
  visitor.word("delivery", c.nic.delivery, kDeliveryWords);
  visitor.word("steering", c.nic.steering, kSteeringWords);
  visitor.count("ring_capacity", c.nic.ring_capacity, CountRange{1, 1u << 20});
  visitor.count("burst", c.nic.burst, CountRange{1, 4096});
  visitor.cost("poll_every", c.nic.poll_every, kMostCost);
  visitor.count("poll_picks", c.nic.poll_picks, CountRange{1, 1u << 20});
  visitor.cost("help_after", c.nic.help_after, kMostCost);
  visitor.cost("help_looks", c.nic.help_looks, kMostCost);
  visitor.count("indirection_entries", c.nic.indirection_entries, CountRange{1, 65536});
  visitor.cost("pcie", c.nic.pcie, kMostCost);
  visitor.cost("rule_update", c.nic.rule_update, kMostCost);

  visitor.section("dispatcher");
  visitor.cost("completion", c.dispatching.completion, kMostCost);
  visitor.cost("put_back", c.dispatching.put_back, kMostCost);
  visitor.count("ring_capacity", c.dispatching.ring_capacity, CountRange{0, 1u << 20});
  visitor.word("idle", c.dispatching.idle, kIdleDispatcherWords);

  visitor.section("net_worker");
  visitor.cost("receive", c.net_worker.receive, kMostCost);
  visitor.count("ring_capacity", c.net_worker.ring_capacity, CountRange{0, 1u << 20});
}

template <class World, class Visitor>
void visit_world_fields(World& world, Visitor& visitor) {
  visitor.step("access", world.access, kMostStep);
  visitor.step("clock_read", world.clock_read, kMostStep);
  visitor.step("system_call", world.system_call, kMostStep);
  visitor.step("wake_up", world.wake_up, kMostStep);
  visitor.step("pause", world.pause, kMostStep);
}

// Calls visitor.section(name) and, for each of its fields, one of
//   text(key, string)  word(key, enum, words)  count(key, uint32, range)
//   cost(key, Nanos, most)  price(key, Price)  step(key, Picos, most)
// A section that is there as a whole or not at all: visitor.whole(name, section) is null, or points
// to the one whose fields come then.
// `C` is Costs or const Costs.
template <class C, class Visitor>
void visit_cost_fields(C& c, Visitor& visitor) {
  visit_arrival_fields(c, visitor);

  visit_worker_fields(c.worker, visitor);

  visitor.section("hyperthreads");
  visitor.count("threads", c.hyperthreads.threads, CountRange{0, 2 * limits::kSimulatedWorkers});
  visitor.count("slowdown", c.hyperthreads.slowdown, CountRange{100, 1000});
  visitor.word("placement", c.hyperthreads.placement, kPlacementWords);

  visitor.section("cores");
  visitor.cost("park", c.cores.park, kMostCost);
  visitor.cost("wake", c.cores.wake, kMostCost);
  visitor.cost("interrupt", c.cores.interrupt, kMostCost);
  visitor.cost("refuse", c.cores.refuse, kMostCost);
  visitor.cost("credit_message", c.cores.credit_message, kMostCost);
  visitor.cost("credit_update", c.cores.credit_update, kMostCost);

  visitor.section("manager");
  visitor.cost("step", c.manager.step, kMostCost);
  visitor.price("send", c.manager.send);
  visitor.price("receive", c.manager.receive);
  visitor.price("put", c.manager.put);

  visitor.section("noc");
  visitor.count("columns", c.noc.columns, CountRange{0, limits::kSimulatedWorkers});
  visitor.cost("per_hop", c.noc.per_hop, kMostCost);

  visitor.section("stalls");
  visitor.cost("every", c.stalls.every, kMostBetween);
  visitor.cost("length", c.stalls.length, kMostCost);
  visitor.word("lengths", c.stalls.lengths, kStallLengthsWords);
  visitor.word("hits", c.stalls.hits, kStallsHitWords);

  visitor.section("critical_sections");
  visitor.count("count", c.critical_sections.count, CountRange{0, kMostSections});
  visitor.cost("length", c.critical_sections.length, kMostCost);
  visitor.word("lock", c.critical_sections.lock, kLockWords);

  visitor.section("preemption");
  visitor.word("clock", c.preemption.clock, kClockWords);
  visitor.word("cuts", c.preemption.cuts, kCutsWords);
  visitor.cost("scan", c.preemption.scan, kMostScan);
  visitor.price("arm", c.preemption.arm);
  visitor.cost("checkpoints", c.preemption.checkpoints, kMostCost);
  visitor.cost("check", c.preemption.check, kMostCost);
  visitor.cost("check_spread", c.preemption.check_spread, kMostCost);
  visitor.price("overshoot", c.preemption.overshoot);
  visitor.price("send", c.preemption.send);
  visitor.price("propagation", c.preemption.propagation);
  visitor.price("receive", c.preemption.receive);
  visitor.cost("receive_read", c.preemption.receive_read, kMostCost);
  visitor.price("done", c.preemption.done);

  if (auto* world = visitor.whole("world", c.world)) visit_world_fields(*world, visitor);
}

}  // namespace rubato::sim
