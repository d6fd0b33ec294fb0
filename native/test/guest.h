// SPDX-License-Identifier: Apache-2.0
//
// The functions that the only program of an emulated machine needs, for any module under test: to
// print result lines, to wait, and to end the machine. One thread reports.
#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <string>

namespace rubato::guest {

inline int g_failures = 0;

// Waits until the line is written, so that the kernel's own messages do not come in between.
inline void flush() {
  std::fflush(stdout);
  ::tcdrain(STDOUT_FILENO);
}

inline void report(bool good, const std::string& what) {
  std::printf("%s %s\n", good ? "PASS" : "FAIL", what.c_str());
  flush();
  if (!good) ++g_failures;
}

inline double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Waits for `ready`, at most half a minute: the emulating machine may be busy.
template <class Ready>
bool wait_for(Ready ready) {
  const double end = seconds_now() + 30;
  while (!ready()) {
    if (seconds_now() > end) return false;
    sched_yield();
  }
  return true;
}

inline bool pin(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

inline void mount_all() {
  ::mount("proc", "/proc", "proc", 0, nullptr);
  ::mount("sysfs", "/sys", "sysfs", 0, nullptr);
  ::mount("dev", "/dev", "devtmpfs", 0, nullptr);
}

}  // namespace rubato::guest
