// SPDX-License-Identifier: Apache-2.0
//
// Cores: an allocator of cores for a runtime in a world, drawn at random: workers park whenever
// they can, and come back at once. For tests.
#pragma once

#include <cstdint>
#include <string>

#include "base/prng.h"
#include "policy/testing/random_settings.h"
#include "runtime/options.h"

namespace rubato::virt::testing {

struct Cores {
  std::string allocator = {};  // empty = every worker has a core
  rubato::testing::PolicySettings settings = {};
  uint32_t guaranteed = 0;

  bool come_and_go() const { return !allocator.empty(); }

  // Requires two workers.
  static Cores draw(Prng& prng, uint32_t workers) {
    static constexpr const char* kRules[] = {"reactive", "caladan", "coresync", "util-range"};
    Cores cores;
    cores.allocator = kRules[prng.below(4)];
    cores.guaranteed = 1 + prng.below(workers - 1);
    cores.settings = {{"interval", "100ns"}, {"threshold", "100ns"}};
    cores.allocator == "util-range" ? cores.settings.emplace_back("low", "1")
                                    : cores.settings.emplace_back("poll", "0");
    return cores;
  }

  void add_to(RuntimeOptions& options) const {
    if (!come_and_go()) return;
    options.cores = allocator;
    options.cores_settings.insert(settings.begin(), settings.end());
    options.guaranteed_cores = guaranteed;
  }

  std::string describe() const {
    return come_and_go() ? ", cores " + allocator + " " + std::to_string(guaranteed) : "";
  }
};

}  // namespace rubato::virt::testing
