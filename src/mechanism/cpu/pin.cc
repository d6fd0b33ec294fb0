// SPDX-License-Identifier: Apache-2.0
#include "mechanism/cpu/pin.h"

#include <sched.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace rubato {
namespace {

constexpr uint32_t kCpusMax = 8192;  // what the kernel can be built for

// A cpu_set_t large enough for every CPU the kernel may know.
class CpuSet {
 public:
  static constexpr size_t size() { return kCpusMax / 8; }
  cpu_set_t* get() { return sets_.data(); }
  void add(uint32_t cpu) { CPU_SET_S(cpu, size(), get()); }
  bool has(uint32_t cpu) { return CPU_ISSET_S(cpu, size(), get()) != 0; }

 private:
  std::array<cpu_set_t, kCpusMax / 8 / sizeof(cpu_set_t)> sets_{};
};

std::string describe(std::span<const uint32_t> cpus) {
  std::string text;
  for (uint32_t cpu : cpus) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  return text;
}

}  // namespace

Status pin_this_thread(uint32_t cpu) { return pin_this_thread_to_any({&cpu, 1}); }

Status pin_this_thread_to_any(std::span<const uint32_t> cpus) {
  CpuSet set;
  for (uint32_t cpu : cpus) {
    if (cpu < kCpusMax) set.add(cpu);
  }
  if (sched_setaffinity(0, CpuSet::size(), set.get()) == 0) return Done{};
  return Error{"cannot run on CPU " + describe(cpus) + ": " + std::strerror(errno)};
}

std::vector<uint32_t> allowed_cpus() {
  CpuSet set;
  std::vector<uint32_t> cpus;
  if (sched_getaffinity(0, CpuSet::size(), set.get()) != 0) return cpus;
  for (uint32_t cpu = 0; cpu < kCpusMax; ++cpu) {
    if (set.has(cpu)) cpus.push_back(cpu);
  }
  return cpus;
}

Result<std::vector<uint32_t>> cpus_of_workers(uint32_t first, uint32_t count) {
  const std::vector<uint32_t> allowed = allowed_cpus();
  if (first + count > allowed.size()) {
    return Error{"pin: " + std::to_string(count) + " workers from CPU number " +
                 std::to_string(first) + " do not fit on " + std::to_string(allowed.size()) +
                 " allowed CPUs"};
  }
  return std::vector<uint32_t>(allowed.begin() + first, allowed.begin() + first + count);
}

uint32_t current_cpu() {
  const int cpu = sched_getcpu();
  return cpu < 0 ? 0 : static_cast<uint32_t>(cpu);
}

}  // namespace rubato
