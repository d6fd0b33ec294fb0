// SPDX-License-Identifier: Apache-2.0
//
// WorkerTracer<P>: puts what one live worker does into its TraceRing, while a trace is wanted: when
// a slice began and why it ended, and how many requests wait in the queues that the worker looks
// at, where that has changed since it looked last: each time it turns to a request or finds none.
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

namespace rubato {

template <Policy P>
class WorkerTracer {
 public:
  // `ring` may be null: there are no traces.
  WorkerTracer(TraceRing* ring, WorkerId me, LiveHost<P>& host)
      : ring_(ring), me_(me), host_(host) {}

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

  // How many queues of the declaration the worker looks at.
  static constexpr uint32_t seen_of(const QueueDeclaration& declared) {
    switch (declared.scope) {
      case Scope::kPerWorker: return 1;
      case Scope::kGlobal: return declared.queue_count;
      case Scope::kPerManager: return 0;
    }
    return 0;
  }
  static constexpr size_t kSeen = [] {
    size_t sum = 0;
    for (const QueueDeclaration& declared : P::kQueues) sum += seen_of(declared);
    return sum;
  }();

  [[gnu::noinline]] void begin(uint32_t trace) {
    trace_ = trace;
    depths_.fill(kUnknown);
    steals_ = host_.steals().value();
  }

  // The worker's decisions have the time at which it looked at the clock last, which may be before
  // the request came; a trace has that at which its slice begins.
  [[gnu::noinline]] void look_around() {
    began_ = now();
    avoided_ = 0;
    size_t seen = 0;
    for (uint32_t declaration = 0; declaration < P::kQueues.size(); ++declaration) {
      const QueueDeclaration& declared = P::kQueues[declaration];
      for (uint32_t i = 0; i < seen_of(declared); ++i, ++seen) {
        const QueueRef q{declaration, declared.scope == Scope::kPerWorker ? me_.value : i};
        const uint32_t depth = host_.depth(q);
        if (std::exchange(depths_[seen], depth) != depth) note_depth(q, depth);
      }
    }
    const uint64_t steals = host_.steals().value();
    if (std::exchange(steals_, steals) == steals) return;
    ring_->put({.start = began_, .name = "steal", .what = TraceRecord::What::kMark});
  }

  void note_depth(QueueRef q, uint32_t depth) {
    ring_->put({.start = began_,
                .name = P::kQueues[q.declaration].name,
                .type = q.index,
                .depth = depth,
                .what = TraceRecord::What::kDepth});
  }

  TraceRing* const ring_;
  const WorkerId me_;
  LiveHost<P>& host_;
  uint32_t trace_ = 0;    // the one that the present slice is in; 0 = none
  uint32_t avoided_ = 0;  // preemptions, in the present slice
  Instant began_;         // when the worker turned last
  std::array<uint32_t, kSeen> depths_{};  // as seen last
  uint64_t steals_ = 0;
};

}  // namespace rubato
