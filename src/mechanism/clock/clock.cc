// SPDX-License-Identifier: Apache-2.0
#include "mechanism/clock/clock.h"

#include <time.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "mechanism/clock/calibration.h"
#include "mechanism/cpu/features.h"

namespace rubato {
namespace {

constexpr size_t kReadings = 9;
constexpr int64_t kReadingGapNs = 2'000'000;  // nine readings 2 ms apart: 16 ms
constexpr int kTriesPerReading = 8;
constexpr int64_t kNanosPerSecond = 1'000'000'000;

// -1 if the clock does not exist.
int64_t read_ns(clockid_t id) {
  timespec t{};
  if (clock_gettime(id, &t) != 0) return -1;
  return t.tv_sec * kNanosPerSecond + t.tv_nsec;
}

#if defined(__x86_64__)
// The kernel compares the counter with other clocks all the time. Where it fell back to a slow
// clock it had a reason; a paravirtual clock says nothing against the counter.
bool kernel_distrusts_counter() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  if (!(file >> name)) return false;
  return name == "hpet" || name == "acpi_pm" || name == "jiffies" || name == "refined-jiffies";
}
#endif

bool counter_is_usable() {
  const char* const asked = std::getenv("RUBATO_CLOCK");
  if (asked != nullptr && std::string_view(asked) == "kernel") return false;
#if defined(__x86_64__)
  return cpu_features().invariant_tsc && !kernel_distrusts_counter();
#elif defined(__aarch64__)
  return true;  // the architecture defines the virtual counter as constant and always running
#else
  return false;
#endif
}

// Reads the kernel's clock between two readings of the counter, several times, and keeps the try
// with the narrowest bracket: the one that was not interrupted.
template <class ReadCounter>
ClockPair read_pair(ReadCounter read_counter) {
  ClockPair best;
  uint64_t narrowest = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < kTriesPerReading; ++i) {
    const uint64_t before = read_counter();
    const int64_t ns = read_ns(CLOCK_MONOTONIC_RAW);
    const uint64_t width = read_counter() - before;
    if (width < narrowest) {
      narrowest = width;
      best = {before + width / 2, ns};
    }
  }
  return best;
}

void pause_between_readings() {
  const timespec gap{0, kReadingGapNs};
  nanosleep(&gap, nullptr);
}

}  // namespace

int64_t Clock::kernel_ns() { return read_ns(CLOCK_MONOTONIC); }

Result<Clock> Clock::from_kernel() {
  if (kernel_ns() < 0) return Error{"this system has no CLOCK_MONOTONIC"};
  return Clock();
}

Result<Clock> Clock::calibrate() {
  if (!counter_is_usable() || read_ns(CLOCK_MONOTONIC_RAW) < 0) return from_kernel();
  std::array<ClockPair, kReadings> readings;
  for (size_t i = 0; i < kReadings; ++i) {
    if (i > 0) pause_between_readings();
    readings[i] = read_pair(&Clock::read_counter);
  }
  const double slope = nanos_per_cycle(readings);
  if (slope <= 0) return from_kernel();
  Clock clock;
  clock.counter_ = true;
  clock.mult_ = std::llround(std::ldexp(slope, kShift));
  clock.frequency_hz_ = 1e9 / slope;
  clock.base_cycles_ = read_counter();
  clock.base_ns_ = kernel_ns();
#if defined(__x86_64__)
  clock.source_ = "tsc";
#else
  clock.source_ = "cntvct";
#endif
  return clock;
}

}  // namespace rubato
