// SPDX-License-Identifier: Apache-2.0
//
// WorkerTracer<P>: puts what one live worker does into its TraceRing, while a trace is wanted: when
// a slice began and why it ended, and how many requests wait in the queues that the worker looks
// at, each time it turns to a request or finds none, where that has changed: in its own since it
// looked last, in those of all workers since any worker did.
// Requests of the control plane are left out, as in recordings. Without a trace it costs a load per
// slice. Worker's thread only; borrows the ring.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "datapath/request.h"
#include "mechanism/clock/clock.h"
#include "policy/contract.h"
#include "runtime/live_host.h"
#include "runtime/trace_ring.h"
#include "runtime/traced_depth.h"

namespace rubato {

// How many queues of that scope there are, of each worker or of all.
template <Policy P>
constexpr size_t queues_of(Scope scope) {
  size_t sum = 0;
  for (const QueueDeclaration& declared : P::kQueues) {
    if (declared.scope == scope) sum += scope == Scope::kGlobal ? declared.queue_count : 1;
  }
  return sum;
}

template <Policy P>
class WorkerTracer {
 public:
  // The queues of all workers.
  using Shared = std::array<TracedDepth<>, queues_of<P>(Scope::kGlobal)>;

  // `ring` may be null: there are no traces.
  WorkerTracer(TraceRing* ring, WorkerId me, LiveHost<P>& host, Shared& shared)
      : ring_(ring), me_(me), host_(host), shared_(shared) {}

  // The worker turns to a request, whose slice begins, or has found none.
  void turned() {
    if (ring_ == nullptr) [[likely]] return;
    const uint32_t wanted = ring_->wanted();
    if (wanted != trace_) begin(wanted);
    if (trace_ != 0) look_around();
  }

  // The quantum of the running request is over, and it goes on.
  void avoided() { ++avoided_; }

  // The slice of `request` is over. Noted if it began within the trace.
  void slice(const Request& request, Instant end, Trace::End how) {
    if (trace_ == 0 || request.is_control()) [[likely]] return;
    ring_->put({.start = began_,
                .end = std::max(end, began_),
                .arrived = request.arrived,
                .started = request.started,
                .request = &request,
                .type = request.type,
                .avoided = avoided_,
                .how = how});
  }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  [[gnu::noinline]] void begin(uint32_t trace) {
    trace_ = trace;
    own_.fill(kUnknown);
    steals_ = host_.steals().value();
  }

  // The worker's decisions have the time at which it looked at the clock last, which may be before
  // the request came; a trace has that at which its slice begins.
  [[gnu::noinline]] void look_around() {
    began_ = now();
    avoided_ = 0;
    auto own = own_.begin();
    auto shared = shared_.begin();
    for (uint32_t declaration = 0; declaration < P::kQueues.size(); ++declaration) {
      const QueueDeclaration& declared = P::kQueues[declaration];
      if (declared.scope == Scope::kPerWorker) {
        const QueueRef q{declaration, me_.value};
        const uint32_t depth = host_.depth(q);
        if (std::exchange(*own++, depth) != depth) note_depth(q, {began_, depth});
      }
      if (declared.scope != Scope::kGlobal) continue;
      for (uint32_t i = 0; i < declared.queue_count; ++i) {
        const QueueRef q{declaration, i};
        const auto change = (shared++)->changed(trace_, [&] { return host_.depth(q); });
        if (change) note_depth(q, *change);
      }
    }
    const uint64_t steals = host_.steals().value();
    if (std::exchange(steals_, steals) == steals) return;
    ring_->put({.start = began_, .name = "steal", .what = TraceRecord::What::kMark});
  }

  void note_depth(QueueRef q, const TracedDepth<>::Change& seen) {
    ring_->put({.start = seen.at,
                .name = P::kQueues[q.declaration].name,
                .type = q.index,
                .depth = seen.depth,
                .what = TraceRecord::What::kDepth});
  }

  TraceRing* const ring_;
  const WorkerId me_;
  LiveHost<P>& host_;
  Shared& shared_;
  uint32_t trace_ = 0;    // the one that the present slice is in; 0 = none
  uint32_t avoided_ = 0;  // preemptions, in the present slice
  Instant began_;         // when the worker turned last
  std::array<uint32_t, queues_of<P>(Scope::kPerWorker)> own_{};  // as seen last
  uint64_t steals_ = 0;
};

}  // namespace rubato
