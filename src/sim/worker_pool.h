// SPDX-License-Identifier: Apache-2.0
//
// WorkerPool<P, Server>: the workers of a run, and which idle ones look when something is put into
// a queue. One owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "policy/archetype.h"
#include "policy/contract.h"
#include "sim/context.h"
#include "sim/ring_help.h"
#include "sim/sim_worker.h"

namespace rubato::sim {

template <Policy P, class Server>
class WorkerPool {
 public:
  using Worker = SimWorker<P, Server>;

  // All workers idle. `context` outlives this.
  explicit WorkerPool(SimContext<P, Server>& context)
      : context_(context), size_(context.setup.workers), workers_(size_), rings_(context, *this) {
    for (uint32_t w = 0; w < size_; ++w) {
      workers_[w].emplace(context, *this, w);
      context.idle.add(w);
      if constexpr (!Server::kIdeal) context.unmarked.add(w);
    }
  }

  uint32_t size() const { return size_; }
  Worker& operator[](uint32_t w) { return *workers_[w]; }
  const Worker& operator[](uint32_t w) const { return *workers_[w]; }

  // The dispatcher works for `length`, at the cost of the requests that it serves itself, if any.
  // Returns when that is done.
  Instant dispatch(Instant at, Nanos length) {
    Worker& last = *workers_[size_ - 1];
    if (last.is_dispatcher()) last.spend_for_all(length);
    return context_.dispatcher.occupy(at, length);
  }

  // A request was put into q: idle workers that could find it look, of several the next in turn. A
  // batch that one of them steals may give work to others.
  void offer(QueueRef q, Nanos after = Nanos()) {
    offer_to_idle(q, after);
    if (!Server::kIdeal || context_.skips.empty() || waiting_in(q) == 0) return;
    // Busy workers may cut their requests for what still waits.
    if (cuts_for(context_.policy) == CutsFor::kAnyQueue) {
      while (!context_.skips.empty()) workers_[context_.skips.find(0, size_)]->stop_skipping();
      return;
    }
    const bool own = P::kQueues[q.declaration].scope == Scope::kPerWorker;
    if (own && context_.skips.has(q.index)) workers_[q.index]->stop_skipping();
  }

  // A worker took a request from its ring and put it into q: others see it once that worker has
  // chosen itself.
  void offer_after_poll(QueueRef q) {
    if (polled_into_.empty() || polled_into_.back() != q) polled_into_.push_back(q);
  }
  void offer_polled() {
    if (!context_.polled()) return;
    while (!polled_into_.empty()) {
      const QueueRef q = polled_into_.back();
      polled_into_.pop_back();
      offer(q);
    }
  }

  // All idle workers look.
  void offer_all() {
    for (uint32_t w = 0; w < size_ && host().queues().waiting() > 0; ++w) {
      if (!idle().has(w)) continue;
      context_.looks_round() ? has_look(w, context_.now())
                            : static_cast<void>(workers_[w]->wake(Nanos()));
    }
  }

  // Of those that come to no ring of theirs.
  RingHelp<P, Server>& rings() { return rings_; }

  // Idle worker w has a look at what is there at that moment.
  void has_look(uint32_t w, Instant at) {
    const Instant look = workers_[w]->next_look(at);
    if (look < context_.events.due(w)) workers_[w]->look_at(look);
  }

  // All idle ones do.
  void all_look(Instant at) {
    for (uint32_t w = 0; w < size_; ++w) {
      if (!idle().has(w)) continue;
      if (at == context_.now()) workers_[w]->note_idle_poll(last_step_of(w));
      has_look(w, at);
    }
  }
  // Of those that go round, the first that comes by.
  void next_round(Instant at) {
    Worker* first = nullptr;
    for (uint32_t w = 0; w < size_; ++w) {
      if (!idle().has(w) || workers_[w]->will_look()) continue;
      Worker* const one = &*workers_[w];
      if (first == nullptr || one->next_look(at) < first->next_look(at)) first = one;
    }
    if (first != nullptr) first->look_at(first->next_look(at));
  }
  // The idle worker that helps next. Requires one.
  Worker& next_helper() {
    if (context_.costs().idle_order == IdleOrder::kLowestFirst) turn_ = 0;
    return *workers_[next_idle()];
  }

  // A worker has refused the request that it was given: it is to get the next.
  void note_refused_a_start() { refused_a_start_ = true; }
  bool refused_a_start() const { return refused_a_start_; }
  void forget_refused_starts() { refused_a_start_ = false; }

