// SPDX-License-Identifier: Apache-2.0
#include "process/core_placement.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "mechanism/cpu/cgroup.h"
#include "mechanism/cpu/topology.h"

namespace rubato {
namespace {

std::string list_of(const std::vector<uint32_t>& cpus) {
  std::string list;
  for (const uint32_t cpu : cpus) list += (list.empty() ? "" : ",") + std::to_string(cpu);
  return list;
}

bool write_text(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  return written;
}

std::string in_proc(pid_t process, const char* file) {
  return "/proc/" + std::to_string(process) + "/" + file;
}

// Why the group cannot be used; empty = it can.
std::string trouble_with(const CpuGroup& group, pid_t process) {
  if (group.folder.empty()) return "no cpuset controller is mounted";
  if (group.folder == group.mount) return "the server is in the root group";
  if (cgroup_text(group.folder + "/cgroup.procs") != std::to_string(process) + "\n") {
    return "the server has no control group to itself";
  }
  if (::access((group.folder + "/cpuset.cpus").c_str(), W_OK) != 0) {
    return group.folder + " has no cpuset that can be written";
  }
  return {};
}

// True: the thread is there no more, or has the affinity.
bool place_thread(pid_t thread, const cpu_set_t* set, size_t bytes) {
  return ::sched_setaffinity(thread, bytes, set) == 0 || errno == ESRCH;
}

}  // namespace

CorePlacement::CorePlacement(pid_t process) : process_(process) {
  const CpuGroup group = find_cpu_group(cgroup_text("/proc/self/mountinfo"),
                                        cgroup_text(in_proc(process, "cgroup")), "cpuset");
  const std::string trouble = trouble_with(group, process);
  if (!trouble.empty()) {
    means_ = "affinity: " + trouble;
    return;
  }
  file_ = group.folder + "/cpuset.cpus";
  before_ = cgroup_text(file_);
  means_ = "cpuset of " + group.folder;
}

CorePlacement::CorePlacement(CorePlacement&& other) noexcept
    : process_(other.process_),
      file_(std::exchange(other.file_, {})),
      before_(std::move(other.before_)),
      means_(std::move(other.means_)) {}

CorePlacement::~CorePlacement() {
  if (!file_.empty()) write_text(file_, before_.empty() ? "\n" : before_);
}

Status CorePlacement::place(const std::vector<uint32_t>& cpus) const {
  if (!file_.empty()) {
    if (write_text(file_, list_of(cpus))) return Done{};
    return Error{"cannot write " + file_ + ": " + std::strerror(errno)};
  }
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
      CPU_ALLOC(kCpuListMax + 1), [](cpu_set_t* one) { CPU_FREE(one); });
  const size_t bytes = CPU_ALLOC_SIZE(kCpuListMax + 1);
  CPU_ZERO_S(bytes, set.get());
  for (const uint32_t cpu : cpus) CPU_SET_S(cpu, bytes, set.get());
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(
      ::opendir(in_proc(process_, "task").c_str()), &::closedir);
  if (threads == nullptr) return Done{};  // it has ended
  Status all = Done{};
  while (const dirent* const entry = ::readdir(threads.get())) {
    const auto thread = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (thread > 0 && !place_thread(thread, set.get(), bytes) && all.ok()) {
      all = Error{"cannot set the affinity of thread " + std::to_string(thread) + ": " +
                  std::strerror(errno)};
    }
  }
  return all;
}

}  // namespace rubato
