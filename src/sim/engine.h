// SPDX-License-Identifier: Apache-2.0
//
// Engine<P, Server>: one simulated run of policy P on a server, by default a static one
// (sim/static_server.h, sim/elastic_server.h). It owns the parts of the run, hands each event to
// its part, and collects the outcome at the end. Virtual time jumps from event to event.
//
//   SimContext       what all parts share: policy, host and clock, events, requests
//   WorkerPool       the SimWorkers, each a sched::Core; which idle ones look for new work
//   OpenArrivals     requests that come by themselves, or
//   ClientArrivals   requests and demand of the clients of an elastic server
//   ElasticCores     which workers of an elastic server have a core
//   SlowPath         the policy's hooks adapt and dispatch
//   ManagerSchedule  the policy's managers of groups of workers
//   StallInjector    cores that stand still
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "policy/contract.h"
#include "policy/explanation.h"
#include "sim/client_arrivals.h"
#include "sim/context.h"
#include "sim/elastic_cores.h"
#include "sim/hosted_server.h"
#include "sim/manager_schedule.h"
#include "sim/open_arrivals.h"
#include "sim/setup.h"
#include "sim/simulation.h"
#include "sim/slow_path.h"
#include "sim/stall_injector.h"
#include "sim/stalls.h"
#include "sim/start_up.h"
#include "sim/static_server.h"
#include "sim/worker_pool.h"
#include "workload/source.h"

namespace rubato::sim {

template <Policy P, class Server = StaticServer>
class Engine {
 public:
  Engine(const Setup& setup, const typename P::Config& config, const Watch& watch)
      : config_(config),
        context_(setup, config, watch),
        workers_(context_),
        load_(context_, workers_),
        slow_path_(context_, workers_),
        managers_(context_, workers_),
        stalls_(context_, workers_, managers_) {}

  Outcome run() {
    const auto begun = std::chrono::steady_clock::now();
    start();
    uint64_t events = 0;
    bool stopped = false;
    for (Event event = context_.events.first(); event.at != Instant::never() && !stopped;
         event = context_.events.first()) {
      if (++events % kProgressEvery == 0 && !report_progress()) [[unlikely]] stopped = true;
      process(event);
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begun;
    Outcome outcome = collect();
    if (!stopped && context_.pool.in_use() == 0) check_totals(outcome);
    outcome.stopped = stopped;
    outcome.events = events;
    outcome.wall_s = wall.count();
    return outcome;
  }

  // ---- Of a hosted server (sim/hosted_server.h), in place of run() ----------------------------

  void start() {
    load_.start();
    slow_path_.start();
    stalls_.start();
  }
  void send(const SentRequest& request) { load_.arrivals.send(request); }
  Event first() const { return context_.events.first(); }
  void step() { process(context_.events.first()); }
  uint32_t admitted_levels() const {
    return context_.limiter ? context_.limiter->levels() : overload::kLevels;
  }
  ServerTotals totals() const {
    ServerTotals totals{{}, context_.arrivals.arrived, context_.pool.in_use(), learning()};
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      const typename SimWorker<P, Server>::Times times = workers_[w].times(context_.now());
      totals.busy += times.useful + times.overhead;
    }
    return totals;
  }

 private:
  // Requests that come by themselves.
  struct StaticLoad {
    StaticLoad(SimContext<P, Server>& context, WorkerPool<P, Server>& workers)
        : arrivals(context, workers) {}
    void start() { arrivals.start(); }

    OpenArrivals<P, Server> arrivals;
  };
  // Clients, and the cores that follow their load.
  struct ElasticLoad {
    ElasticLoad(SimContext<P, Server>& context, WorkerPool<P, Server>& workers)
        : cores(context, workers), arrivals(context, workers, cores) {}
    void start() {
      arrivals.start();
      cores.start();
    }

    ElasticCores<P, Server> cores;
    ClientArrivals<P, Server> arrivals;
  };

  static constexpr uint64_t kProgressEvery = 1u << 18;  // events

