// SPDX-License-Identifier: Apache-2.0
#include "mechanism/clock/cpu_loss.h"

#include <algorithm>
#include <ctime>

namespace rubato {

Nanos thread_cpu_time() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return Nanos(int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec);
}

void CpuLoss::restart(Instant now) {
  since_ = now;
  cpu_ = thread_cpu_time();
  asleep_ = Nanos();
}

Nanos CpuLoss::take(Instant now) {
  const Nanos lost = (now - since_) - asleep_ - (thread_cpu_time() - cpu_);
  restart(now);
  return std::max(lost, Nanos());
}

}  // namespace rubato
