// SPDX-License-Identifier: Apache-2.0
//
// IdleGroup: a control group of the kernel's CPU controller, version 1 or 2, whose processes run on
// the CPU time that all others leave (cpu.idle; where the kernel lacks it, the least weight). The
// group lies below this process's own group or, where version 2 forbids that, beside it. A value
// that names the group: the code that makes the group removes it. Set-up and end only; one owner at
// a time.
//
// A group is needed besides SCHED_IDLE, which marks single threads: the kernel weighs threads
// within their group, and groups against each other. With autogroups every session is a group, so
// an idle thread of another session gets as much as a server's worker.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "mechanism/cpu/cgroup.h"

namespace rubato {

class IdleGroup {
 public:
  // A new group for the place. Fails with one line that names the missing part: the controller, or
  // the right to make groups.
  static Result<IdleGroup> make(const CpuGroup& place, const std::string& name);
  // For this process; `name` tells several apart.
  static Result<IdleGroup> make(const std::string& name = "");

  // Puts the calling process, and every process that it starts, into the group. False = refused.
  bool join() const;
  // release() lets the group's processes run as others do, so that they can end on a busy machine:
  // a killed process must run once more. hold() keeps them back again.
  void release() const;
  void hold() const;
  // Removes the group, which must be empty. False = it has processes, or is gone already.
  bool remove() const;

  const std::string& folder() const { return folder_; }
  // The file that keeps its processes back: "cpu.idle", "cpu.weight" or "cpu.shares".
  const char* means() const { return means_; }

 private:
  IdleGroup(std::string folder, const char* means) : folder_(std::move(folder)), means_(means) {}

  std::string folder_;
  const char* means_;
};

}  // namespace rubato
