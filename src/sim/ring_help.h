// SPDX-License-Identifier: Apache-2.0
//
// RingHelp<P, Server>: when idle workers take from the rings of those that have not polled for
// Costs::Nic::help_after. One owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "policy/contract.h"
#include "sim/context.h"
#include "sim/costs.h"

namespace rubato::sim {

template <Policy P, class Server>
class SimWorker;
template <Policy P, class Server>
class WorkerPool;

template <Policy P, class Server>
class RingHelp {
 public:
  using Worker = SimWorker<P, Server>;

  // Both outlive this.
  RingHelp(SimContext<P, Server>& context, WorkerPool<P, Server>& workers)
      : context_(context), workers_(workers) {}

  // A request waits in the ring of worker w, which is busy.
  void note_in_ring(uint32_t w) {
    if (context_.helps()) help_at(workers_[w].needs_help());
  }
  // A worker has polled, which those see that look whether others do.
  void note_polled() {
    if (context_.looks_in_step() && is_due()) workers_.all_look(context_.now());
  }
  // A worker idles from `at` on.
  void note_idle(Instant at) {
    if (context_.helps()) help_at(std::max(at, first_that_needs_help()));
  }

  // Workers that do not come to their rings at that moment, whether anything waits there or not.
  int64_t stuck(Instant at) const {
    int64_t stuck = 0;
    for (uint32_t w = 0; w < workers_.size(); ++w) stuck += workers_[w].is_stuck(at) ? 1 : 0;
    return stuck;
  }

  // A worker that idles has a look at its next step whatever happens.
  void look_on(uint32_t w) { workers_.has_look(w, next_step(context_.now() + Nanos(1))); }

  // An idle worker takes from the rings of all that have not polled for long, a burst each; the
  // next one what is left.
  void on_event() {
    context_.events.cancel(context_.sources.helps());
    if (context_.goes_round()) return workers_.next_round(context_.now());
    while (!context_.idle.empty() && is_due()) workers_.next_helper().help();
    if (!context_.idle.empty()) note_idle(context_.now());
  }

  // False: nobody needs help now.
  bool help_by(Worker& helper) {
    if (!context_.helps() || !is_due()) return false;
    helper.help();
    return true;
  }

 private:
  void help_at(Instant at) {
    if (at == Instant::never()) return;
    if (context_.looks_in_step()) return workers_.all_look(next_step(at));
    const Instant due = std::max(at, context_.now());
    const uint32_t me = context_.sources.helps();
    if (due < context_.events.due(me)) context_.events.schedule(me, due);
  }
  // At multiples of help_looks, but at once where they look because of what happens now, as they
  // do at what they have known of since such a multiple.
  Instant next_step(Instant at) const {
    const int64_t looks_ns = context_.costs().nic.help_looks.count();
    return std::max(context_.now(), Instant((at.ns() + looks_ns - 1) / looks_ns * looks_ns));
  }
  bool is_due() const { return first_that_needs_help() <= context_.now(); }
  Instant first_that_needs_help() const {
    Instant first = Instant::never();
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      first = std::min(first, workers_[w].needs_help());
    }
    return first;
  }

  SimContext<P, Server>& context_;
  WorkerPool<P, Server>& workers_;
};

}  // namespace rubato::sim
