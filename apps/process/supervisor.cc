// SPDX-License-Identifier: Apache-2.0
#include "process/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "base/time.h"
#include "process/process_tree.h"

namespace rubato {
namespace {

constexpr Nanos kSampleEvery = Nanos::millis(250);
constexpr Nanos kGrace = Nanos::millis(500);  // between SIGTERM and SIGKILL
constexpr Nanos kFirstPause = Nanos::seconds(1);
constexpr Nanos kLongestPause = Nanos::seconds(60);
constexpr Nanos kLongRun = Nanos::seconds(60);  // after such a run the pause is the first again
// The exit statuses of a shell that cannot run a command: a second try is useless.
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

Instant monotonic_now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant(t.tv_sec * 1'000'000'000 + t.tv_nsec);
}

// Runs in the command's process and replaces it by the command.
[[noreturn]] void become_command(const SupervisorOptions& options, pid_t supervisor) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != supervisor) ::_exit(kNotExecutable);
  if (options.group && !options.group->join()) {
    std::fprintf(stderr, "rubato: best-effort: cannot enter %s: %s\n",
                 options.group->folder().c_str(), std::strerror(errno));
    ::_exit(kNotExecutable);
  }
  const sched_param none{};
  if (::sched_setscheduler(0, SCHED_IDLE, &none) != 0) {
    std::fprintf(stderr, "rubato: best-effort: cannot run with SCHED_IDLE: %s\n",
                 std::strerror(errno));
    ::_exit(kNotExecutable);
  }
  // The command also comes last at the disk, and is the first to be killed when memory is short.
  // Neither is essential.
  constexpr int kThisProcess = 1;
  constexpr int kIdleClass = 3 << 13;
  ::syscall(SYS_ioprio_set, kThisProcess, 0, kIdleClass);
  if (FILE* score = std::fopen("/proc/self/oom_score_adj", "w")) {
    std::fputs("1000", score);
    std::fclose(score);
  }
  sigset_t none_blocked;
  sigemptyset(&none_blocked);
  ::sigprocmask(SIG_SETMASK, &none_blocked, nullptr);
  ::execl("/bin/sh", "sh", "-c", options.command.c_str(), static_cast<char*>(nullptr));
  std::fprintf(stderr, "rubato: best-effort: cannot run /bin/sh: %s\n", std::strerror(errno));
  ::_exit(kNotExecutable);
}

