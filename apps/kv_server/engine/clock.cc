// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include "kv_server/engine/engine.h"

namespace rubato::kv {

namespace {

class SystemClock final : public Clock {
 public:
  int64_t now_ms() override { return read(CLOCK_REALTIME); }
  int64_t coarse_ms() override { return read(CLOCK_REALTIME_COARSE); }

 private:
  static int64_t read(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  }
};

}  // namespace

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

}  // namespace rubato::kv
