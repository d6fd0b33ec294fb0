// SPDX-License-Identifier: Apache-2.0
//
// LiveWorker<P>, the part of a worker whose core comes and goes (runtime/core_control.h), and of
// the minder, which takes in what comes to those that are parked. Included by runtime/worker.h
// only.
#pragma once

#include "runtime/worker.h"

namespace rubato {

template <Policy P>
void LiveWorker<P>::found_work() {
  idling_.found_work(host_.now());
  wake_next();
  if (workless_since_ == Instant::never()) return;
  workless_since_ = Instant::never();
  shared_.cores.resumed(id_);
}

// The allocator says how long it polls, not Idling.
template <Policy P>
Request* LiveWorker<P>::idle_without_end(Instant at) {
  if (workless_since_ == Instant::never()) workless_since_ = at;
  if (shared_.cores.should_park(id_, at - workless_since_)) return park_core();
  cpu_relax();
  return nullptr;
}

// It found nothing a moment ago, so it holds no request, and its queues get no more but by those
// who call it then (CoreSeat). Where nobody can mind its connections it sleeps on them instead, and
// has its core back with the first arrival. It looks for work a last time after it has parked, and
// keeps its core for what it finds.
template <Policy P>
Request* LiveWorker<P>::park_core() {
  CoreControl& cores = shared_.cores;
  cores.park(id_);
  DatapathQueue& minder = shared_.datapath.queue(CoreControl::minder());
  const bool minded = !kOwnArrivals<P> && datapath_.mind(&minder);
  cores.minded(id_).store(minded, std::memory_order_release);
  if (minded) minder.wake();  // it takes this queue into its waits
  shared_.sleepers.leaves();
  Request* found = nullptr;
  while (cores.lie_down(id_)) {
    found = last_look();
    if (found != nullptr || shared_.state() != RunState::kRunning) break;
    if (!minded && datapath_.pending()) break;
    note_sleep();
    minded ? cores.sleep(id_) : datapath_.wait(kQuietSleep);
    note_awake();
  }
  if (shared_.sleepers.comes_back()) shared_.sleepers.awake().notify_all();
  cores.minded(id_).store(false, std::memory_order_relaxed);
  if (minded) datapath_.mind(nullptr);
  cores.rise(id_);
  workless_since_ = step();
  return found;
}

// One queue at a time, in turn: each look is a system call.
template <Policy P>
void LiveWorker<P>::look_after_minded() {
  for (size_t i = 0; i < others.size(); ++i) {
    LiveWorker* other = others[next_minded_++ % others.size()];
    if (!shared_.cores.minded(other->id_).load(std::memory_order_acquire)) continue;
    ingest(other->datapath_);
    return;
  }
}

template <Policy P>
void LiveWorker<P>::mind_parked() {
  if (!shared_.cores.allocates() || id_ != CoreControl::minder()) return;
  for (LiveWorker* other : others) {
    if (!shared_.cores.minded(other->id_).load(std::memory_order_acquire)) continue;
    minded_.push_back(&other->datapath_);
  }
}

}  // namespace rubato
