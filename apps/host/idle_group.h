// SPDX-License-Identifier: Apache-2.0
//
// IdleGroup: a control group of the kernel's CPU controller, version 1 or 2, whose processes run on
// what all others leave (cpu.idle; where the kernel has none, the least weight). It lies below this
// process's own group or, where version 2 forbids that, beside it. A value that names the group:
// its maker removes it. Set-up and end only; one owner at a time.
//
// Why a group, where SCHED_IDLE says the same of single threads: the kernel weighs threads within
// their group, and groups against each other. With autogroups every session is one, so an idle
// thread of another session gets as much as a server's worker.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "mechanism/cpu/cgroup.h"

namespace rubato {

class IdleGroup {
 public:
  // A new group for the place. Fails with one line that says what is missing: the controller, or
  // the right to make groups.
  static Result<IdleGroup> make(const CpuGroup& place, const std::string& name);
  // For this process.
  static Result<IdleGroup> make();

  // The calling process, and all that it starts, is in the group from now on. False = refused.
  bool join() const;
  // Its processes run as others do, so that they can come to their end beside a busy machine: a
  // process that is killed must run once more. And stand back again.
  void release() const;
  void hold() const;
  // No process is left in it: it ceases to exist. False = some are, or it is gone.
  bool remove() const;

  const std::string& folder() const { return folder_; }
  // What keeps its processes back: "cpu.idle", or "cpu.weight", "cpu.shares".
  const char* means() const { return means_; }

 private:
  IdleGroup(std::string folder, const char* means) : folder_(std::move(folder)), means_(means) {}

  std::string folder_;
  const char* means_;
};

}  // namespace rubato
