// SPDX-License-Identifier: Apache-2.0
#include "cli/load/child_run.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

namespace rubato::cli {
namespace {

constexpr char kReadyWord[] = "ready\n", kGoWord[] = "go\n";
constexpr Nanos kLook = Nanos::millis(100);  // for *stop, where a signal came just before a wait
constexpr size_t kMostPassword = 1 << 16;

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
[[noreturn]] void become(const std::vector<char*>& argv, int in, int out, int err) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execv("/proc/self/exe", argv.data());
  ::_exit(127);
}

// To a socket that has room for so little.
void say(int to, std::string_view words) {
  while (::send(to, words.data(), words.size(), MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
}

}  // namespace

Result<ChildRun> ChildRun::start(const std::vector<std::string>& args,
                                 const std::string& password) {
  ChildRun run;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_trouble("socketpair");
  }
  run.link_ = load::Fd(ends[0]);
  const load::Fd in(ends[1]);
  run.out_ = load::Fd(::memfd_create("report", MFD_CLOEXEC));
  run.err_ = load::Fd(::memfd_create("said", MFD_CLOEXEC));
  if (!run.out_.open() || !run.err_.open()) return system_trouble("memfd_create");
  std::vector<std::string> words = {"rubato", "load", "--part"};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return system_trouble("fork");
  if (child == 0) become(argv, in.get(), run.out_.get(), run.err_.get());
  run.process_ = load::Fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (!run.process_.open()) {
    const Error trouble = system_trouble("pidfd_open");
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return trouble;
  }
  say(run.link_.get(), password + '\0');
  return run;
}

ChildRun::~ChildRun() {
  if (!process_.open()) return;
  ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
  end();
}

PartEvent ChildRun::look(RunEnd& end_of_run) {
  if (!ready_) {
    std::array<char, sizeof kReadyWord> word;
    const ssize_t got = ::recv(link_.get(), word.data(), word.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return PartEvent::kNothing;
    ready_ = true;  // or it has ended
    if (got > 0) return PartEvent::kReady;
  }
  end_of_run = end();
  return PartEvent::kEnded;
}

void ChildRun::go() { say(link_.get(), kGoWord); }

void ChildRun::interrupt() {
  ::syscall(SYS_pidfd_send_signal, process_.get(), SIGINT, nullptr, 0);
}

RunEnd ChildRun::end() {
  siginfo_t info{};
  ::waitid(P_PIDFD, static_cast<id_t>(process_.get()), &info, WEXITED);
  process_.reset();
  const int status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  return {status, last_line(text_of(err_)), text_of(out_)};
}

Result<std::string> read_part_password() {
  std::string password;
  for (char byte = 1; password.size() < kMostPassword;) {
    const ssize_t got = ::recv(STDIN_FILENO, &byte, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (byte == '\0') return password;
    password += byte;
  }
  return Error{"--part: is for the processes that `rubato load` starts"};
}

Status await_go(const volatile std::sig_atomic_t* stop) {
  say(STDIN_FILENO, std::string_view(kReadyWord));
  while (*stop == 0) {
    if (!load::wait_readable(STDIN_FILENO, kLook)) continue;
    char byte = 0;
    const ssize_t got = ::recv(STDIN_FILENO, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return Error{"whose run it is a part of is gone"};
    return Done{};  // the first of kGoWord
  }
  return Error{"interrupted before its begin"};
}

}  // namespace rubato::cli