  void process(const Event& event) {
    const Instant before = context_.now();
    context_.host.meter().advance(event.at);
    context_.source = event.source;
    if (context_.sources.is_worker(event.source)) [[likely]] {
      workers_[event.source].on_event();
    } else {
      process_other(event.source, before);
    }
    do {
      workers_.forget_refused_starts();
      if constexpr (kDispatches<P>) slow_path_.dispatch(event.source);
      if constexpr (kManages<P>) managers_.run_pending();
    } while (workers_.refused_a_start() || workers_.help_in_step());
    workers_.end_event();
    if constexpr (Server::kElastic) load_.arrivals.follow();
  }

  void process_other(uint32_t source, Instant before) {
    const EventSources& sources = context_.sources;
    if (source == sources.arrivals()) {
      load_.arrivals.on_event();
      return note_arrival();
    }
    if (source == sources.adapt()) return slow_path_.on_event();
    if (context_.helps() && source == sources.helps()) return workers_.rings().on_event();
    if (sources.is_manager(source)) return managers_.on_event(sources.manager_of(source));
    if constexpr (Server::kElastic) {
      if (source == sources.cores()) return load_.cores.on_event();
    }
    stalls_.on_event(before);
  }

  // ---- Batches --------------------------------------------------------------------------------

  void note_arrival() {
    BatchRecorder& batches = context_.departures.batches();
    if (context_.arrivals.measured >= batches.due()) [[unlikely]] {
      const size_t complete = batches.end_cell([this] { return progress(); });
      const bool due = complete == kMostBatches || complete == kMostBatches * 3 / 4;
      if (due && context_.watch.enough && context_.watch.enough(so_far())) context_.stop_arrivals();
    }
    if (context_.all_arrived()) [[unlikely]] batches.end_arrivals(progress());
  }

  Progress progress() const {
    Progress sums{context_.now(), context_.arrivals.arrived, context_.departures.done_in_time(),
                  context_.pool.in_use(), context_.arrivals.work, {}, {}};
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      const typename SimWorker<P, Server>::Times times = workers_[w].times(context_.now());
      sums.useful += times.useful;
      sums.overhead += times.overhead;
    }
    return sums;
  }

  Outcome so_far() {
    Outcome outcome;
    outcome.batches = context_.departures.batches().batches();
    outcome.simulated = context_.now() - Instant();
    collect_batches(outcome);
    collect_times(outcome);
    return outcome;
  }

  // Of requests that the policy's option `window` tells to learn from.
  uint64_t learning() const {
    if constexpr (requires { config_.window; }) return uint64_t{config_.window};
    return 0;
  }

  void collect_batches(Outcome& outcome) const {
    outcome.requests = context_.arrivals.arrived;
    outcome.learning = learning();
    if (context_.watch.enough) {
      const double warmup = context_.setup.warmup * static_cast<double>(outcome.requests);
      const auto least = std::max(static_cast<uint64_t>(warmup), outcome.learning);
      outcome.first_batch = start_up(outcome.batches, least);
    }
    sum_batches(outcome);
  }

  bool report_progress() const {
    if (!context_.watch.progress) return true;
    return context_.watch.progress(static_cast<double>(context_.arrivals.arrived) /
                                   static_cast<double>(context_.setup.requests));
  }

  // ---- After the run --------------------------------------------------------------------------

  Outcome collect() {
    Outcome outcome;
    if (!context_.all_arrived()) context_.departures.batches().end_arrivals(progress());
    outcome.batches = context_.departures.batches().take();
    outcome.complete = context_.all_arrived();
    collect_batches(outcome);
    if (!context_.watch.enough) {
      outcome.measured = context_.arrivals.measured;
      outcome.done_in_time = context_.departures.done_in_time();
      outcome.measured_time =
          std::max(context_.arrivals.last, context_.warm_at) - context_.warm_at;
    }
    outcome.simulated = context_.now() - Instant();
    collect_times(outcome);
    collect_counters(outcome.counters);
    if constexpr (Server::kElastic) outcome.elastic = context_.server.outcome();
    outcome.refusals = context_.departures.refusals();
    if (context_.limiter) outcome.limiter = context_.limiter->report();
    outcome.plan = explain_plan();
    return outcome;
  }

