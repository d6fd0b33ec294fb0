// SPDX-License-Identifier: Apache-2.0
//
// LiveWorker<P>, the part that idles, helps and stops. Included by runtime/worker.h only.
#pragma once

#include "runtime/worker.h"

namespace rubato {

template <Policy P>
bool LiveWorker<P>::stopping() {
  const RunState state = shared_.state();
  if (state == RunState::kRunning) return false;
  return state == RunState::kStopped || shared_.drained(host_.now());
}

template <Policy P>
void LiveWorker<P>::idle() {
  const Instant at = step();
  help_stuck();
  // Other groups' workers may all be at long requests.
  if constexpr (kManages<P>) shared_.manage_all(at);
  if (idling_.should_park(at)) {
    park();
  } else {
    cpu_relax();
  }
}

// Requests in the kernel of a worker that has been on one request for long, and cannot be preempted
// out of it, are run here (ZygOS: idle cores look at the network queues of busy ones). Not where
// the policy gives each worker its arrivals and nobody else.
template <Policy P>
void LiveWorker<P>::help_stuck() {
  constexpr QueueSpec kInbox = P::kQueues[0];
  if (kInbox.scope == Scope::kPerWorker && kInbox.sharing == Sharing::kOwner) return;
  for (LiveWorker* other : others) {
    const int64_t since = other->stats_.busy_since_ns.load(std::memory_order_relaxed);
    if (since == 0 || host_.now().ns() - since < kStuck.count()) continue;
    if (!other->datapath_.pending()) continue;
    stats_.helped += ingest(other->datapath_);
  }
}

// Sleeps until something arrives. A request that another worker queues between the check and the
// sleep may be overlooked by this one for the length of the sleep; the worker that queued it serves
// it in any case, so that costs help, not progress. Where it may not serve it, wake_sleepers()
// pairs with the count of active workers, which goes down before the check.
template <Policy P>
void LiveWorker<P>::park() {
  parked_flag_.store(true, std::memory_order_seq_cst);
  shared_.active_workers.fetch_sub(1, std::memory_order_seq_cst);
  if (!shared_.anything_for(id_) && control_.depth() == 0) {
    const bool quiet = others.empty() || host_.now() - last_work_ > kQuietAfter;
    ++stats_.parked;
    datapath_.wait(quiet ? kQuietSleep : kWatchfulSleep);
  }
  if (shared_.active_workers.fetch_add(1, std::memory_order_seq_cst) == 0) {
    shared_.active_workers.notify_all();
  }
  parked_flag_.store(false, std::memory_order_relaxed);
  idling_.parked();
  step();
}

// One sleeping worker is enough: it wakes the next if it finds more than it can do.
template <Policy P>
void LiveWorker<P>::wake_somebody() {
  if (shared_.active_workers.load(std::memory_order_relaxed) == host_.workers()) return;
  for (LiveWorker* other : others) {
    if (other->wake_if_parked()) return;
  }
}

template <Policy P>
bool LiveWorker<P>::wake_if_parked() {
  if (!parked_flag_.exchange(false, std::memory_order_acq_rel)) return false;
  datapath_.wake();
  return true;
}

}  // namespace rubato
