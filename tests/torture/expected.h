// SPDX-License-Identifier: Apache-2.0
//
// What workloads give when nobody interrupts them, to hold against what they give otherwise. Made
// on a plain thread, read by any.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "tests/torture/workload.h"

namespace torture {

class Expected {
 public:
  static constexpr uint64_t kSeeds = 16;

  // `all` outlives it.
  explicit Expected(std::span<const Workload> all) : all_(all) {
    for (const Workload& workload : all_) {
      for (uint64_t seed = 0; seed < kSeeds; ++seed) results_.push_back(workload.run(seed));
    }
  }

  // How many pairs of a workload and a seed there are, and whether one gives what it should.
  uint64_t count() const { return results_.size(); }
  std::span<const Workload> all() const { return all_; }
  const Workload& workload(uint64_t number) const { return all_[number / kSeeds]; }
  bool holds(uint64_t number) const {
    return workload(number).run(number % kSeeds) == results_[number];
  }

 private:
  std::span<const Workload> all_;
  std::vector<uint64_t> results_;
};

// The number in an environment variable.
inline uint64_t asked(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace torture
