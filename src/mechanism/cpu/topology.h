// SPDX-License-Identifier: Apache-2.0
//
// Topology: the CPUs this process may use, and how they lie in cores, packages and memory nodes, as
// sysfs tells it. For placing workers and for `rubato doctor`; a snapshot, read at start, any
// thread. A field that the system does not tell keeps its default below: reading never fails.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rubato {

struct Cpu {
  uint32_t id = 0;
  uint32_t core = 0;               // unique within the package
  uint32_t package = 0;
  uint32_t numa_node = 0;
  std::vector<uint32_t> siblings;  // hyper-threads of its core, itself included, ascending
  bool isolated = false;           // kept free of other tasks (isolcpus=)
  bool tickless = false;           // no timer tick while one task runs (nohz_full=)
  std::string governor;            // frequency governor; empty where there is none, as in most VMs
};

struct Hugepages {
  uint64_t page_bytes = 0;
  uint64_t total = 0;
  uint64_t available = 0;
};

struct Topology {
  std::vector<Cpu> cpus;  // online and allowed to this process, ascending by id
  std::vector<Hugepages> hugepages;
  std::string transparent_hugepages;  // "always", "madvise", "never"; empty if unknown
  std::string clocksource;            // the kernel's own clock, such as "tsc" or "kvm-clock"

  // The lowest-numbered CPU of every core: where workers are best put.
  std::vector<uint32_t> one_per_core() const;
};

// `sysfs` is /sys except in tests; `allowed`: the CPUs that the affinity allows, see
// allowed_cpus().
Topology read_topology(const std::filesystem::path& sysfs, std::span<const uint32_t> allowed);
Topology read_topology();

// Parses the kernel's list format, such as "0-3,8,10-11\n", into ascending numbers without
// duplicates. Nullopt if the text is not such a list or a number exceeds kCpuListMax. Pure.
std::optional<std::vector<uint32_t>> parse_cpu_list(std::string_view text);

inline constexpr uint32_t kCpuListMax = 8191;

}  // namespace rubato
