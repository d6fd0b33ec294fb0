// SPDX-License-Identifier: Apache-2.0
//
// ALTOCUMULUS: workers stand in groups with a manager each. A manager hands the requests of its
// group to workers (JBSQ), predicts from the lengths of all groups' queues which requests will miss
// their SLO, and sends those to other groups before they do. Pure; policy/contract.h says when the
// host calls what, policy/altocumulus_model.h how the prediction is made.
//
// A manager needs no core of its own here: it is a context that the host fills.
#pragma once

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/limits.h"
#include "policy/altocumulus_model.h"
#include "policy/contract.h"
#include "policy/dynamic_quantum.h"
#include "policy/extensions.h"

namespace rubato {

class Altocumulus {
 public:
  static constexpr const char* kName = "altocumulus";
  static constexpr const char* kSummary =
      "groups of workers; managers send requests on before they miss their SLO";
  static constexpr const char* kSource = "Altocumulus, MICRO 2022, sections III to VI, Algorithm 1";
  static constexpr Preempts kPreempts = Preempts::kLong;  // inside = synergy only
  static constexpr std::array<QueueDeclaration, 3> kQueues{{
      {"netrx", Scope::kPerManager, Sharing::kManaged},
      {"local", Scope::kPerWorker, Sharing::kShared},
      {"waiting", Scope::kPerManager, Sharing::kShared},  // preempted; inside = synergy only
  }};
  static constexpr std::array<const char*, 4> kMessageKinds{"update", "migrate", "ack", "nack"};

  struct Config {
    uint32_t group = 15;   // workers per manager (VIII-B: 16 cores, one of them the manager)
    uint32_t k = 2;        // requests at a worker, the one that runs included
    Nanos period = Nanos(200);  // VIII-C; also bulk and concurrency
    uint32_t bulk = 16;
    uint32_t concurrency = 8;
    bool migrate = true;   // off: groups on their own, the baseline of the outcomes
    uint32_t distribution = 0;  // constants of equation 2: 0 fixed, 1 uniform, 2 bimodal, 3 own
    double a = altocumulus::kFixed.a;
    double b = altocumulus::kFixed.b;
    double c = altocumulus::kFixed.c;
    double d = altocumulus::kFixed.d;
    uint32_t upper_bound = 0;  // L of the threshold k * L + 1 in place of the model; 0 = the model
    uint32_t load_shift = 10;  // ours: the load is an average over about 2^this periods
    // V-B: a message register per waiting descriptor. The paper computes 11 for a load near 1, its
    // own example sends to a queue of 30; with fewer registers messages are refused.
    uint32_t registers = 128;
    uint32_t fifo = 16;  // descriptors accepted per step
    bool inside_synergy = false;
    uint32_t quantum_factor = 2;  // then

