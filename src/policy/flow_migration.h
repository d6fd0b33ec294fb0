// SPDX-License-Identifier: Apache-2.0
//
// FlowMigration (SBB, section 4.5.1): workers tell each other how loaded they are, and one that is
// overloaded for long publishes a flow, which an idle one has steered to itself. A part of
// policies; its Worker state belongs to the worker's context. Pure; policy/contract.h says when the
// host calls what. A policy with this part steers (policy/extensions.h).
//
// What a worker publishes for all to read: its load in the two lowest bits, above them the number
// of the published flow plus one, 0 = none.
//
// Ours, where the paper is silent: a worker that stays overloaded publishes another flow after as
// many rounds again; a flow that was adopted is not published by its adopter, so that it does not
// wander, nor by the worker that it came from, where requests of it may still wait; and a rule is
// removed again when it is old and the worker that the flow came from is Light, or when its adopter
// has too many. A host that refuses to remove it is asked once more when it is old again: the flow
// may have gone, or be underway in an earlier move.
#pragma once

#include <array>

#include "base/check.h"
#include "policy/extensions.h"

namespace rubato {

class FlowMigration {
 public:
  enum class Load : uint8_t { kLight, kBusy, kOverloaded };

  // The paper does not give the thresholds. These are ours: a worker is Busy when three requests
  // come at once for three rounds, so thieves come while 3 us of work wait and not 33; and with
  // them more of its figures come out (docs/REPRODUCTION.md).
  struct Config {
    uint32_t light_to_busy = 2;
    uint32_t busy_to_overloaded = 8;
    uint32_t overloaded_to_busy = 4;
    uint32_t busy_to_light = 1;
    uint32_t rounds = 3;  // in a row before the load changes
    Nanos rule_life = Nanos::millis(100);
    bool published = false;  // 32, 48, 32, 16 as in the published code, in place of the four

    // The first option that is not at its default; null = all are.
    constexpr const char* changed() const {
      const Config plain;
      if (const char* const threshold = changed_threshold()) return threshold;
      if (rounds != plain.rounds) return "rounds";
      if (rule_life != plain.rule_life) return "rule_life";
      return published ? "published_thresholds" : nullptr;
    }
    constexpr const char* changed_threshold() const {
      const Config plain;
      if (light_to_busy != plain.light_to_busy) return "light_to_busy";
      if (busy_to_overloaded != plain.busy_to_overloaded) return "busy_to_overloaded";
      if (overloaded_to_busy != plain.overloaded_to_busy) return "overloaded_to_busy";
      return busy_to_light != plain.busy_to_light ? "busy_to_light" : nullptr;
    }
  };

  struct Adopted {
    uint64_t flow = 0;
    WorkerId from;
    Instant since;
    bool refused = false;  // to be taken back
  };
  static constexpr uint32_t kMostAdopted = 16;

  struct Given {
    uint64_t flow = 0;
    Instant since = Instant::never();
  };

