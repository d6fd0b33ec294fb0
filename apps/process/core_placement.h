// SPDX-License-Identifier: Apache-2.0
//
// CorePlacement: keeps the threads of another process on some CPUs. The means is the cpuset of the
// process's control group, version 1 or 2, if it has a group to itself and the group can be
// written, as a service of systemd's has; else the affinity of each of its threads, which new
// threads inherit. Nothing is moved from group to group, so whoever made the groups finds the
// processes where they were. One owner.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace rubato {

class CorePlacement {
 public:
  explicit CorePlacement(pid_t process);
  CorePlacement(CorePlacement&& other) noexcept;
  CorePlacement& operator=(CorePlacement&&) = delete;
  // The group has the CPUs that it had before.
  ~CorePlacement();

  // From the return on no thread starts to run elsewhere, but for those that could not be placed:
  // then it fails with one line, of the first of them. Requires CPUs.
  Status place(const std::vector<uint32_t>& cpus) const;

  // "cpuset of FOLDER", or "affinity: WHY".
  const std::string& means() const { return means_; }

 private:
  const pid_t process_;
  std::string file_;    // cpuset.cpus of its group; empty = the affinity
  std::string before_;  // its contents
  std::string means_;
};

}  // namespace rubato
