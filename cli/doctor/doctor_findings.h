// SPDX-License-Identifier: Apache-2.0
//
// The examinations of `rubato doctor`: the features of this machine for a scheduler of
// microseconds, one finding and one line of advice each. They read /proc and /sys, try a few system
// calls without effect, and never fail: a finding that cannot be made says so. One thread.
#pragma once

#include <string>
#include <vector>

namespace rubato::cli {

enum class Health { kOk, kInfo, kWarn };

struct Finding {
  std::string name;
  Health health = Health::kInfo;
  std::string found;
  std::string advice;
};

// Cores, clock, frequency, memory, virtualisation.
std::vector<Finding> examine_hardware();
// Each preemption mechanism, and the default one.
std::vector<Finding> examine_preemption();
// io_uring, AF_XDP, DPDK.
std::vector<Finding> examine_mechanisms();
// Limits of the system and of this process.
std::vector<Finding> examine_limits();
// Spins on one core for `milliseconds` and reports how often and how long it was kept from running.
Finding examine_noise(int milliseconds);

}  // namespace rubato::cli