    constexpr VoidedOption voided() const {
      constexpr std::array<const char*, 3> kGiven{"distribution=0", "distribution=1",
                                                  "distribution=2"};
      const Config plain;
      const char* by = distribution < kGiven.size() ? kGiven[distribution] : nullptr;
      if (upper_bound > 0) {
        by = "upper_bound";
        if (distribution != plain.distribution) return {"distribution", by};
      }
      if (by != nullptr) {
        if (a != plain.a) return {"a", by};
        if (b != plain.b) return {"b", by};
        if (c != plain.c) return {"c", by};
        if (d != plain.d) return {"d", by};
      }
      if (!inside_synergy && quantum_factor != plain.quantum_factor) {
        return {"quantum_factor", "inside_synergy=off"};
      }
      return {};
    }
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"group", "", 1, limits::kMaxWorkers, "workers per manager"}, c.group);
    v(OptionInfo{"k", "", 1, 64, "requests at a worker, the one that runs included"}, c.k);
    v(OptionInfo{"period", "us", 0.01, 1e6, "time between two predictions"}, c.period);
    v(OptionInfo{"bulk", "", 1, 4096,
                 "imbalance that counts; requests per migration, 16 per destination at most"},
      c.bulk);
    v(OptionInfo{"concurrency", "", 1, limits::kMaxManagers, "destinations of a migration"},
      c.concurrency);
    v(OptionInfo{"migrate", "", 0, 1, "off = every group on its own"}, c.migrate);
    v(OptionInfo{"distribution", "", 0, 3,
                 "constants of the threshold: 0 fixed, 1 uniform, 2 bimodal, 3 = a to d"},
      c.distribution);
    v(OptionInfo{"a", "", 0, 1e6, "T = a * (c * Nq + d) + b"}, c.a);
    v(OptionInfo{"b", "", -1e6, 1e6, "see a"}, c.b);
    v(OptionInfo{"c", "", 0, 1e6, "see a"}, c.c);
    v(OptionInfo{"d", "", -1e6, 1e6, "see a"}, c.d);
    v(OptionInfo{"upper_bound", "", 0, 1e6, "L of the threshold k * L + 1; 0 = by the model"},
      c.upper_bound);
    v(OptionInfo{"load_shift", "", 0, 24, "weight of a new sample of the load is 2^-this"},
      c.load_shift);
    v(OptionInfo{"registers", "", 1, 1e6, "requests a group may hold to accept others"},
      c.registers);
    v(OptionInfo{"fifo", "", 1, 4096, "requests a manager accepts per step"}, c.fifo);
    v(OptionInfo{"inside_synergy", "", 0, 1,
                 "in a group: preemption, a wait queue and stealing as in synergy"},
      c.inside_synergy);
    v(OptionInfo{"quantum_factor", "", 1, 1000, "inside_synergy: quantum = EMA * this"},
      c.quantum_factor);
  }

  struct Worker {
    Nanos short_service;  // average of requests never marked long
  };
  struct Manager {
    altocumulus::QueueLengths q{};  // of all groups, as far as told
    double load = 0;                // Erlangs offered to the group
    Instant due;                    // of the next prediction
    uint32_t sent_length = 0;              // what the others know of this queue
    uint32_t held = 0;              // jobs in hand, as their queue had no room
    std::array<Job*, limits::kMessageJobs + 1> hand{};
  };
  using Central = None;
  using Plan = None;

  explicit constexpr Altocumulus(Config config) : config_(config) {}

  bool interchangeable() const { return !config_.inside_synergy; }

  // Groups of equal size, as near as can be.
  uint32_t managers(uint32_t workers) const {
    const uint32_t wanted = (workers + config_.group - 1) / config_.group;
    return std::min(wanted, limits::kMaxManagers);
  }
  ManagerId manager_of(WorkerId worker, uint32_t workers) const {
    return {worker.value * managers(workers) / workers};
  }

  template <class H>
  QueueRef route(const Job&, WorkerId at, H& host) const {
    return netrx(manager_of(at, host.workers()));
  }

  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    if (Job* job = host.take(local(me.value))) return job;
    if (!config_.inside_synergy) return nullptr;
    const ManagerId group = manager_of(me, host.workers());
    if (Job* job = host.take(waiting(group))) return job;
    return steal(me, group, host);
  }

  // Algorithm 1, and the messages of section V.
  template <class H>
  Instant manage(Manager& manager, ManagerId me, H& host) const {
    settle(manager, me, host);
    const bool mail_left = read_mail(manager, me, host);
    hand_out(manager, me, host);
    const bool alone = managers(host.workers()) == 1 || !config_.migrate;
    const bool again = manager.held > 0 || mail_left;
    if (alone) return again ? host.now() + config_.period : Instant::never();
    if (host.now() >= manager.due) {
      period(manager, me, host);
      manager.due = host.now() + config_.period;
    }
    const bool quiet = manager.q[me.value] == 0 && manager.sent_length == 0 &&
                       manager.load < kNoLoad;
    return quiet && !again ? Instant::never() : manager.due;
  }

  template <class H>
  Nanos quantum(const Worker& worker, const Job&, H&) const {
    if (!config_.inside_synergy) return Nanos::max();
    return DynamicQuantum().of(worker.short_service, config_.quantum_factor);
  }

  template <class H>
  SliceDecision expired(const Job&, WorkerId me, H& host) const {
    const ManagerId group = manager_of(me, host.workers());
    const bool waits = host.depth(local(me.value)) + host.depth(netrx(group)) > 0;
    return waits ? SliceDecision::kPreempt : SliceDecision::kContinue;
  }

  template <class H>
  QueueRef requeue(const Job&, RequeueReason, WorkerId me, H& host) const {
    return waiting(manager_of(me, host.workers()));
  }

  void finished(Worker& worker, const Job& job, Nanos service) const {
    if (job.job_class == JobClass::kShort) DynamicQuantum().learn(worker.short_service, service);
  }

  // Equation 2, or the upper bound of section IV. Public for tests and displays.
  double threshold(uint32_t group_workers, double load) const {
    if (config_.upper_bound > 0) return double{1} + group_workers * config_.upper_bound;
    const double most = kMostLoad * group_workers;
    const double queue = altocumulus::expected_queue(group_workers, std::min(load, most));
    return transform().of(queue);
  }

 private:
  enum Kind : uint8_t { kUpdate, kMigrate, kAck, kNack };
  static constexpr double kMostLoad = 0.999;  // where the model's queue has no end
  static constexpr double kNoLoad = 0.001;
  static constexpr uint32_t kNotSentToAll = UINT32_MAX;

  static constexpr QueueRef netrx(ManagerId m) { return {0, m.value}; }
  static constexpr QueueRef local(uint32_t worker) { return {1, worker}; }
  static constexpr QueueRef waiting(ManagerId m) { return {2, m.value}; }

  // The first worker of a group; of one past the last group, one past the last worker.
  uint32_t first_worker(uint32_t group, uint32_t workers) const {
    const uint32_t groups = managers(workers);
    return (group * workers + groups - 1) / groups;
  }

  altocumulus::Transform transform() const {
    switch (config_.distribution) {
      case 0:
        return altocumulus::kFixed;
      case 1:
        return altocumulus::kUniform;
      case 2:
        return altocumulus::kBimodal;
      default:
        return {config_.a, config_.b, config_.c, config_.d};
    }
  }

  // What was in hand goes to the tail of the group's queue; `held` is 0 then if there was room.
  template <class H>
  void settle(Manager& manager, ManagerId me, H& host) const {
    uint32_t put = 0;
    while (put < manager.held && host.put(netrx(me), manager.hand[put])) ++put;
    for (uint32_t i = put; i < manager.held; ++i) manager.hand[i - put] = manager.hand[i];
    manager.held -= put;
  }

  template <class H>
  void keep(Manager& manager, ManagerId me, const Message& message, H& host) const {
    RUBATO_DCHECK(manager.held + message.jobs <= manager.hand.size());
    for (uint32_t i = 0; i < message.jobs; ++i) manager.hand[manager.held++] = message.job[i];
    settle(manager, me, host);
  }

  // V-A. True = there may be more.
  template <class H>
  bool read_mail(Manager& manager, ManagerId me, H& host) const {
    uint32_t accepted = 0;
    const uint32_t most = 2 * managers(host.workers());
    for (uint32_t n = 0; n < most; ++n) {
      Message message;
      if (manager.held > 0) return true;
      if (!host.receive(me, message)) return false;
      RUBATO_DCHECK(message.from != me && message.from.value < managers(host.workers()));
      RUBATO_DCHECK(message.jobs <= limits::kMessageJobs);
      switch (message.kind) {
        case kUpdate:
          manager.q[message.from.value] = message.value;
          break;
        case kMigrate:
          accepted += accept(manager, me, message, accepted, host);
          break;
        case kNack:  // not sent again: as it has moved, it will not be chosen
          keep(manager, me, message, host);
          break;
        default:
          break;
      }
    }
    return true;
  }

  // Refuses what would not fit, by sending it back; if even that cannot be sent, it fits after all.
  template <class H>
  uint32_t accept(Manager& manager, ManagerId me, const Message& message, uint32_t accepted,
                  H& host) const {
    const bool fits = (accepted == 0 || accepted + message.jobs <= config_.fifo) &&
                      host.depth(netrx(me)) + message.jobs <= config_.registers;
    Message answer{.from = me, .kind = kAck, .value = message.jobs, .jobs = 0, .job = {}};
    if (!fits) {
      answer = message;
      answer.from = me;
      answer.kind = kNack;
    }
    const bool sent = host.send(message.from, answer);
    if (!fits && sent) return 0;
    keep(manager, me, message, host);
    return message.jobs;
  }

  // JBSQ(k) in the group: the emptiest workers first. Also while something is in hand, which may be
  // there because this queue is full.
  template <class H>
  void hand_out(Manager& manager, ManagerId me, H& host) const {
    if (host.depth(netrx(me)) == 0) return;
    const uint32_t first = first_worker(me.value, host.workers());
    const uint32_t end = first_worker(me.value + 1, host.workers());
    RUBATO_DCHECK(first < end && end <= host.workers());  // no group is without workers
    const auto find = [&host, end](uint32_t most, uint32_t from) {
      return verb::find_shorter(host, local(0).declaration, most, from, end);
    };
    for (uint32_t most = 0; most < config_.k; ++most) {
      for (uint32_t w = find(most, first); w < end; w = find(most, w + 1)) {
        if (manager.held == manager.hand.size()) return;
        Job* const job = host.take(netrx(me));
        if (job == nullptr) return;
        if (!host.put(local(w), job)) manager.hand[manager.held++] = job;
      }
    }
  }

  // Algorithm 1, lines 2 to 15.
  template <class H>
  void period(Manager& manager, ManagerId me, H& host) const {
    const uint32_t workers = host.workers();
    const uint32_t first = first_worker(me.value, workers);
    const uint32_t end = first_worker(me.value + 1, workers);
    measure_load(manager, first, end, host);
    manager.q[me.value] = host.depth(netrx(me));
    send_length(manager, me, host);
    const double limit = threshold(end - first, manager.load);
    const auto to = altocumulus::predict(limit, manager.q, managers(workers), me.value,
                                         config_.bulk, config_.concurrency);
    for (uint32_t i = 0; i < to.count && manager.held == 0; ++i) {
      migrate(manager, me, ManagerId{to.manager[i]}, host);
    }
  }

  // By Little's law the mean number of busy workers is the load in Erlangs.
  template <class H>
  void measure_load(Manager& manager, uint32_t first, uint32_t end, H& host) const {
    double busy = 0;
    for (uint32_t w = first; w < end; ++w) busy += host.busy(WorkerId{w}) ? 1 : 0;
    manager.load += (busy - manager.load) / static_cast<double>(1u << config_.load_shift);
    RUBATO_DCHECK(manager.load >= 0);
  }

  // UPDATE. A length that has not changed is known, unless a mailbox was full.
  template <class H>
  void send_length(Manager& manager, ManagerId me, H& host) const {
    const uint32_t q = manager.q[me.value];
    if (q == manager.sent_length) return;
    const Message update{.from = me, .kind = kUpdate, .value = q, .jobs = 0, .job = {}};
    manager.sent_length = q;
    for (uint32_t m = 0; m < managers(host.workers()); ++m) {
      if (m != me.value && !host.send(ManagerId{m}, update)) manager.sent_length = kNotSentToAll;
    }
  }

  // Lines 8 to 15: S requests from the tail, unless they would wait longer there (line 10), or have
  // moved before (V-B: at most once).
  template <class H>
  void migrate(Manager& manager, ManagerId me, ManagerId to, H& host) const {
    RUBATO_DCHECK(to != me);
    const uint32_t share = std::max(1u, config_.bulk / config_.concurrency);
    const uint32_t size = std::min(share, limits::kMessageJobs);
    uint32_t& mine = manager.q[me.value];
    uint32_t& theirs = manager.q[to.value];
    if (int64_t{mine} - size < int64_t{theirs} + size) return;
    Message message{.from = me, .kind = kMigrate, .value = 0, .jobs = 0, .job = {}};
    collect(manager, me, size, message, host);
    if (message.jobs == 0) return;
    if (!host.send(to, message)) return keep(manager, me, message, host);
    mine -= std::min(mine, message.jobs);
    theirs += message.jobs;
  }

  // Up to `size` jobs from the tail, in the order in which they arrived. One that has moved before
  // stays, and ends it.
  template <class H>
  void collect(Manager& manager, ManagerId me, uint32_t size, Message& message, H& host) const {
    while (message.jobs < size) {
      Job* const job = host.take_tail(netrx(me));
      if (job == nullptr) break;
      if (job->moves > 0) {
        manager.hand[manager.held++] = job;
        settle(manager, me, host);
        break;
      }
      message.job[message.jobs++] = job;
    }
    std::reverse(message.job.begin(), message.job.begin() + message.jobs);
  }

  // From the workers of the own group that have a request waiting.
  template <class H>
  Job* steal(WorkerId me, ManagerId group, H& host) const {
    const uint32_t first = first_worker(group.value, host.workers());
    const uint32_t end = first_worker(group.value + 1, host.workers());
    for (uint32_t w = first; w < end; ++w) {
      w += verb::find_deeper(host, local(0).declaration, w, end - w, 0);
      if (w >= end) break;
      if (w == me.value) continue;
      if (Job* job = host.take(local(w))) return job;
    }
    return nullptr;
  }

  Config config_;
};

}  // namespace rubato
