// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "cli/common/machine.h"
#include "cli/doctor/doctor_findings.h"
#include "dpdk/load.h"
#include "load/socket.h"
#include "mechanism/cpu/cgroup.h"

namespace rubato::cli {
namespace {

constexpr rlim_t kComfortableFiles = 65536;
constexpr int kComfortableBacklog = 4096;
constexpr int kAddressFamilyXdp = 44;  // AF_XDP; older headers do not have it

Finding io_uring() {
  const std::string disabled = first_line("/proc/sys/kernel/io_uring_disabled");
  if (disabled == "1" || disabled == "2") {
    return {"io_uring", Health::kInfo, "switched off by kernel.io_uring_disabled",
            "not needed: epoll is the datapath"};
  }
  // Without a parameter block the call can only fail; the errno tells whether it exists.
  const long result = ::syscall(SYS_io_uring_setup, 0, nullptr);
  if (result < 0 && errno != ENOSYS && errno != EPERM) {
    return {"io_uring", Health::kOk, "available", "not used: epoll is the datapath"};
  }
  return {"io_uring", Health::kInfo, errno == EPERM ? "forbidden here" : "not in this kernel",
          "not needed: epoll is the datapath"};
}

Finding af_xdp() {
  const load::Fd fd(::socket(kAddressFamilyXdp, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (fd.open())
    return {"af_xdp", Health::kOk, "available",
            "serve --datapath af_xdp:IFACE for datagrams (docs/DATAPATHS.md)"};
  if (errno == EPERM || errno == EACCES) {
    return {"af_xdp", Health::kInfo, "in the kernel, but not permitted",
            "needs CAP_NET_RAW, CAP_BPF and CAP_NET_ADMIN"};
  }
  return {"af_xdp", Health::kInfo, "not in this kernel", "ordinary sockets are the default"};
}

// The plugin links DPDK, so it cannot be loaded without.
Finding dpdk() {
  const auto version = dpdk_version();
  if (version.ok()) {
    return {"dpdk", Health::kOk, version.value() + ", by the plugin librubato-dpdk.so",
            "serve spin --datapath dpdk:PORT takes a whole port (docs/DATAPATHS.md)"};
  }
  return {"dpdk", Health::kInfo, version.error(),
          "only for a card of its own: install the package rubato-dpdk"};
}

// 0 where there is none.
uint64_t number_in(const std::string& file) {
  const std::string text = first_line(file);
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Of each node, its name and the MiB of free hugepages there.
std::vector<std::pair<std::string, uint64_t>> numa_nodes() {
  namespace fs = std::filesystem;
  std::vector<std::pair<std::string, uint64_t>> nodes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.size() < 5 || !name.starts_with("node") || name[4] < '0' || name[4] > '9') continue;
    uint64_t kib = 0;
    for (const auto& pages : fs::directory_iterator(entry.path() / "hugepages", ignored)) {
      const std::string name_of_size = pages.path().filename().string();
      uint64_t page_kib = 0;
      const size_t digits = name_of_size.find('-') + 1;  // hugepages-2048kB
      std::from_chars(name_of_size.data() + digits, name_of_size.data() + name_of_size.size(),
                      page_kib);
      kib += page_kib * number_in((pages.path() / "free_hugepages").string());
    }
    nodes.emplace_back(name, kib / 1024);
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

size_t entries_in(const char* folder) {
  std::error_code failed;
  const std::filesystem::directory_iterator entries(folder, failed);
  return failed ? 0 : static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

// DPDK's own drivers, other than those of virtual ports, reach a card by vfio.
Finding vfio() {
  const size_t groups = entries_in("/sys/kernel/iommu_groups");
  const bool module = std::filesystem::exists("/dev/vfio/vfio");
  const std::string found =
      fmt::format("{}, {} IOMMU groups", module ? "/dev/vfio/vfio" : "no vfio module", groups);
  if (module && groups > 0) {
    return {"vfio", Health::kOk, found, "dpdk-devbind.py --bind=vfio-pci gives DPDK a card"};
  }
  if (groups == 0) {
    return {"vfio", Health::kInfo, found,
            "only for DPDK with a card: boot with intel_iommu=on iommu=pt (AMD: iommu=pt)"};
  }
  return {"vfio", Health::kInfo, found, "only for DPDK with a card: modprobe vfio-pci"};
}

// Memory that DPDK takes should be where its card is.
Finding numa() {
  const auto nodes = numa_nodes();
  std::string found = fmt::format("{} node(s)", nodes.size());
  for (const auto& [node, free_mib] : nodes) {
    found += fmt::format(", {}: {} MiB in hugepages", node, free_mib);
  }
  return {"numa", Health::kInfo, found,
          "DPDK: hugepages and workers on the card's node (/sys/class/net/*/device/numa_node)"};
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

Finding open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string found =
      fmt::format("{} (up to {})", limit_text(limit.rlim_cur), limit_text(limit.rlim_max));
  if (limit.rlim_max >= kComfortableFiles) return {"nofile", Health::kOk, found, "nothing to do"};
  return {"nofile", Health::kWarn, found,
          "each connection needs one: raise LimitNOFILE (systemd) or ulimit -n to 65536"};
}

Finding backlog() {
  const std::string text = first_line("/proc/sys/net/core/somaxconn");
  int length = 0;
  std::from_chars(text.data(), text.data() + text.size(), length);
  if (length >= kComfortableBacklog) return {"somaxconn", Health::kOk, text, "nothing to do"};
  return {"somaxconn", Health::kWarn, text.empty() ? "unknown" : text,
          "connection bursts are dropped beyond it: sysctl net.core.somaxconn=4096"};
}

Finding realtime() {
  rlimit limit{};
  ::getrlimit(RLIMIT_RTPRIO, &limit);
  const std::string runtime = first_line("/proc/sys/kernel/sched_rt_runtime_us");
  const std::string found =
      fmt::format("RTPRIO limit {}, sched_rt_runtime_us {}", limit_text(limit.rlim_cur),
                  runtime.empty() ? "unknown" : runtime);
  return {
      "realtime", Health::kInfo, found,
      "never spin under SCHED_FIFO: from Linux 6.12 on, starved tasks take 50 ms of each second"};
}

Finding quota() {
  const double cpus = cpu_quota(own_cpu_group());
  if (std::isinf(cpus)) return {"cpu quota", Health::kOk, "none", "nothing to do"};
  return {"cpu quota", Health::kWarn, fmt::format("{:.2f} CPUs", cpus),
          "a CPU limit stops every worker for the rest of its period: use cpu.weight instead"};
}

Finding kernel() {
  utsname names{};
  ::uname(&names);
  const bool preempt_rt = std::strstr(names.version, "PREEMPT_RT") != nullptr;
  return {"kernel", Health::kInfo, std::string(names.release) + (preempt_rt ? " (PREEMPT_RT)" : ""),
          "any kernel from 5.10 on will do"};
}

}  // namespace

std::vector<Finding> examine_mechanisms() {
  return {io_uring(), af_xdp(), dpdk(), vfio(), numa()};
}

std::vector<Finding> examine_limits() {
  return {kernel(), quota(), open_files(), backlog(), realtime()};
}

}  // namespace rubato::cli
