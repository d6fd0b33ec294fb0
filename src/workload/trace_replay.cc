// SPDX-License-Identifier: Apache-2.0
#include "workload/trace_replay.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace rubato {
namespace {

constexpr uint64_t kBlockStream = 0xa0761d6478bd642fu;

}  // namespace

TraceReplay::TraceReplay(std::shared_ptr<const RequestTrace> trace, double rate, Nanos block,
                         uint64_t seed)
    : trace_(std::move(trace)),
      block_(block > Nanos() ? std::min(block, trace_->span()) : trace_->span()),
      draws_(block > Nanos()),
      stretch_(trace_->rate_rps() / rate),
      prng_(seed ^ kBlockStream),
      cursor_(trace_) {
  // Before the first of a type is served its mean stands for it.
  for (const RequestTrace::Type& type : trace_->types()) {
    const auto served = static_cast<double>(std::max<uint64_t>(type.served, 1));
    const double mean_ns = type.service_ns / served;
    last_service_.push_back(std::max(Nanos(std::llround(mean_ns)), Nanos(1)));
  }
  begin_block();
}

Nanos TraceReplay::usual_block(const RequestTrace& trace) {
  constexpr int64_t kParts = 20, kRequests = 200;
  const Nanos gaps = Nanos(static_cast<int64_t>(kRequests * 1e9 / trace.rate_rps()));
  return std::max(Nanos(1), std::min(std::max(trace.span() / kParts, gaps), trace.span() / 2));
}

void TraceReplay::begin_block() {
  const auto span = static_cast<double>(trace_->span().count());
  start_ = draws_ ? Nanos(static_cast<int64_t>(prng_.uniform() * span)) : Nanos();
  lap_ = Nanos();
  cursor_.seek(trace_->first() + start_);
}

RecordedRequest TraceReplay::next() {
  for (;;) {
    std::optional<RecordedRequest> request = cursor_.next();
    if (!request) {  // the trace is a circle
      lap_ += trace_->span();
      cursor_.seek(trace_->first());
      request = cursor_.next();
    }
    const Nanos since = request->at - trace_->first() + lap_ - start_;
    if (since >= block_) {
      done_ += block_;
      begin_block();
      continue;
    }
    if (request->refused) {
      request->service = last_service_[request->type];
    } else {
      last_service_[request->type] = request->service;
    }
    request->at = stretched(done_ + since);
    return *request;
  }
}

Nanos TraceReplay::stretched(Nanos at) const {
  if (stretch_ == 1) return at;
  return Nanos(std::llround(static_cast<double>(at.count()) * stretch_));
}

}  // namespace rubato
