// SPDX-License-Identifier: Apache-2.0
//
// The rivals of the simulator's benchmarks: a simulator as one writes it in an afternoon (a
// std::priority_queue of events, std::deque, the random numbers of the standard library, every
// latency kept and sorted at the end), of five policies; and the floor, the least that a simulator
// driven by events can do: a heap of busy workers, a FIFO ring, a histogram, no policies.
//
// Work of both: Poisson arrivals, exponential services of mean 1 us, no prices. One thread.
#pragma once

#include <cstdint>

namespace rubato::bench {

enum class NaivePolicy : uint8_t { kCfcfs, kDfcfs, kPs, kJbsq, kSteal };

struct NaiveWork {
  uint32_t workers = 16;
  double load = 0.8;
  uint64_t requests = 0;
  uint64_t seed = 1;
};

struct NaiveResult {
  double mean_ns = 0, p99_ns = 0;
};

inline constexpr int64_t kNaiveServiceNs = 1000;
inline constexpr int64_t kNaiveQuantumNs = 5000;  // of kPs
inline constexpr uint32_t kNaiveBound = 2;        // of kJbsq

NaiveResult simulate_naively(NaivePolicy policy, const NaiveWork& work);
NaiveResult simulate_floor(const NaiveWork& work);

}  // namespace rubato::bench
