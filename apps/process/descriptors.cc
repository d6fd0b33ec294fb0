// SPDX-License-Identifier: Apache-2.0
#include "process/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>

#include "base/log.h"

namespace rubato {
namespace {

constexpr uint64_t kUnknownOpen = 64;  // where /proc cannot be read

std::string files_allowed(uint64_t files) {
  return "the system lets this process open " + std::to_string(files) + " files (ulimit -n)";
}

}  // namespace

uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return UINT64_MAX;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : before;
}

uint64_t open_descriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return kUnknownOpen;
  uint64_t entries = 0;
  while (readdir(folder) != nullptr) ++entries;
  closedir(folder);
  constexpr uint64_t kNotCounted = 3;  // ".", ".." and the folder itself
  return entries - std::min(entries, kNotCounted);
}

Status fit_connections(const ConnectionLimit& limit) {
  if (limit.wanted == 0) return Done{};
  const uint64_t files = raise_descriptor_limit();
  const uint64_t needed = open_descriptors() + limit.kept;
  const uint64_t left = files - std::min(files, needed);
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(left, UINT32_MAX));
  if (limit.report && most > 0) limit.report(most);
  if (most >= limit.wanted) return Done{};
  if (most == 0) {
    return Error{files_allowed(files) + ", which leaves none for connections: this server needs " +
                 std::to_string(needed) + " itself"};
  }
  log_line(LogLevel::kWarning, LogEvent::kConnections,
           "maxclients is lowered to " + std::to_string(most) + ": " + files_allowed(files) +
               ", and the server needs " + std::to_string(needed) + " itself");
  return Done{};
}

}  // namespace rubato
