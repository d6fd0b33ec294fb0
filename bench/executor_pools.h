// SPDX-License-Identifier: Apache-2.0
//
// What the pools of executor_pools have in common: their tasks, their list.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <rubato/rubato.hpp>

#include "pools.h"

namespace rubato::bench {

// A task of the bench; what a pool does with it is call run() once.
struct Job {
  Clock::time_point submitted;
  std::chrono::nanoseconds service;
  std::chrono::nanoseconds* waited;
  std::atomic<int64_t>* underway;

  void run() const {
    const Clock::time_point started = Clock::now();
    if (waited != nullptr) *waited = started - submitted;
    while (Clock::now() - started < service) rubato::checkpoint();
    underway->fetch_sub(1, std::memory_order_release);
  }
};

using Pool = PoolOf<Job>;

struct Contender {
  const char* name;
  std::function<std::unique_ptr<Pool>(const Settings&)> make;
};

template <class P>
Contender contender(const char* name) {
  return {name, [](const Settings& settings) { return std::make_unique<P>(settings); }};
}

// The pools that were built, each of which registers itself.
inline std::vector<Contender>& contenders() {
  static std::vector<Contender> all;
  return all;
}
struct Registered {
  explicit Registered(Contender contender) { contenders().push_back(std::move(contender)); }
};

}  // namespace rubato::bench
