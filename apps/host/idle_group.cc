// SPDX-License-Identifier: Apache-2.0
#include "host/idle_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace rubato {
namespace {

bool write_text(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  return written;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> words(std::string_view text, char separator) {
  std::vector<std::string> all;
  std::istringstream stream{std::string(text)};
  for (std::string word; std::getline(stream, word, separator);) all.push_back(word);
  return all;
}

bool lists(std::string_view text, char separator, std::string_view word) {
  for (std::string& one : words(text, separator)) {
    while (!one.empty() && one.back() == '\n') one.pop_back();
    if (one == word) return true;
  }
  return false;
}

// What keeps a group back, the best first.
struct Means {
  const char* file;
  const char* back;
  const char* usual;
};
constexpr Means kMeans[] = {
    {"cpu.idle", "1", "0"}, {"cpu.weight", "1", "100"}, {"cpu.shares", "2", "1024"}};

struct Mount {
  std::string root;  // the group that is mounted there
  std::string folder;
  bool unified = false;
};

// "36 35 98:0 /root /mnt rw shared:1 - cgroup cgroup rw,cpu": the fields before " - " are four and
// more, those behind it three.
bool parse_mount(const std::string& line, Mount& mount) {
  const size_t dash = line.find(" - ");
  if (dash == std::string::npos) return false;
  const std::vector<std::string> before = words(line.substr(0, dash), ' ');
  const std::vector<std::string> after = words(line.substr(dash + 3), ' ');
  if (before.size() < 5 || after.size() < 3) return false;
  mount = {before[3], before[4], after[0] == "cgroup2"};
  return mount.unified || (after[0] == "cgroup" && lists(after[2], ',', "cpu"));
}

std::string place_in(const Mount& mount, std::string path) {
  if (mount.root != "/" && path.rfind(mount.root, 0) == 0) path.erase(0, mount.root.size());
  return path == "/" || path.empty() ? mount.folder : mount.folder + path;
}

// The path of "N:CONTROLLERS:PATH", the controllers being none for version 2.
bool path_of(std::string_view groups, bool unified, std::string& path) {
  for (const std::string& line : words(groups, '\n')) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (unified ? !controllers.empty() : !lists(controllers, ',', "cpu")) continue;
    path = line.substr(second + 1);
    return true;
  }
  return false;
}

// The group below which a new one gets the controller: the own group, if that is allowed to share
// out what it has, as the root is; else the one above, which must be doing so.
std::string parent_for(const IdleGroup::Place& place) {
  if (!place.unified) return place.folder;
  const auto shares_cpu = [](const std::string& folder) {
    return lists(read_text(folder + "/cgroup.subtree_control"), ' ', "cpu");
  };
  if (shares_cpu(place.folder)) return place.folder;
  if (!lists(read_text(place.folder + "/cgroup.controllers"), ' ', "cpu")) return {};
  if (place.folder == place.mount) {
    return write_text(place.folder + "/cgroup.subtree_control", "+cpu") ? place.folder
                                                                        : std::string();
  }
  const std::string above = place.folder.substr(0, place.folder.rfind('/'));
  return shares_cpu(above) ? above : std::string();
}

}  // namespace

IdleGroup::Place IdleGroup::find(std::string_view mounts, std::string_view groups) {
  Place found;
  for (const std::string& line : words(mounts, '\n')) {
    Mount mount;
    std::string path;
    if (!parse_mount(line, mount) || !path_of(groups, mount.unified, path)) continue;
    if (!found.folder.empty() && mount.unified) continue;
    found = {place_in(mount, path), mount.folder, mount.unified};
  }
  return found;
}

Result<IdleGroup> IdleGroup::make(const Place& place, const std::string& name) {
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

Result<IdleGroup> IdleGroup::make() {
  return make(find(read_text("/proc/self/mountinfo"), read_text("/proc/self/cgroup")),
              "rubato-best-effort-" + std::to_string(::getpid()));
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
