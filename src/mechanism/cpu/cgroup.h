// SPDX-License-Identifier: Apache-2.0
//
// The control group of the kernel's CPU controller, version 1 or 2, that this process is in, and
// how much CPU time its quota leaves. For set-up; any thread. What the system does not tell counts
// as no limit: reading never fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rubato {

struct CpuGroup {
  std::string folder;  // of the group, in the file system; empty = there is no CPU controller
  std::string mount;   // the folder of the root group
  bool unified = false;  // version 2
};

// Of the texts of /proc/self/mountinfo and /proc/self/cgroup. Version 1 is preferred: where it has
// the controller, version 2 cannot. Pure.
CpuGroup find_cpu_group(std::string_view mounts, std::string_view groups);
CpuGroup own_cpu_group();

// CPUs' worth of time per period that the group and those above it may use, such as 0.2; infinity
// = no limit. A container sees the limits from its own root on.
double cpu_quota(const CpuGroup& group);

// The contents of one of the kernel's files, empty if it cannot be read; and whether such a list
// has that word.
std::string cgroup_text(const std::string& path);
bool cgroup_lists(std::string_view text, char separator, std::string_view word);

// How many threads can run all the time: the allowed CPUs (affinity), or, where that is less, the
// whole CPUs in the quota. At least 1.
uint32_t usable_cpus(uint32_t allowed, double quota);
uint32_t usable_cpus();

}  // namespace rubato
