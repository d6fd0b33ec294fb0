// SPDX-License-Identifier: Apache-2.0
#include "mechanism/cpu/cgroup.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "mechanism/cpu/pin.h"

namespace rubato {
namespace {

std::vector<std::string> words(std::string_view text, char separator) {
  std::vector<std::string> all;
  std::istringstream stream{std::string(text)};
  for (std::string word; std::getline(stream, word, separator);) all.push_back(word);
  return all;
}

struct Mount {
  std::string root;  // the group that is mounted there
  std::string folder;
  bool unified = false;
};

// "36 35 98:0 /root /mnt rw shared:1 - cgroup cgroup rw,cpu": the fields before " - " are four and
// more, those behind it three.
bool parse_mount(const std::string& line, std::string_view controller, Mount& mount) {
  const size_t dash = line.find(" - ");
  if (dash == std::string::npos) return false;
  const std::vector<std::string> before = words(line.substr(0, dash), ' ');
  const std::vector<std::string> after = words(line.substr(dash + 3), ' ');
  if (before.size() < 5 || after.size() < 3) return false;
  mount = {before[3], before[4], after[0] == "cgroup2"};
  return mount.unified || (after[0] == "cgroup" && cgroup_lists(after[2], ',', controller));
}

std::string place_in(const Mount& mount, std::string path) {
  const size_t root = mount.root.size();
  const bool below = path.rfind(mount.root, 0) == 0 && (path.size() == root || path[root] == '/');
  if (mount.root != "/" && below) path.erase(0, root);
  return path == "/" || path.empty() ? mount.folder : mount.folder + path;
}

// The path of "N:CONTROLLERS:PATH", the controllers being none for version 2.
bool path_of(std::string_view groups, std::string_view controller, bool unified,
             std::string& path) {
  for (const std::string& line : words(groups, '\n')) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_it = unified ? controllers.empty() : cgroup_lists(controllers, ',', controller);
    if (!is_it) continue;
    path = line.substr(second + 1);
    return true;
  }
  return false;
}

// "200000 100000", "max 100000"; version 1 has two files with a number each, the first negative for
// no limit.
double own_quota(const std::string& folder, bool unified) {
  std::istringstream text(unified ? cgroup_text(folder + "/cpu.max")
                                  : cgroup_text(folder + "/cpu.cfs_quota_us") + " " +
                                        cgroup_text(folder + "/cpu.cfs_period_us"));
  double quota = 0;
  double period = 0;
  const bool limited = static_cast<bool>(text >> quota >> period) && quota > 0 && period > 0;
  return limited ? quota / period : std::numeric_limits<double>::infinity();
}

}  // namespace

std::string cgroup_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool cgroup_lists(std::string_view text, char separator, std::string_view word) {
  for (std::string& one : words(text, separator)) {
    while (!one.empty() && one.back() == '\n') one.pop_back();
    if (one == word) return true;
  }
  return false;
}

CpuGroup find_cpu_group(std::string_view mounts, std::string_view groups,
                        std::string_view controller) {
  CpuGroup found;
  for (const std::string& line : words(mounts, '\n')) {
    Mount mount;
    std::string path;
    if (!parse_mount(line, controller, mount)) continue;
    if (!path_of(groups, controller, mount.unified, path)) continue;
    if (!found.folder.empty() && mount.unified) continue;
    found = {place_in(mount, path), mount.folder, mount.unified};
  }
  return found;
}

CpuGroup own_cpu_group() {
  return find_cpu_group(cgroup_text("/proc/self/mountinfo"), cgroup_text("/proc/self/cgroup"));
}

double cpu_quota(const CpuGroup& group) {
  double least = std::numeric_limits<double>::infinity();
  std::string folder = group.folder;
  while (!folder.empty() && folder.size() >= group.mount.size()) {
    least = std::min(least, own_quota(folder, group.unified));
    folder.erase(std::min(folder.rfind('/'), folder.size()));
  }
  return least;
}

uint32_t usable_cpus(uint32_t allowed, double quota) {
  const double whole = std::min(std::floor(quota), double{1} * allowed);
  return std::max(static_cast<uint32_t>(whole), 1u);
}

uint32_t usable_cpus() {
  return usable_cpus(static_cast<uint32_t>(allowed_cpus().size()), cpu_quota(own_cpu_group()));
}

}  // namespace rubato
