// SPDX-License-Identifier: Apache-2.0
//
// SimContext<P, Server>: the state that all parts of one run share: its setup, the policy and its
// host with the clock, the events ahead, the requests, and the units of the machine that no part
// owns alone. The Engine owns it, and every part holds a reference.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "metrics/run_report.h"
#include "metrics/trace.h"
#include "policy/archetype.h"
#include "policy/contract.h"
#include "sim/bit_ring.h"
#include "sim/critical_sections.h"
#include "sim/departures.h"
#include "sim/dispatcher.h"
#include "sim/event_queue.h"
#include "sim/event_sources.h"
#include "sim/hyperthreads.h"
#include "sim/nic.h"
#include "sim/pending_managers.h"
#include "sim/request.h"
#include "sim/setup.h"
#include "sim/sim_host.h"
#include "sim/simulation.h"
#include "sim/stalls.h"
#include "sim/timer_core.h"
#include "workload/source.h"

namespace rubato::sim {

template <Policy P, class Server>
struct SimContext {
  using Host = SimHost<P, Server::kIdeal>;

  SimContext(const Setup& given, const typename P::Config& config, const Watch& watcher)
      : setup(given),
        watch(watcher),
        policy(config),
        warm_at(watcher.enough ? Instant() : end_of_warmup(setup)),
        server(setup, warm_at),
        idle(setup.workers),
        unmarked(Server::kIdeal ? 0 : setup.workers),
        skips(setup.workers),
        hyperthreads(costs().hyperthreads, Server::kIdeal ? 0 : setup.workers,
                     setup.worker_speeds),
        nic(costs().nic, setup.workers, setup.seed ^ kNicStream),
        host(policy, costs(), setup.workers, setup.seed ^ kHostStream, seem_free(), nic,
             trace()),
        sources(setup.workers, managers(policy, setup.workers), Server::kElastic, helps(),
                any(costs().stalls)),
        events(sources.count(), sources.arrivals()),
        departures(setup, watch, server, pool, arrivals, requests, warm_at),
        timer_core(costs().preemption.scan, setup.workers, setup.seed ^ kEngineStream),
        pending_managers(managers(policy, setup.workers)) {
    for (const RequestType& type : types_of(setup.workload)) {
      long_types.push_back(type.service.mean >= setup.long_over);
    }
    if (setup.limiter) {
      limiter.emplace(*setup.limiter, setup.workers, setup.seed ^ kLimiterStream);
    }
    for (uint32_t w = setup.workers; kManages<P> && w-- > 0;) host.network().place(group_of(w), w);
  }
  SimContext(const SimContext&) = delete;
  SimContext& operator=(const SimContext&) = delete;

  const Prices& costs() const { return Server::kIdeal ? kIdealPrices : setup.costs; }
  Trace* trace() const { return Server::kIdeal ? nullptr : watch.trace; }
  ServerClient* client() const { return Server::kIdeal ? nullptr : watch.client; }
  Instant now() const { return host.event_time(); }
  bool all_arrived() const { return arrivals.arrived == requests; }
  // No request comes any more.
  void stop_arrivals() {
    requests = arrivals.arrived;
    events.cancel(sources.arrivals());
  }
  bool polled() const { return costs().nic.delivery == Delivery::kPolled; }
  // Do idle workers take from the rings of others?
  bool helps() const { return polled() && costs().nic.help_after > Nanos() && !kOwnArrivals<P>; }
  // Does an idle worker see things in a step of its own only: when it comes round to them or, where
  // that takes no time, at the same moment?
  bool looks_round() const { return goes_round() || looks_in_step(); }
  bool goes_round() const {
    const Nanos round = costs().worker.idle_round + costs().worker.idle_round_each;
    return polled() && !Server::kElastic && round > Nanos();
  }
  bool looks_in_step() const {
    return helps() && !Server::kElastic && !goes_round() && costs().nic.help_looks > Nanos();
  }
  // Those that are not busy in the eyes of others. An ideal machine has none between two requests.
  BitRing& seem_free() { return Server::kIdeal ? idle : unmarked; }
  // Of a worker that idled, from its poll to its look at what it has put into queues.
  Nanos until_idle_looks() const {
    return costs().worker.notice + (polled() ? costs().worker.poll_between : Nanos());
  }
  ManagerId group_of(uint32_t worker) const {
    return manager_of(policy, WorkerId{worker}, setup.workers);
  }

  const Setup setup;
  const Watch watch;
  const P policy;
  uint64_t requests = setup.requests;  // that come; fewer once Watch::enough has had enough
  const Instant warm_at;
  [[no_unique_address]] Server server;
  std::optional<SimLimiter> limiter;
  BitRing idle;  // workers without a request
  BitRing unmarked;  // those, and those between two requests
  BitRing skips;  // workers that run one, of whose ends of slices none has an event
  Hyperthreads hyperthreads;
  Nic nic;
  Host host;
  EventSources sources;
  EventQueue events;
  uint32_t source = 0;  // of the event that is going on
  RequestPool pool;
  ArrivalTotals arrivals;
  Departures<Server> departures;
  Dispatcher dispatcher;
  TimerCore timer_core;
  SectionLock section_lock;
  PendingManagers pending_managers;
  SchedulerCounters counters;
  int64_t suspended = 0;         // requests that were preempted and wait
  std::vector<bool> long_types;  // by true type

 private:
  static Instant end_of_warmup(const Setup& setup) {
    const double seconds = static_cast<double>(setup.requests) / mean_rate(setup.workload);
    return Instant(Nanos::from_seconds(seconds * setup.warmup).count());
  }
};

}  // namespace rubato::sim
