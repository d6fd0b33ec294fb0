// SPDX-License-Identifier: Apache-2.0
//
// LiveWorker<P>, the part that idles, helps and stops. Included by runtime/worker.h only.
#pragma once

#include <algorithm>
#include <utility>

#include "runtime/worker.h"

namespace rubato {

template <Policy P>
bool LiveWorker<P>::stopping() {
  const RunState state = shared_.state();
  if (state == RunState::kRunning) return false;
  return state == RunState::kStopped || shared_.drained(host_.now());
}

// Null = nothing was found; the worker may have slept.
template <Policy P>
Request* LiveWorker<P>::idle() {
  const Instant at = step();
  help_stuck();
  // Other groups' workers may all be at long requests.
  if constexpr (kManages<P>) shared_.manage_all(at);
  if (!shared_.cores.is_guaranteed(id_)) return idle_without_end(at);
  if (idling_.should_park(at)) return park();
  cpu_relax();
  return nullptr;
}

// What waits at a worker that has not looked after its arrivals for long is run here: the requests
// in its kernel queue (ZygOS: idle cores look at the network queues of busy ones), those in its
// inbox, and those that it minds. It is in a long request that cannot be preempted, or the
// operating system has given its CPU to others.
template <Policy P>
void LiveWorker<P>::help_stuck() {
  if (kOwnArrivals<P>) return;
  for (LiveWorker* other : others) {
    if (!shared_.is_stuck(other->id_, host_.now())) continue;
    if (other->datapath_.pending()) stats_.helped += ingest(other->datapath_);
    stats_.helped += take_over(other->id_);
    if (other->id_ == CoreControl::minder()) look_after_minded();
  }
}

// As if they had arrived here. A policy may leave the last request of an inbox to its worker, which
// does not come to it now.
template <Policy P>
uint32_t LiveWorker<P>::take_over(WorkerId stuck) {
  uint32_t taken = 0;
  for (uint32_t spec = 0; spec < std::size(P::kQueues); ++spec) {
    const QueueSpec& queue = P::kQueues[spec];
    if (queue.scope != Scope::kPerWorker || queue.sharing != Sharing::kStealable) continue;
    taken += take_over({spec, stuck.value}, {spec, id_.value});
  }
  return taken;
}

// Half of what is there, as other workers may help too.
template <Policy P>
uint32_t LiveWorker<P>::take_over(QueueRef theirs, QueueRef mine) {
  const uint32_t most = std::min((host_.depth(theirs) + 1) / 2, limits::kStealMax);
  for (uint32_t taken = 0; taken < most; ++taken) {
    Job* job = host_.take(theirs);
    if (job == nullptr) return taken;
    if (!host_.put(mine, job)) core_.take_over(*static_cast<Request*>(job));
  }
  return most;
}

// Sleeps until something arrives, or somebody has queued what this worker may serve: see
// runtime/sleepers.h for why that is not missed. The policy itself says whether there is anything:
// a worker that stayed awake for what it may not take would only take CPU time from those who may.
template <Policy P>
Request* LiveWorker<P>::park() {
  shared_.sleepers.falls_asleep(id_);
  Request* found = last_look();
  if (found == nullptr) fall_asleep();
  if (!shared_.sleepers.is_asleep(id_)) ++stats_.woken;
  if (shared_.sleepers.wakes_up(id_)) shared_.sleepers.awake().notify_all();
  woken_ = true;  // if only to do what it had found before it was claimed for more
  idling_.parked();
  step();
  return found;
}

template <Policy P>
Request* LiveWorker<P>::last_look() {
  if constexpr (kDispatches<P>) shared_.dispatch(step());
  if constexpr (kManages<P>) shared_.manage_all(step());
  host_.refresh_plan();
  return core_.next();
}

template <Policy P>
void LiveWorker<P>::fall_asleep() {
  mind_parked();
  const bool calls = !minded_.empty();
  const Nanos limit = watch_stuck();
  if (limit > Nanos()) {
    if (calls) shared_.call_parked();
    ++stats_.parked;
    note_sleep();
    minded_.empty() ? datapath_.wait(limit) : datapath_.wait(limit, minded_);
    note_awake();
  }
  for (LiveWorker* stuck : watched_) {
    shared_.watched(stuck->id_).store(false, std::memory_order_release);
  }
  watched_.clear();
  minded_.clear();
}

// What comes to a stuck worker ends this worker's sleep, unless another watches it already. The
// longest time to sleep; zero = something has come.
template <Policy P>
Nanos LiveWorker<P>::watch_stuck() {
  for (DatapathQueue* queue : minded_) {
    if (queue->pending()) return {};
  }
  if (kOwnArrivals<P>) return kQuietSleep;
  Nanos limit = kQuietSleep;
  for (LiveWorker* other : others) {
    if (!shared_.is_stuck_for_long(other->id_, host_.now())) continue;
    if (shared_.watched(other->id_).exchange(true, std::memory_order_acq_rel)) continue;
    limit = kWatchfulSleep;
    watched_.push_back(other);
    if (std::find(minded_.begin(), minded_.end(), &other->datapath_) != minded_.end()) continue;
    // Who is in the middle of a poll keeps others out; its arrivals must not keep this one awake.
    if (!other->datapath_.pending()) {
      minded_.push_back(&other->datapath_);
    } else if (ingest(other->datapath_) > 0) {
      return {};
    }
  }
  return limit;
}

// The first thing found after a sleep, or when it was about to: if more waits, others are woken for
// it, and so on.
template <Policy P>
void LiveWorker<P>::wake_next() {
  if (!std::exchange(woken_, false) || shared_.sleepers.all_awake()) return;
  shared_.wake_for_waiting(id_, host_);
}

}  // namespace rubato
