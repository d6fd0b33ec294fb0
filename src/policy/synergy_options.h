// SPDX-License-Identifier: Apache-2.0
//
// SynergyOptions: the options of Synergy (policy/synergy.h): first those of the thesis, then what
// we add to it. A plain value.
#pragma once

#include <array>

#include "base/limits.h"
#include "policy/contract.h"
#include "policy/synergy_wait_queue.h"

namespace rubato {

struct SynergyOptions {
  uint32_t steal_threshold = 1;  // steal only from inboxes deeper than this (5.1.1.1)
  uint32_t quantum_factor = 2;
  uint32_t congested_quantum_factor = 8;
  Nanos thresh_wqd{};  // wait-queue check interval; 0 = best effort, never congested (5.1.3.1)
  Nanos quantum_initial = Nanos::micros(5);
  Nanos quantum_min = Nanos::micros(1);  // ours: bounds of the product EMA * factor
  Nanos quantum_max = Nanos::micros(200);
  uint32_t ema_shift = 3;  // ours: weight of a new sample is 2^-shift; 1 in the published code
  uint32_t ema_clip = 4;   // ours: a sample counts as at most this many EMAs; 0 = as it is
  // The components that 6.3.1 (Fig. 6.5) enables one by one; without all of them a worker runs
  // its inbox in turns of fixed_quantum, "rss-ci".
  bool stealing = true;     // +ws
  // As the published code: thieves first take one request from a worker that runs a long one.
  bool long_victims_first = false;
  bool wait_queue = true;   // +wq; without it a cut request goes to the tail of its own inbox
  bool conditional = true;  // +cp; without it every expired slice is cut
  Nanos fixed_quantum{};    // +qa is 0: the quantum follows short requests

  // What the thesis does not have: turns, levels and types, and two ideas of other systems.
  SynergyWaitQueue waiting{};
  bool migrate_flows = false;  // SBB, 4.5.1: flows of overloaded workers move to idle ones
  bool reserve = false;        // Persephone, Alg. 2: workers for short requests, by demand

  template <class V>
  static void visit(SynergyOptions& c, V& v);

  // A value of 0 that asks for nothing (long_turn, ema_clip, quantum_min) is voided by nothing.
  constexpr VoidedOption voided() const;

