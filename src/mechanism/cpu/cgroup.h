// SPDX-License-Identifier: Apache-2.0
//
// The control group of the kernel's CPU controller, version 1 or 2, that a process is in, and how
// much CPU time its quota leaves. For set-up; any thread. A limit that the system does not tell
// counts as none: reading never fails.
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

// Finds the group in the texts of /proc/self/mountinfo and /proc/self/cgroup. Version 1 is
// preferred: where it has the controller, version 2 cannot. Pure.
CpuGroup find_cpu_group(std::string_view mounts, std::string_view groups,
                        std::string_view controller = "cpu");
CpuGroup own_cpu_group();

// The CPU time per period, in CPUs, that the group and its ancestors allow, such as 0.2; infinity =
// no limit. A container sees the limits from its own root on.
double cpu_quota(const CpuGroup& group);

// cgroup_text: the contents of one of the kernel's files, empty if it cannot be read. cgroup_lists:
// whether such a text lists `word`.
std::string cgroup_text(const std::string& path);
bool cgroup_lists(std::string_view text, char separator, std::string_view word);

// The number of threads that can run all the time: the allowed CPUs (affinity), or, where that is
// less, the whole CPUs in the quota. At least 1.
uint32_t usable_cpus(uint32_t allowed, double quota);
uint32_t usable_cpus();

}  // namespace rubato
