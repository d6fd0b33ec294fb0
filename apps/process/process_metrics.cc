// SPDX-License-Identifier: Apache-2.0
#include "process/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <limits>

#include "mechanism/cpu/process_memory.h"
#include "process/descriptors.h"

namespace rubato {
namespace {

double seconds_of(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// In seconds since 1970. The kernel counts from the boot, in ticks.
double start_time() {
  std::ifstream file("/proc/self/stat");
  file.ignore(std::numeric_limits<std::streamsize>::max(), ')');  // of a name with spaces
  std::string skipped;
  constexpr int kFieldsBefore = 19;
  for (int i = 0; i < kFieldsBefore; ++i) file >> skipped;
  double ticks = 0;
  file >> ticks;
  const double booted = seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME);
  return booted + ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double most_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

void expose_process(OpenMetrics& out, const std::string& version) {
  out.family("rubato_build_info", "gauge", "What this program was made of; always 1.");
  out.gauge(1, OpenMetrics::label("version", version) + "," +
                   OpenMetrics::label("compiler", __VERSION__));
  out.family("process_cpu_seconds", "counter", "CPU time of the process, user and system.");
  out.counter_seconds(seconds_of(CLOCK_PROCESS_CPUTIME_ID));
  const ProcessMemory used = process_memory();
  out.family("process_resident_memory_bytes", "gauge", "Memory that is in RAM.");
  out.gauge(static_cast<double>(used.resident_bytes));
  out.family("process_virtual_memory_bytes", "gauge", "Addresses in use.");
  out.gauge(static_cast<double>(used.virtual_bytes));
  out.family("process_open_fds", "gauge", "Files and sockets that are open.");
  out.gauge(static_cast<double>(open_descriptors()));
  out.family("process_max_fds", "gauge", "Files and sockets that may be open.");
  out.gauge(most_descriptors());
  out.family("process_start_time_seconds", "gauge", "Start of the process, since 1970.");
  static const double started = start_time();  // once: the clock may be set
  out.gauge(started);
}

}  // namespace rubato
