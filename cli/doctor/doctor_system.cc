// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "cli/common/machine.h"
#include "cli/doctor/doctor_findings.h"
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
    return {"io_uring", Health::kOk, "available", "not used yet: epoll is the datapath"};
  }
  return {"io_uring", Health::kInfo, errno == EPERM ? "forbidden here" : "not in this kernel",
          "not needed: epoll is the datapath"};
}

Finding af_xdp() {
  const load::Fd fd(::socket(kAddressFamilyXdp, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (fd.open())
    return {"af_xdp", Health::kOk, "available", "kernel bypass without DPDK is possible"};
  if (errno == EPERM || errno == EACCES) {
    return {"af_xdp", Health::kInfo, "in the kernel, but not permitted",
            "needs CAP_NET_RAW and CAP_BPF"};
  }
  return {"af_xdp", Health::kInfo, "not in this kernel", "ordinary sockets are the default"};
}

std::string find_dpdk() {
  namespace fs = std::filesystem;
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/local/lib", "/usr/local/lib/x86_64-linux-gnu"}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().filename().string().starts_with("librte_eal.so"))
        return entry.path().string();
    }
  }
  return "";
}

Finding dpdk() {
  const std::string library = find_dpdk();
  if (!library.empty()) return {"dpdk", Health::kOk, library, "bind a NIC to vfio-pci to use it"};
  return {"dpdk", Health::kInfo, "not installed",
          "only for a NIC of its own: apt install dpdk libdpdk-dev"};
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
  return {io_uring(), af_xdp(), dpdk()};
}

std::vector<Finding> examine_limits() {
  return {kernel(), quota(), open_files(), backlog(), realtime()};
}

}  // namespace rubato::cli