  struct Worker {
    Load load = Load::kLight;
    uint32_t above = 0;  // rounds in a row over the upper threshold
    uint32_t below = 0;  // and under the lower one
    bool publish = false;  // the flow of the next request that it runs
    uint32_t adopted = 0;
    std::array<Adopted, kMostAdopted> flows{};  // of `adopted` many, oldest first
    uint64_t offered = 0;  // the flow that it has published, plus one
    uint32_t gave = 0;     // flows, ever, of which these are the last ones
    std::array<Given, kMostAdopted> given{};
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"light_to_busy", "", 1, 4096, "requests of a round above which a worker is Busy"},
      c.light_to_busy);
    v(OptionInfo{"busy_to_overloaded", "", 1, 4096, "the same from Busy to Overloaded"},
      c.busy_to_overloaded);
    v(OptionInfo{"overloaded_to_busy", "", 0, 4096, "requests of a round below which it is Busy"},
      c.overloaded_to_busy);
    v(OptionInfo{"busy_to_light", "", 0, 4096, "the same from Busy to Light"}, c.busy_to_light);
    v(OptionInfo{"rounds", "", 1, 1000, "rounds in a row that change the state"}, c.rounds);
    v(OptionInfo{"rule_life", "ms", 0, 1e6, "age from which a flow may be sent home again"},
      c.rule_life);
    v(OptionInfo{"published_thresholds", "", 0, 1,
                 "32, 48, 32, 16 as the published code has them, in place of these four"},
      c.published);
  }

  explicit constexpr FlowMigration(Config config) : config_(config) {
    if (!config.published) return;
    config_.light_to_busy = 32, config_.busy_to_overloaded = 48;
    config_.overloaded_to_busy = 32, config_.busy_to_light = 16;
  }

  static Load load_of(uint64_t hint) {
    RUBATO_DCHECK((hint & 3) <= static_cast<uint64_t>(Load::kOverloaded));
    return static_cast<Load>(hint & 3);
  }

  // Called by worker `me` when a round has begun, with the number of requests received in it.
  template <class H>
  void round(Worker& worker, WorkerId me, uint32_t received, H& host) const {
    count(worker, received);
    const uint64_t hint = host.hint(me);
    note_taken(worker, hint, host);
    // Fails if another worker has taken the flow; then the next round says it.
    if (load_of(hint) != worker.load && host.publish_hint(me, hint, hint_of(worker.load))) {
      worker.offered = 0;
    }
    unsteer_flow(worker, host);
  }

  // Called by worker `me` before it runs this job.
  template <class H>
  void running(Worker& worker, WorkerId me, const Job& job, H& host) const {
    if (!worker.publish || is_adopted(worker, job.flow)) return;
    const uint64_t hint = host.hint(me);
    note_taken(worker, hint, host);
    if (was_given(worker, job.flow, host)) return;
    const uint64_t with_flow = hint_of(worker.load) | (job.flow + 1) << 2;
    worker.publish = !host.publish_hint(me, hint, with_flow);
    if (!worker.publish) worker.offered = job.flow + 1;
  }

  // Called by a worker that has nothing to run: its next job is not of a flow that it may give
  // away.
  void idle(Worker& worker) const { worker.publish = false; }

  // Called by the idle worker `me`: takes the flow that `victim` has published. False = there is
  // none, another worker was faster, or the host cannot steer it.
  template <class H>
  bool adopt(Worker& worker, WorkerId me, WorkerId victim, H& host) const {
    const uint64_t hint = host.hint(victim);
    if (load_of(hint) != Load::kOverloaded || hint >> 2 == 0) return false;
    if (!host.publish_hint(victim, hint, hint_of(Load::kOverloaded))) return false;
    const uint64_t flow = (hint >> 2) - 1;
    if (!host.steer(flow, me)) return false;
    while (worker.adopted == kMostAdopted) forget_oldest(worker, host);
    RUBATO_DCHECK(worker.adopted < kMostAdopted);
    worker.flows[worker.adopted++] = {flow, victim, host.now()};
    return true;
  }

 private:
  static constexpr uint64_t hint_of(Load load) { return static_cast<uint64_t>(load); }

  // Three rounds in a row on one side of a threshold change the state; a round between the two
  // thresholds begins anew.
  void count(Worker& worker, uint32_t received) const {
    const bool busy = worker.load != Load::kLight;
    const uint32_t high = busy ? config_.busy_to_overloaded : config_.light_to_busy;
    const bool overloaded = worker.load == Load::kOverloaded;
    const uint32_t low = overloaded ? config_.overloaded_to_busy : config_.busy_to_light;
    worker.above = received > high ? worker.above + 1 : 0;
    worker.below = busy && received < low ? worker.below + 1 : 0;
    if (worker.above >= config_.rounds) {
      worker.above = 0;
      worker.load = busy ? Load::kOverloaded : Load::kBusy;
      worker.publish = busy;
    } else if (worker.below >= config_.rounds) {
      worker.below = 0;
      worker.load = overloaded ? Load::kBusy : Load::kLight;
      worker.publish = false;
    }
  }

  static bool is_adopted(const Worker& worker, uint64_t flow) {
    for (uint32_t i = 0; i < worker.adopted; ++i) {
      if (worker.flows[i].flow == flow) return true;
    }
    return false;
  }

  template <class H>
  void note_taken(Worker& worker, uint64_t hint, H& host) const {
    if (worker.offered == 0 || hint >> 2 != 0) return;
    worker.given[worker.gave++ % kMostAdopted] = {worker.offered - 1, host.now()};
    worker.offered = 0;
  }

  // Another worker's rule then holds for the flow, not yet old enough to be removed.
  template <class H>
  bool was_given(const Worker& worker, uint64_t flow, H& host) const {
    for (const Given& one : worker.given) {
      if (one.flow != flow || one.since == Instant::never()) continue;
      if (host.now() - one.since < config_.rule_life) return true;
    }
    return false;
  }

  // The oldest rule is removed when what it was for is over.
  template <class H>
  void unsteer_flow(Worker& worker, H& host) const {
    if (worker.adopted == 0 || host.now() - worker.flows[0].since < config_.rule_life) return;
    if (load_of(host.hint(worker.flows[0].from)) != Load::kLight) return;
    forget_oldest(worker, host);
  }

  template <class H>
  void forget_oldest(Worker& worker, H& host) const {
    RUBATO_DCHECK(worker.adopted > 0);
    const Adopted oldest = worker.flows[0];
    const bool stays = !host.unsteer(oldest.flow) && !oldest.refused;
    for (uint32_t i = 1; i < worker.adopted; ++i) worker.flows[i - 1] = worker.flows[i];
    --worker.adopted;
    if (stays) worker.flows[worker.adopted++] = {oldest.flow, oldest.from, host.now(), true};
  }

  Config config_;
};

}  // namespace rubato
