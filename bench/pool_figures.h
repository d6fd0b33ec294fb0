// SPDX-License-Identifier: Apache-2.0
//
// What the programs that compare pools read from the command line and print.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "pools.h"

namespace rubato::bench {

// Reads [--rounds N] [--seconds S] [--workers N] [--policy NAME]; false, with a line, otherwise.
inline bool read(int argc, char** argv, Settings& settings) {
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    const double value = i + 1 < argc ? std::atof(argv[i + 1]) : 0;
    if (option == "--policy" && i + 1 < argc) {
      settings.policy = argv[i + 1];
    } else if (option == "--rounds" && value > 0) {
      settings.rounds = static_cast<int>(value);
    } else if (option == "--seconds" && value > 0) {
      settings.seconds = value;
    } else if (option == "--workers" && value > 0) {
      settings.workers = static_cast<uint32_t>(value);
    } else {
      std::fprintf(stderr, "%s: %s: takes --rounds, --seconds and --workers with a number over 0, "
                   "--policy with a name\n", argv[0], argv[i]);
      return false;
    }
  }
  return true;
}

inline void wait_until_below(const std::atomic<int64_t>& underway, int64_t limit) {
  while (underway.load(std::memory_order_acquire) >= limit) std::this_thread::yield();
}

inline double percentile_us(const std::vector<std::chrono::nanoseconds>& sorted, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size()));
  return static_cast<double>(sorted[std::min(at, sorted.size() - 1)].count()) / 1000;
}

// The median and the range.
inline void print(const char* what, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::printf("  %s %.4g [%.4g-%.4g]", what, values[values.size() / 2], values.front(),
              values.back());
}

}  // namespace rubato::bench
