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
  if (!shared_.cores.is_guaranteed(id_)) return idle_without_end(at);
  if (idling_.should_park(at)) {
    park();
  } else {
    cpu_relax();
  }
}

// Requests in the kernel of a worker that has been on one request for long, and cannot be preempted
// out of it, are run here (ZygOS: idle cores look at the network queues of busy ones), and those
// that it minds.
template <Policy P>
void LiveWorker<P>::help_stuck() {
  if (kOwnArrivals) return;
  for (LiveWorker* other : others) {
    if (!shared_.is_stuck(other->id_, host_.now())) continue;
    if (other->datapath_.pending()) stats_.helped += ingest(other->datapath_);
    if (other->id_ == CoreControl::minder()) look_after_minded();
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
    fall_asleep(quiet ? kQuietSleep : kWatchfulSleep);
  }
  if (shared_.active_workers.fetch_add(1, std::memory_order_seq_cst) == 0) {
    shared_.active_workers.notify_all();
  }
  parked_flag_.store(false, std::memory_order_relaxed);
  idling_.parked();
  step();
}

template <Policy P>
void LiveWorker<P>::fall_asleep(Nanos limit) {
  const std::span<DatapathQueue* const> minded = minded_queues();
  for (const DatapathQueue* queue : minded) {
    if (queue->pending()) return;
  }
  if (!minded.empty()) shared_.call_parked();
  note_sleep();
  minded.empty() ? datapath_.wait(limit) : datapath_.wait(limit, minded);
  note_awake();
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
