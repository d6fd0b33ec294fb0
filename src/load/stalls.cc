// SPDX-License-Identifier: Apache-2.0
#include "load/stalls.h"

#include <algorithm>

namespace rubato::load {

void Stalls::add(const Stall& stall) {
  ++count_;
  lost_ += stall.lost;
  Span span{stall.start - kStallReach, stall.end + stall.lost * kStallAftermath};
  while (!touched_.empty() && touched_.back().to >= span.from) {
    span.from = std::min(span.from, touched_.back().from);
    span.to = std::max(span.to, touched_.back().to);
    touched_.pop_back();
  }
  if (touched_.size() == kMaxTouched) forget_oldest();
  touched_.push_back(span);
}

void Stalls::forget_oldest() {
  const auto kept = touched_.begin() + static_cast<std::ptrdiff_t>(touched_.size() / 2);
  forgotten_before_ = (kept - 1)->to;
  touched_.erase(touched_.begin(), kept);
}

bool Stalls::touch(Nanos due) const {
  if (due <= forgotten_before_) return true;
  const auto next = std::upper_bound(touched_.begin(), touched_.end(), due,
                                     [](Nanos at, const Span& span) { return at < span.from; });
  return next != touched_.begin() && due <= (next - 1)->to;
}

}  // namespace rubato::load