class SupervisorLoop {
 public:
  SupervisorLoop(const SupervisorOptions& options, int pipe, SupervisorStatus& status)
      : options_(options), pipe_(pipe), status_(status) {
    sigset_t watched;
    sigemptyset(&watched);
    for (const int one : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&watched, one);
    ::sigprocmask(SIG_SETMASK, &watched, nullptr);
    signals_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  void run() {
    while (!over_) {
      std::array<pollfd, 2> ready{{{pipe_, POLLIN, 0}, {signals_, POLLIN, 0}}};
      ::poll(ready.data(), ready.size(), patience_ms());
      if (ready[0].revents != 0) heed_server();
      if (ready[1].revents != 0) heed_signals();
      if (child_ != 0) sample();
      if (next_start_ != Instant::never() && monotonic_now() >= next_start_) start();
    }
    finish();
  }

 private:
  int patience_ms() const {
    Nanos patience = Nanos::max();
    if (child_ != 0) patience = kSampleEvery;
    if (next_start_ != Instant::never()) patience = next_start_ - monotonic_now();
    if (patience == Nanos::max()) return -1;
    return static_cast<int>(std::max<int64_t>(patience.count() / 1'000'000 + 1, 0));
  }

  // A byte means: begin. The end of the stream means: the server stops, or has died.
  void heed_server() {
    char byte = 0;
    const ssize_t n = ::read(pipe_, &byte, 1);
    if (n > 0) {
      start();
    } else if (n == 0 || errno != EINTR) {
      over_ = true;
    }
  }

  void heed_signals() {
    signalfd_siginfo received{};
    while (::read(signals_, &received, sizeof received) == sizeof received) {
      if (received.ssi_signo != SIGCHLD) over_ = true;
    }
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended == child_) command_ended(status);
    }
  }

  void start() {
    next_start_ = Instant::never();
    if (options_.group) options_.group->hold();
    started_ = monotonic_now();
    const pid_t supervisor = ::getpid();
    child_ = ::fork();
    if (child_ == 0) become_command(options_, supervisor);
    if (child_ < 0) {
      child_ = 0;
      return pause_before_restart();
    }
    status_.starts.fetch_add(1, std::memory_order_relaxed);
    status_.state.store(SupervisorStatus::kRunning, std::memory_order_relaxed);
  }

  // The command is over when its first process ends; the processes that it left behind are ended.
  void command_ended(int status) {
    if (options_.group) options_.group->release();
    kill_descendants();
    sample();
    child_ = 0;
    status_.last_end.store(status, std::memory_order_relaxed);
    status_.ends.fetch_add(1, std::memory_order_relaxed);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (!options_.restart || code == kNotExecutable || code == kNotFound) {
      status_.state.store(SupervisorStatus::kOver, std::memory_order_relaxed);
    } else {
      pause_before_restart();
    }
  }

  // Each run that is short doubles the pause before the next.
  void pause_before_restart() {
    const Nanos ran = monotonic_now() - started_;
    pause_ = ran >= kLongRun || pause_ == Nanos() ? kFirstPause
                                                  : std::min(pause_ * 2, kLongestPause);
    next_start_ = monotonic_now() + pause_;
    status_.pause_ms.store(pause_.count() / 1'000'000, std::memory_order_relaxed);
    status_.state.store(SupervisorStatus::kBetweenRuns, std::memory_order_relaxed);
  }

  // Never goes back: a process that ends while its time is added up is counted later.
  void sample() {
    const int64_t cpu_ns = cpu_time_of_descendants().count();
    if (cpu_ns > status_.cpu_ns.load(std::memory_order_relaxed)) {
      status_.cpu_ns.store(cpu_ns, std::memory_order_relaxed);
    }
  }

  void finish() {
    if (options_.group) options_.group->release();
    signal_descendants(SIGTERM);
    for (Nanos waited; waited < kGrace; waited += Nanos::millis(10)) {
      while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
      if (descendants().empty()) break;
      const timespec moment{0, 10'000'000};
      ::nanosleep(&moment, nullptr);
    }
    kill_descendants();
    if (options_.group) options_.group->remove();
  }

  const SupervisorOptions& options_;
  const int pipe_;
  SupervisorStatus& status_;
  int signals_ = -1;
  pid_t child_ = 0;  // 0 = the command does not run
  Instant started_;
  Instant next_start_ = Instant::never();
  Nanos pause_;
  bool over_ = false;
};

// The server's sockets are not the supervisor's: only the standard streams and the pipe stay open.
[[noreturn]] void keep(const SupervisorOptions& options, int pipe, SupervisorStatus& status) {
  constexpr int kPipe = 3;
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "rubato-keeper");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (pipe != kPipe) ::dup2(pipe, kPipe);
  ::fcntl(kPipe, F_SETFD, FD_CLOEXEC);
  ::close_range(kPipe + 1, ~0u, 0);
  if (const int nothing = ::open("/dev/null", O_RDONLY); nothing >= 0) {
    ::dup2(nothing, STDIN_FILENO);
    ::close(nothing);
  }
  SupervisorLoop(options, kPipe, status).run();
  ::_exit(0);
}

}  // namespace

Result<Supervisor> Supervisor::fork(const SupervisorOptions& options) {
  void* const shared = ::mmap(nullptr, sizeof(SupervisorStatus), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return Error{std::string("no memory: ") + std::strerror(errno)};
  auto* const status = new (shared) SupervisorStatus();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Error{std::string("no pipe: ") + std::strerror(errno)};
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[1]);
    keep(options, ends[0], *status);
  }
  ::close(ends[0]);
  if (pid < 0) {
    ::close(ends[1]);
    return Error{std::string("no process: ") + std::strerror(errno)};
  }
  return Supervisor(pid, ends[1], status);
}

Supervisor::Supervisor(Supervisor&& other) noexcept
    : pid_(other.pid_), pipe_(std::exchange(other.pipe_, -1)), status_(other.status_) {}

Supervisor::~Supervisor() {
  if (pipe_ < 0) return;
  ::close(pipe_);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  ::munmap(status_, sizeof(SupervisorStatus));
}

void Supervisor::begin() {
  const char go = 1;
  // Fails if the supervisor is gone, which its status shows.
  static_cast<void>(!::write(pipe_, &go, 1));
}

}  // namespace rubato
