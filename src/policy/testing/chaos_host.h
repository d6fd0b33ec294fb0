// SPDX-License-Identifier: Apache-2.0
//
// ChaosHost<P, Inner>: another host that uses every licence the contract gives. Takes and steals
// lose races, a steal moves fewer jobs than asked, depths and indices are old, puts find the queue
// full. Seeded: the same calls with the same seed go wrong in the same way. Single-threaded;
// borrows the inner host.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "base/prng.h"
#include "policy/contract.h"
#include "policy/extensions.h"
#include "policy/testing/script_host.h"

namespace rubato::testing {

// How often each thing goes wrong, of 1000 calls.
struct ChaosRates {
  uint32_t lost_race = 200;
  uint32_t short_steal = 300;
  uint32_t stale_hint = 300;
  uint32_t refused_put = 50;
};

template <Policy P, class Inner>
class ChaosHost {
 public:
  using Plan = typename P::Plan;

  ChaosHost(Inner& inner, uint64_t seed, ChaosRates rates = {})
      : inner_(inner), prng_(seed), rates_(rates), hints_(inner.workers()) {
    for (const QueueDeclaration& declaration : P::kQueues) {
      seen_.emplace_back(queue_count_of(declaration, inner.workers(), inner.managers()));
    }
  }

  Instant now() { return inner_.now(); }
  uint32_t workers() { return inner_.workers(); }
  uint32_t random(uint32_t n) { return inner_.random(n); }
  const Plan& plan() { return inner_.plan(); }

  uint32_t depth(QueueRef q) { return hint(seen(q).depth, inner_.depth(q)); }
  uint64_t produced(QueueRef q) { return hint(seen(q).produced, inner_.produced(q)); }
  uint64_t consumed(QueueRef q) { return hint(seen(q).consumed, inner_.consumed(q)); }

  Instant oldest(QueueRef q) { return hint(seen(q).oldest, inner_.oldest(q)); }
  uint64_t first_word(QueueRef q) { return hint(seen(q).first_word, inner_.first_word(q)); }
  bool busy(WorkerId worker) {
    return happens(rates_.stale_hint) ? prng_.below(2) == 0 : inner_.busy(worker);
  }
  uint64_t arrived(uint32_t type) { return inner_.arrived(type); }
  Served served(uint32_t type) { return inner_.served(type); }
  Served served_as(JobClass job_class) { return inner_.served_as(job_class); }
  uint64_t hint(WorkerId worker) {
    return hint(hints_[worker.value], inner_.hint(worker));
  }
  bool publish_hint(WorkerId worker, uint64_t seen, uint64_t value) {
    return !happens(rates_.lost_race) && inner_.publish_hint(worker, seen, value);
  }
  bool steer(uint64_t flow, WorkerId to) {
    return !happens(rates_.refused_put) && inner_.steer(flow, to);
  }
  bool unsteer(uint64_t flow) { return !happens(rates_.refused_put) && inner_.unsteer(flow); }

  Job* take(QueueRef q) {
    const bool raced = P::kQueues[q.declaration].sharing == Sharing::kShared;
    return raced && happens(rates_.lost_race) ? nullptr : inner_.take(q);
  }
  Job* take_tail(QueueRef q) {
    return happens(rates_.lost_race) ? nullptr : inner_.take_tail(q);
  }
  bool send(ManagerId to, const Message& message) {
    return !happens(rates_.refused_put) && inner_.send(to, message);
  }
  bool receive(ManagerId me, Message& message) {
    return !happens(rates_.lost_race) && inner_.receive(me, message);
  }
  bool put(QueueRef q, Job* job) { return !happens(rates_.refused_put) && inner_.put(q, job); }
  Job* steal(QueueRef victim, QueueRef into, uint32_t max) {
    if (happens(rates_.lost_race)) return nullptr;
    if (max > 0 && happens(rates_.short_steal)) max = 1 + prng_.below(max);
    return inner_.steal(victim, into, max);
  }

  uint32_t managers() const { return inner_.managers(); }
  size_t room(QueueRef q) { return inner_.room(q); }
  const std::deque<Job*>& waiting(QueueRef q) { return inner_.waiting(q); }
  uint64_t mishaps() const { return mishaps_; }

 private:
  struct Seen {
    uint32_t depth = 0;
    uint64_t produced = 0;
    uint64_t consumed = 0;
    Instant oldest = Instant::never();
    uint64_t first_word = kNoWord;
  };

  Seen& seen(QueueRef q) { return seen_[q.declaration][q.index]; }

  bool happens(uint32_t per_mille) {
    const bool now = prng_.below(1000) < per_mille;
    mishaps_ += now ? 1 : 0;
    return now;
  }

  // The truth, or what it was when it was last told.
  template <class T>
  T hint(T& last_hint, T truth) {
    if (!happens(rates_.stale_hint)) last_hint = truth;
    return last_hint;
  }

  Inner& inner_;
  Prng prng_;
  ChaosRates rates_;
  uint64_t mishaps_ = 0;
  std::vector<std::vector<Seen>> seen_;
  std::vector<uint64_t> hints_;
};

}  // namespace rubato::testing
