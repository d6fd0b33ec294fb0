// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cli/common/machine.h"
#include "cli/doctor/doctor_findings.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/features.h"
#include "mechanism/cpu/pin.h"
#include "mechanism/cpu/topology.h"

namespace rubato::cli {
namespace {

constexpr Nanos kGap = Nanos::micros(50);
constexpr double kQuietGapsPerSecond = 20;

Finding cores(const Topology& topology, const MachineInfo& machine) {
  const size_t allowed = topology.cpus.size();
  Finding finding{.name = "cores", .health = Health::kOk, .found = {}, .advice = {}};
  finding.found =
      fmt::format("{} of {} CPUs allowed, {}", allowed, machine.cores, machine.cpu_model);
  if (allowed < 2) {
    finding.health = Health::kWarn;
    finding.advice = "one CPU: a server and its load share it; figures say little";
  } else if (allowed < 4) {
    finding.health = Health::kInfo;
    finding.advice = "few CPUs: workers preempt themselves, no core is spent on a timer";
  } else {
    finding.advice = "leave one CPU per socket for the kernel's interrupts";
  }
  return finding;
}

Finding hyper_threads(const Topology& topology) {
  const bool smt = std::any_of(topology.cpus.begin(), topology.cpus.end(),
                               [](const Cpu& cpu) { return cpu.siblings.size() > 1; });
  if (!smt) return {"smt", Health::kOk, "one hardware thread per core", "nothing to do"};
  return {"smt", Health::kInfo, "cores have several hardware threads",
          "put one worker per core: a busy sibling costs a third of its speed"};
}

Finding tsc() {
  const Clock& clock = process_clock();
  const bool counter = std::string_view(clock.source()) != "clock_gettime";
  const std::string found =
      fmt::format("{} at {:.3f} MHz, invariant: {}", clock.source(), clock.frequency_hz() / 1e6,
                  cpu_features().invariant_tsc ? "yes" : "no");
  if (counter) return {"clock", Health::kOk, found, "time is read without a system call"};
  return {"clock", Health::kWarn, found,
          "the counter is not trusted: reading time costs more, and preemption is coarser"};
}

Finding kernel_clock(const Topology& topology) {
  const std::string& source = topology.clocksource;
  if (source == "tsc" || source == "kvm-clock" || source == "arch_sys_counter") {
    return {"clocksource", Health::kOk, source, "the kernel's clock is read in user space"};
  }
  return {"clocksource", source.empty() ? Health::kInfo : Health::kWarn,
          source.empty() ? "unknown" : source,
          "clock_gettime may be a system call; boot with clocksource=tsc if the TSC is stable"};
}

Finding governor(const Topology& topology) {
  std::set<std::string> governors;
  for (const Cpu& cpu : topology.cpus) governors.insert(cpu.governor);
  const std::string found = fmt::format("{}", fmt::join(governors, ", "));
  if (governors == std::set<std::string>{""}) {
    return {"governor", Health::kInfo, "no frequency control visible",
            "the host decides; usual in VMs"};
  }
  if (governors == std::set<std::string>{"performance"}) {
    return {"governor", Health::kOk, found, "nothing to do"};
  }
  return {"governor", Health::kWarn, found,
          "cpupower frequency-set -g performance: ramping up costs tens of microseconds"};
}

Finding isolation(const Topology& topology) {
  std::vector<uint32_t> isolated;
  for (const Cpu& cpu : topology.cpus) {
    if (cpu.isolated || cpu.tickless) isolated.push_back(cpu.id);
  }
  if (!isolated.empty()) {
    return {"isolation", Health::kOk,
            fmt::format("CPUs {} isolated or tickless", fmt::join(isolated, ",")),
            "put workers there with --idle spin"};
  }
  return {"isolation", Health::kInfo, "no CPU is isolated",
          "for steady tails boot with isolcpus=, nohz_full= and rcu_nocbs= on the workers' CPUs"};
}

Finding hugepages(const Topology& topology) {
  std::string found =
      "transparent: " + (topology.transparent_hugepages.empty() ? std::string("unknown")
                                                                : topology.transparent_hugepages);
  uint64_t reserved = 0;
  for (const Hugepages& pages : topology.hugepages) {
    reserved += pages.total;
    found += fmt::format("; {} of {} kB reserved", pages.total, pages.page_bytes / 1024);
  }
  if (reserved > 0) return {"hugepages", Health::kOk, found, "DPDK can use them"};
  return {"hugepages", Health::kInfo, found, "only DPDK needs them: sysctl vm.nr_hugepages=512"};
}

Finding virtualisation(const MachineInfo& machine) {
  if (machine.virtualised == "none") { return {"virtualised", Health::kOk, "no", "nothing to do"}; }
  return {"virtualised", Health::kWarn, machine.virtualised,
          "the hypervisor may stop a CPU for milliseconds: trust ratios of alternating runs, not "
          "p99.9"};
}

}  // namespace

std::vector<Finding> examine_hardware() {
  const Topology topology = read_topology();
  const MachineInfo machine = this_machine();
  return {cores(topology, machine), hyper_threads(topology), tsc(),
          kernel_clock(topology),   governor(topology),      isolation(topology),
          hugepages(topology),      virtualisation(machine)};
}

Finding examine_noise(int milliseconds) {
  const Instant start = rubato::now();
  const Instant end = start + Nanos::millis(milliseconds);
  Instant last = start;
  uint64_t gaps = 0;
  Nanos longest;
  while (last < end) {
    const Instant turn = rubato::now();
    if (turn - last > kGap) ++gaps;
    longest = std::max(longest, turn - last);
    last = turn;
  }
  const double per_second = static_cast<double>(gaps) * 1e3 / milliseconds;
  const bool quiet = per_second <= kQuietGapsPerSecond && longest < Nanos::millis(1);
  return {"noise", quiet ? Health::kOk : Health::kWarn,
          fmt::format("{:.0f} gaps over 50 us per second, longest {:.0f} us", per_second,
                      longest.micros()),
          quiet ? "quiet enough to measure p99"
                : "something else runs here: stop it, or pin and isolate, before you measure"};
}

}  // namespace rubato::cli
