// SPDX-License-Identifier: Apache-2.0
#include "load/undisturbed.h"

namespace rubato::load {

void Undisturbed::judge_oldest() {
  const Held& oldest = held_.front();
  if (!stalls_.touch(oldest.due)) latency_[oldest.type].record(oldest.at - oldest.due);
  held_.pop_front();
}

void Undisturbed::replied(uint32_t type, Nanos due, Nanos at) {
  if (held_.size() == kMaxHeld) judge_oldest();
  held_.push_back({due, at, type});
}

// A stall that touches a request starts at most kStallReach after the request was due, which is no
// later than kStallReach after its reply.
void Undisturbed::settle(Nanos now) {
  while (!held_.empty() && held_.front().at <= now - kStallReach - kStallHold) judge_oldest();
}

}  // namespace rubato::load
