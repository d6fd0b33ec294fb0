// SPDX-License-Identifier: Apache-2.0
#include "virtual/recorder.h"

#include <algorithm>

#include "metrics/trace.h"

namespace rubato::virt {

Recorder& Recorder::of_process() {
  static constinit Recorder recorder;
  return recorder;
}

bool Recorder::write(const std::string& path) const {
  if (count_ == 0) return false;
  auto trace = Trace::open(path, {}, threads_, {}, "thread");
  if (!trace.ok()) return false;
  for (uint64_t i = count_ - std::min<uint64_t>(count_, kEvents); i < count_; ++i) {
    const Event& event = events_[i % kEvents];
    if (event.to == Instant::never()) {
      (*trace)->mark(event.thread, event.what, event.from);
    } else {
      (*trace)->span(event.thread, event.what, event.from, event.to);
    }
  }
  return (*trace)->finish().ok();
}

}  // namespace rubato::virt
