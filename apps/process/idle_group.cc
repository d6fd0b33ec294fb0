// SPDX-License-Identifier: Apache-2.0
#include "process/idle_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace rubato {
namespace {

bool write_text(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  return written;
}

// The means that keep a group back, the best first.
struct Means {
  const char* file;
  const char* back;
  const char* usual;
};
constexpr Means kMeans[] = {
    {"cpu.idle", "1", "0"}, {"cpu.weight", "1", "100"}, {"cpu.shares", "2", "1024"}};

// The group below which a new group gets the controller: the process's own group, if it may
// distribute its CPU time, as the root may; else the group above it, which already does so.
std::string parent_for(const CpuGroup& place) {
  if (!place.unified) return place.folder;
  const auto shares_cpu = [](const std::string& folder) {
    return cgroup_lists(cgroup_text(folder + "/cgroup.subtree_control"), ' ', "cpu");
  };
  if (shares_cpu(place.folder)) return place.folder;
  if (!cgroup_lists(cgroup_text(place.folder + "/cgroup.controllers"), ' ', "cpu")) return {};
  if (place.folder == place.mount) {
    return write_text(place.folder + "/cgroup.subtree_control", "+cpu") ? place.folder
                                                                        : std::string();
  }
  const std::string above = place.folder.substr(0, place.folder.rfind('/'));
  return shares_cpu(above) ? above : std::string();
}

}  // namespace

Result<IdleGroup> IdleGroup::make(const CpuGroup& place, const std::string& name) {
  if (place.folder.empty()) return Error{"no CPU controller of control groups is mounted"};
  const std::string parent = parent_for(place);
  if (parent.empty()) return Error{place.folder + " has no CPU controller to share out"};
  const std::string folder = parent + "/" + name;
  if (::mkdir(folder.c_str(), 0755) != 0) {
    return Error{"cannot make " + folder + ": " + std::strerror(errno)};
  }
  for (const Means& means : kMeans) {
    if (write_text(folder + "/" + means.file, means.back)) return IdleGroup(folder, means.file);
  }
  ::rmdir(folder.c_str());
  return Error{folder + " cannot be told to stand back"};
}

Result<IdleGroup> IdleGroup::make(const std::string& name) {
  return make(own_cpu_group(), "rubato-best-effort-" + std::to_string(::getpid()) + name);
}

bool IdleGroup::join() const { return write_text(folder_ + "/cgroup.procs", "0"); }

void IdleGroup::release() const {
  for (const Means& means : kMeans) {
    if (means_ == means.file) write_text(folder_ + "/" + means.file, means.usual);
  }
}

void IdleGroup::hold() const {
  for (const Means& means : kMeans) {
    if (means_ == means.file) write_text(folder_ + "/" + means.file, means.back);
  }
}

bool IdleGroup::remove() const { return ::rmdir(folder_.c_str()) == 0; }

}  // namespace rubato
