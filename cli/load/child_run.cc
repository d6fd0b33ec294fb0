// SPDX-License-Identifier: Apache-2.0
#include "cli/load/child_run.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace rubato::cli {
namespace {

Error system_trouble(const char* what) {
  return {std::string("cannot start a generator: ") + what + ": " + std::strerror(errno)};
}

std::string text_of(const load::Fd& file) {
  std::string text;
  std::array<char, 65536> piece;
  ssize_t got = 0;
  while ((got = ::pread(file.get(), piece.data(), piece.size(),
                        static_cast<off_t>(text.size()))) > 0) {
    text.append(piece.data(), static_cast<size_t>(got));
  }
  return text;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t newline = text.rfind('\n');
  return newline == std::string::npos ? text : text.substr(newline + 1);
}

// In the child: it becomes the program, or ends with the status of a shell that finds none.
[[noreturn]] void become(const std::vector<char*>& argv, int out, int err) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execv("/proc/self/exe", argv.data());
  ::_exit(127);
}

}  // namespace

Result<ChildRun> ChildRun::start(const std::vector<std::string>& args) {
  ChildRun run;
  run.out_ = load::Fd(::memfd_create("report", MFD_CLOEXEC));
  run.err_ = load::Fd(::memfd_create("said", MFD_CLOEXEC));
  if (!run.out_.open() || !run.err_.open()) return system_trouble("memfd_create");
  std::vector<std::string> words = {"rubato", "load"};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return system_trouble("fork");
  if (child == 0) become(argv, run.out_.get(), run.err_.get());
  run.process_ = load::Fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (!run.process_.open()) {
    const Error trouble = system_trouble("pidfd_open");
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return trouble;
  }
  return run;
}

ChildRun::~ChildRun() {
  if (!process_.open()) return;
  ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
  end();
}

RunEnd ChildRun::end() {
  siginfo_t info{};
  ::waitid(P_PIDFD, static_cast<id_t>(process_.get()), &info, WEXITED);
  process_.reset();
  const int status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  return {status, last_line(text_of(err_)), text_of(out_)};
}

}  // namespace rubato::cli
