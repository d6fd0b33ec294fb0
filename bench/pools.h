// SPDX-License-Identifier: Apache-2.0
//
// A pool of threads that is measured, whatever its jobs are: it calls run() of each once.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rubato::bench {

using Clock = std::chrono::steady_clock;

struct Settings {
  int rounds = 3;
  double seconds = 3;
  uint32_t workers = 1;
  std::string policy = "synergy";
};

template <class J>
class PoolOf {
 public:
  virtual ~PoolOf() = default;
  virtual void submit(const J& job) = 0;
};

}  // namespace rubato::bench
