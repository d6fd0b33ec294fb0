// SPDX-License-Identifier: Apache-2.0
//
// WorkerTracer<P>: puts what one live worker does into its TraceRing, while a trace is wanted: when
// a slice began and why it ended, and how many requests wait in the queues that the worker looks
// at, each time it turns to a request or finds none. Without one it costs a load per slice.
// Worker's thread only; borrows the ring.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "datapath/request.h"
#include "policy/contract.h"
#include "runtime/live_host.h"
#include "runtime/trace_ring.h"

namespace rubato {

template <Policy P>
class WorkerTracer {
 public:
  // `ring` may be null: there are no traces.
  WorkerTracer(TraceRing* ring, WorkerId me, LiveHost<P>& host)
      : ring_(ring), me_(me), host_(host) {}

  // The worker turns to a request, or has found none, at `at`.
  void turned(Instant at) {
    if (ring_ == nullptr) [[likely]] return;
    const uint32_t wanted = ring_->wanted();
    if (wanted != trace_) begin(wanted);
    if (trace_ != 0) note_queues(at);
  }

  // The slice of `request` that began at `start` is over. Noted if it began within the trace.
  void slice(const Request& request, Instant start, Instant end, Trace::End how) {
    if (trace_ == 0) [[likely]] return;
    ring_->put({.start = start,
                .end = end,
                .arrived = request.arrived,
                .started = request.started,
                .request = &request,
                .type = request.type,
                .how = how});
  }

  // `what` is static.
  void mark(const char* what, Instant at) {
    if (trace_ == 0) [[likely]] return;
    ring_->put({.start = at, .name = what, .what = TraceRecord::What::kMark});
  }

 private:
  static constexpr size_t kDeclarations = P::kQueues.size();
  static constexpr uint32_t kUnknown = UINT32_MAX;

  [[gnu::noinline]] void begin(uint32_t trace) {
    trace_ = trace;
    depths_.fill(kUnknown);
    steals_ = host_.steals().value();
  }

  // Its own queues when they have changed; those of all workers, which others change too, while
  // requests wait there and once after.
  [[gnu::noinline]] void note_queues(Instant at) {
    for (uint32_t declaration = 0; declaration < kDeclarations; ++declaration) {
      const QueueDeclaration& declared = P::kQueues[declaration];
      if (declared.scope == Scope::kPerManager) continue;
      if (declared.scope == Scope::kPerWorker) {
        const uint32_t depth = host_.depth({declaration, me_.value});
        const uint32_t before = std::exchange(depths_[declaration], depth);
        if (before != depth) note_depth({declaration, me_.value}, depth, at);
        continue;
      }
      uint32_t deepest = 0;
      for (uint32_t index = 0; index < declared.queue_count; ++index) {
        const uint32_t depth = host_.depth({declaration, index});
        if (depth != 0 || depths_[declaration] != 0) note_depth({declaration, index}, depth, at);
        if (depth > deepest) deepest = depth;
      }
      depths_[declaration] = deepest;
    }
    const uint64_t steals = host_.steals().value();
    if (std::exchange(steals_, steals) != steals) mark("steal", at);
  }

  void note_depth(QueueRef q, uint32_t depth, Instant at) {
    ring_->put({.start = at,
                .name = P::kQueues[q.declaration].name,
                .type = q.index,
                .depth = depth,
                .what = TraceRecord::What::kDepth});
  }

  TraceRing* const ring_;
  const WorkerId me_;
  LiveHost<P>& host_;
  uint32_t trace_ = 0;  // the one that the present slice is in; 0 = none
  std::array<uint32_t, kDeclarations> depths_{};  // as noted last; of global ones the deepest
  uint64_t steals_ = 0;
};

}  // namespace rubato