  // A worker has found nothing. If it still idles at the end of the event it has run out of work.
  void note_found_nothing(uint32_t w) { found_nothing_ = w; }
  // In the same step it helps, unless it has been given something. True: it has helped.
  bool help_in_step() {
    if (!context_.looks_in_step() || found_nothing_ == kNone || !idle().has(found_nothing_)) {
      return false;
    }
    const bool may_be_given = kDispatches<P> || kManages<P>;
    if (may_be_given && context_.events.due(found_nothing_) == context_.now()) return false;
    return rings_.help_by(*workers_[found_nothing_]);
  }
  void end_event() {
    if (found_nothing_ != kNone && idle().has(found_nothing_)) workers_[found_nothing_]->ran_out();
    found_nothing_ = kNone;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  typename SimContext<P, Server>::Host& host() const { return context_.host; }
  uint32_t waiting_in(QueueRef q) const { return host().queues().at(q).depth(); }
  const BitRing& idle() const { return context_.idle; }

  void offer_to_idle(QueueRef q, Nanos after) {
    const QueueDeclaration& declaration = P::kQueues[q.declaration];
    if (kManages<P> && declaration.scope == Scope::kPerManager) return offer_to_group(q);
    if (idle().empty()) return;
    // Workers that look in vain cost nothing there.
    if (Server::kIdeal && kClaimsPushes<P> && declaration.scope == Scope::kGlobal) return;
    if (context_.looks_in_step()) return all_look(context_.now());
    if (context_.goes_round()) return offer_to_next_round(q, after);
    const bool in_turn = context_.costs().idle_order == IdleOrder::kByTurns;
    if (kAsksLowestFirst<P> || !in_turn) turn_ = 0;
    if (declaration.scope == Scope::kPerWorker) {
      if (idle().has(q.index)) workers_[q.index]->wake(after);
      if (declaration.sharing == Sharing::kOwner) return;
    }
    const uint64_t moved = host().moved();
    uint32_t asked = 0;
    while (asked < size_ && !idle().empty() &&
           (waiting_in(q) > 0 || host().moved() != moved)) {
      const uint32_t before = turn_;
      const uint32_t w = next_idle();
      asked += (w >= before ? w - before : w + size_ - before) + 1;
      if (asked > size_) break;
      if (!workers_[w]->wake(after) && interchangeable(context_.policy)) break;
    }
  }

  // Idle workers that go round: a request was put into q, which the first sees that comes round to
  // it. It takes one; where it may not, all others look too.
  void offer_to_next_round(QueueRef q, Nanos after) {
    const QueueDeclaration& declaration = P::kQueues[q.declaration];
    const Instant at = std::max(host().seen_at(q), context_.now() + after);
    if (declaration.scope == Scope::kPerWorker) {
      if (idle().has(q.index)) has_look(q.index, at);
      if (declaration.sharing == Sharing::kOwner) return;
    }
    if (interchangeable(context_.policy)) return next_round(at);
    for (uint32_t w = 0; w < size_; ++w) {
      if (idle().has(w)) has_look(w, at);
    }
  }
  // When it looked last before what happens now: at multiples of help_looks, of several workers at
  // one moment the one with the lowest number first.
  Instant last_step_of(uint32_t w) const {
    const int64_t before_ns = context_.now().ns() - (context_.source < w ? 1 : 0);
    const int64_t looks_ns = context_.costs().nic.help_looks.count();
    return Instant(before_ns / looks_ns * looks_ns);
  }

  // By turns. Requires an idle worker.
  uint32_t next_idle() {
    const uint32_t unwrapped = turn_ + idle().find(turn_, size_);
    const uint32_t w = unwrapped < size_ ? unwrapped : unwrapped - size_;
    turn_ = w + 1 == size_ ? 0 : w + 1;
    return w;
  }

  // Of a group's queue: its manager, and its idle workers if they may take from the queue.
  void offer_to_group(QueueRef q) {
    context_.pending_managers.add(ManagerId{q.index});
    if (P::kQueues[q.declaration].sharing != Sharing::kShared) return;
    for (uint32_t w = idle().find(0, size_); w < size_ && waiting_in(q) > 0;) {
      if (context_.group_of(w).value == q.index) workers_[w]->wake(Nanos());
      ++w;
      if (w < size_) w += idle().find(w, size_ - w);
    }
  }

  SimContext<P, Server>& context_;
  const uint32_t size_;
  std::vector<std::optional<Worker>> workers_;  // in one piece: many of them miss the caches
  RingHelp<P, Server> rings_;
  std::vector<QueueRef> polled_into_;  // not yet offered
  uint32_t turn_ = 0;                  // of the idle workers, for queues that they share
  uint32_t found_nothing_ = kNone;
  bool refused_a_start_ = false;
};

}  // namespace rubato::sim