  void collect_times(Outcome& outcome) const {
    const double all_ns = static_cast<double>(outcome.simulated.count());
    Nanos useful, overhead, stalled;
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      const typename SimWorker<P, Server>::Times times = workers_[w].times(context_.now());
      useful += times.useful;
      overhead += times.overhead;
      stalled += times.stalled;
      const double unused_ns = static_cast<double>((times.idle + times.stalled).count());
      outcome.worker_busy.push_back(all_ns > 0 ? 1 - unused_ns / all_ns : 0);
    }
    const double worker_ns = all_ns * static_cast<double>(workers_.size());
    if (!(worker_ns > 0)) return;
    outcome.useful_share = static_cast<double>(useful.count()) / worker_ns;
    outcome.busy_share = static_cast<double>((useful + overhead).count()) / worker_ns;
    outcome.stalled_share = static_cast<double>(stalled.count()) / worker_ns;
  }

  void collect_counters(SchedulerCounters& counters) const {
    counters = context_.counters;
    counters.steals = context_.host.steals();
    counters.stolen = context_.host.stolen();
    counters.more = {{"late_notifications", context_.timer_core.late()},
                     {"left_waiting", context_.pool.in_use()},
                     {"flow_rules", context_.nic.rules()},
                     {"flow_rules_written", context_.nic.written()},
                     {"flow_rules_removed", context_.nic.removed()},
                     {"flows_without_rule", context_.nic.ruleless()}};
    if (context_.costs().critical_sections.lock != Lock::kNone) {
      counters.more.emplace_back("lock_waits", context_.section_lock.waits());
      counters.more.emplace_back("lock_yields", context_.section_lock.yields());
    }
    if constexpr (kManages<P>) {
      counters.more.emplace_back("managers", managers_.size());
      counters.more.emplace_back("moved_between_managers", context_.departures.moved());
      for (size_t kind = 0; kind < ManagerNetwork::kMessageKinds; ++kind) {
        counters.more.emplace_back(std::string("messages_") + P::kMessageKinds[kind],
                                   context_.host.network().messages()[kind]);
      }
    }
  }

  // Of a run in which every request has left the server. Each request has left once, and without
  // stalls each worker was busy or idle all the time.
  void check_totals(const Outcome& outcome) const {
    uint64_t left = 0;
    for (const TypeOutcome& type : outcome.types) {
      left += type.latency.count() + type.refused + type.lost;
    }
    if constexpr (Server::kElastic) {
      for (const uint64_t unsent : outcome.elastic->unsent) left += unsent;
    }
    RUBATO_CHECK(left == outcome.measured);
    if (Server::kElastic || any(context_.costs().stalls)) return;
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      const typename SimWorker<P, Server>::Times times = workers_[w].times(context_.now());
      RUBATO_CHECK(times.useful + times.overhead + times.idle == outcome.simulated);
    }
  }

  // The policy's words on its last plan.
  std::vector<std::string> explain_plan() const {
    const std::vector<RequestType> types = types_of(context_.setup.workload);
    const auto name_of = [&types](uint32_t type) {
      return type == 0 ? "unknown" : types[type - 1].name;
    };
    Explanation out(name_of, static_cast<uint32_t>(types.size()) + 1);
    hook::explain(context_.policy, context_.host.plan(), context_.setup.workers, out);
    return out.take();
  }

  const typename P::Config config_;
  SimContext<P, Server> context_;
  WorkerPool<P, Server> workers_;
  std::conditional_t<Server::kElastic, ElasticLoad, StaticLoad> load_;
  SlowPath<P, Server> slow_path_;
  ManagerSchedule<P, Server> managers_;
  StallInjector<P, Server> stalls_;
};

}  // namespace rubato::sim
