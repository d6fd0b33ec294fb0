// SPDX-License-Identifier: Apache-2.0
#include "process/process_tree.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace rubato {
namespace {

constexpr size_t kMostProcesses = 100'000;

// /proc lists the children of each thread separately.
void append_children(pid_t process, std::vector<pid_t>& all) {
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  std::error_code gone;
  for (auto task = std::filesystem::directory_iterator(tasks, gone);
       !gone && task != std::filesystem::directory_iterator(); task.increment(gone)) {
    std::ifstream file(task->path() / "children");
    for (pid_t child = 0; file >> child && all.size() < kMostProcesses;) all.push_back(child);
  }
}

// The CPU time of one process and the children that it waited for; fields 14 to 17 of proc(5),
// "stat".
int64_t ticks_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  int64_t sum = 0;
  int64_t ticks = 0;
  for (int i = 14; i < 18 && fields >> ticks; ++i) sum += ticks;
  return sum;
}

Nanos of(const timeval& time) {
  return Nanos::seconds(time.tv_sec) + Nanos::micros(time.tv_usec);
}

}  // namespace

std::vector<pid_t> descendants() {
  std::vector<pid_t> all;
  append_children(::getpid(), all);
  for (size_t i = 0; i < all.size(); ++i) append_children(all[i], all);
  return all;
}

Nanos cpu_time_of_descendants() {
  rusage ended{};
  ::getrusage(RUSAGE_CHILDREN, &ended);
  int64_t ticks = 0;
  for (const pid_t process : descendants()) ticks += ticks_of(process);
  const int64_t tick_ns = 1'000'000'000 / ::sysconf(_SC_CLK_TCK);
  return of(ended.ru_utime) + of(ended.ru_stime) + Nanos(ticks * tick_ns);
}

// A process of SCHED_IDLE may never run on a busy machine, and so never end: it gets the usual
// policy, where that is allowed.
void signal_descendants(int signal) {
  const sched_param none{};
  for (const pid_t process : descendants()) {
    ::kill(process, signal);
    ::sched_setscheduler(process, SCHED_OTHER, &none);
  }
}

void kill_descendants() {
  for (;;) {
    signal_descendants(SIGKILL);
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0 && errno == ECHILD) return;
    if (ended > 0) continue;
    const timespec moment{0, 2'000'000};
    ::nanosleep(&moment, nullptr);
  }
}

}  // namespace rubato
