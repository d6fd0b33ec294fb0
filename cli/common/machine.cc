// SPDX-License-Identifier: Apache-2.0
#include "cli/common/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "mechanism/cpu/features.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos) return std::string(trimmed(line.substr(colon + 1)));
  }
  return cpu_features().vendor.empty() ? "unknown" : cpu_features().vendor;
}

std::string virtualised() {
  if (!cpu_features().hypervisor) return "none";
  const std::string vendor = first_line("/sys/class/dmi/id/sys_vendor");
  return vendor.empty() ? "yes" : vendor;
}

}  // namespace

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(trimmed(line));
}

MachineInfo this_machine() {
  utsname names{};
  ::uname(&names);
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return {.cpu_model = cpu_model(),
          .cores = online > 0 ? static_cast<unsigned>(online) : 0,
          .kernel = std::string(names.sysname) + " " + names.release,
          .virtualised = virtualised()};
}

}  // namespace rubato::cli