 private:
  static constexpr std::array<const char*, limits::kPriorityLevels> kSloNames{
      "slo_0", "slo_1", "slo_2", "slo_3", "slo_4", "slo_5", "slo_6", "slo_rest"};
  static constexpr std::array<const char*, limits::kPriorityLevels> kSloHelp{
      "waiting_by_type: SLO of unknown types, in service times",
      "SLO of type 1, in its service times",
      "SLO of type 2",
      "SLO of type 3",
      "SLO of type 4",
      "SLO of type 5",
      "SLO of type 6",
      "SLO of all other types"};
};

template <class V>
void SynergyOptions::visit(SynergyOptions& c, V& v) {
  v(OptionInfo{"steal_threshold", "", 0, limits::kInboxCapacity,
               "steal only from inboxes with more requests than this"},
    c.steal_threshold);
  v(OptionInfo{"quantum_factor", "", 1, 1000, "quantum = EMA of short service times * this"},
    c.quantum_factor);
  v(OptionInfo{"congested_quantum_factor", "", 1, 1000, "the same while waiting is congested"},
    c.congested_quantum_factor);
  v(OptionInfo{"thresh_wqd", "us", 0, 1e6, "wait-queue delay that counts as congestion; 0 = off"},
    c.thresh_wqd);
  v(OptionInfo{"quantum_initial", "us", 0.1, 1e6, "EMA before the first sample"},
    c.quantum_initial);
  v(OptionInfo{"quantum_min", "us", 0, 1e6, "lower bound of the quantum"}, c.quantum_min);
  v(OptionInfo{"quantum_max", "us", 0.1, 1e6, "upper bound of the quantum"}, c.quantum_max);
  v(OptionInfo{"ema_shift", "", 0, 16, "weight of a new EMA sample is 2^-this; published: 1"},
    c.ema_shift);
  v(OptionInfo{"ema_clip", "", 0, 1000, "samples count as at most this times the EMA; 0 = off"},
    c.ema_clip);
  v(OptionInfo{"long_turn", "us", 0, 1e7,
               "service after which a long request rotates; 0 = at every slice"},
    c.waiting.long_turn);
  v(OptionInfo{"levels", "", 1, limits::kPriorityLevels, "priority levels of long requests"},
    c.waiting.levels);
  v(OptionInfo{"stealing", "", 0, 1, "idle workers take requests from the inboxes of others"},
    c.stealing);
  v(OptionInfo{"long_victims_first", "", 0, 1,
               "thieves first take one request from a worker in a long one (published code)"},
    c.long_victims_first);
  v(OptionInfo{"wait_queue", "", 0, 1,
               "cut requests wait in the queue of all; off = at the tail of their own inbox"},
    c.wait_queue);
  v(OptionInfo{"conditional", "", 0, 1, "cut only if a request waits at that worker"},
    c.conditional);
  v(OptionInfo{"fixed_quantum", "us", 0, 1e6, "the quantum; 0 = follows short requests"},
    c.fixed_quantum);
  v(OptionInfo{"migrate_flows", "", 0, 1, "idle workers take flows from overloaded ones (sbb)"},
    c.migrate_flows);
  v(OptionInfo{"waiting_by_type", "", 0, 1,
               "a wait queue per request type, the next by its wait over its SLO"},
    c.waiting.by_type);
  for (uint32_t type = 0; type < kSloNames.size(); ++type) {
    v(OptionInfo{kSloNames[type], "", 0.001, 1e9, kSloHelp[type]}, c.waiting.slo[type]);
  }
  v(OptionInfo{"reserve", "", 0, 1,
               "as many workers as the demand of short requests take no long ones (darc)"},
    c.reserve);
}

constexpr VoidedOption SynergyOptions::voided() const {
  const SynergyOptions plain;
  const char* const fixed = fixed_quantum > Nanos() ? "fixed_quantum" : nullptr;
  const char* const uncongested = thresh_wqd == Nanos() ? "thresh_wqd=0" : nullptr;
  const char* const no_stealing = stealing ? nullptr : "stealing=off";
  const char* const no_queue = wait_queue ? nullptr : "wait_queue=off";
  const bool factor = congested_quantum_factor != plain.congested_quantum_factor;
  const bool turns = waiting.long_turn != plain.waiting.long_turn && waiting.long_turn > Nanos();
  // Where workers are reserved, it is the slice of the request that has to leave one.
  const bool least = !reserve && quantum_min != plain.quantum_min && quantum_min > Nanos();
  struct Pair {
    bool asked;
    VoidedOption voided;
  };
  const Pair pairs[] = {
      {quantum_factor != plain.quantum_factor, {"quantum_factor", fixed}},
      {factor, {"congested_quantum_factor", fixed}},
      {factor, {"congested_quantum_factor", uncongested}},
      {quantum_initial != plain.quantum_initial, {"quantum_initial", fixed}},
      {least, {"quantum_min", fixed}},
      {quantum_max != plain.quantum_max, {"quantum_max", fixed}},
      {ema_shift != plain.ema_shift, {"ema_shift", fixed}},
      {ema_clip != plain.ema_clip && ema_clip > 0, {"ema_clip", fixed}},
      {steal_threshold != plain.steal_threshold, {"steal_threshold", no_stealing}},
      {migrate_flows, {"migrate_flows", no_stealing}},
      {long_victims_first, {"long_victims_first", no_stealing}},
      {long_victims_first, {"long_victims_first", migrate_flows ? "migrate_flows=on" : nullptr}},
      {thresh_wqd > Nanos(), {"thresh_wqd", no_queue}},
      {turns, {"long_turn", no_queue}},
      {waiting.levels > 1, {"levels", no_queue}},
      {waiting.levels > 1, {"levels", waiting.by_type ? "waiting_by_type=on" : nullptr}},
      {waiting.by_type, {"waiting_by_type", no_queue}},
      {reserve, {"reserve", no_queue}},
  };
  for (const Pair& pair : pairs) {
    if (pair.asked && pair.voided.by != nullptr) return pair.voided;
  }
  for (uint32_t type = 0; !waiting.by_type && type < kSloNames.size(); ++type) {
    if (waiting.slo[type] == plain.waiting.slo[type]) continue;
    return {kSloNames[type], "waiting_by_type=off"};
  }
  return {};
}

}  // namespace rubato
